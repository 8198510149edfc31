"""Judging leaves the process as it was."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from threefold.laws import LAWS, Claims, ModuleSubject, judge
from threefold.laws.guard import global_state, seeded, untouched


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b
        for a, b in zip(one.values(), other.values(), strict=True)
    )


def disturb() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.backends.mha.set_fastpath_enabled(False)
    torch.set_num_threads(torch.get_num_threads() + 1)


@pytest.mark.parametrize("raising", [False, True])
def test_everything_comes_back(raising: bool) -> None:
    before = global_state()
    try:
        with untouched():
            disturb()
            assert not same(before, global_state())
            if raising:
                raise ValueError
    except ValueError:
        pass
    assert same(before, global_state())


def test_a_seed_holds_inside_and_leaves_no_trace() -> None:
    before = global_state()
    with seeded(3):
        first = torch.rand(2), np.random.rand(), random.random()  # noqa: NPY002
    with pytest.raises(KeyError), seeded(3):
        assert torch.equal(torch.rand(2), first[0])
        assert (np.random.rand(), random.random()) == first[1:]  # noqa: NPY002
        raise KeyError
    assert same(before, global_state())


class Rude(nn.Module):
    """Disturbs everything, then may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        random.seed(1)
        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        if x.shape[1] > 20:
            raise ValueError("too long")
        return self.norm(self.map(x).cumsum(1).transpose(1, 2)).transpose(1, 2)


def test_a_rude_layer_is_named_and_its_traces_are_removed() -> None:
    before = global_state()
    subject = ModuleSubject(Rude, "Rude", Claims(causal=True))
    found = {verdict.law: verdict for verdict in judge(subject)}
    assert same(before, global_state())
    assert found["determinism"].broken
    where = found["determinism"].where
    assert where is not None and "random stream" in where.finding.what
    assert any("too long" in note for note in found["causal"].notes)


def test_a_judged_module_keeps_its_mode_weights_and_statistics() -> None:
    module = nn.Sequential(nn.BatchNorm1d(5), nn.Conv1d(5, 5, 1)).train()

    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.transpose(1, 2)).transpose(1, 2)

    subject = ModuleSubject(Held, "Held", Claims(causal=True), width=5)
    held = subject.module()
    kept = {name: value.clone() for name, value in held.state_dict().items()}
    judge(subject, tuple(law for law in LAWS if law.name in ("causal", "batch", "gradient")))
    assert all(torch.equal(value, kept[name]) for name, value in held.state_dict().items())
    assert not held.training, "judged in eval mode, and left in it"
