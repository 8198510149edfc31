"""The checks of this folder, and the laws, reject kernels with one line broken and accept the same build unbroken."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.kernels.linear_cases import Case
from tests.kernels.test_linear_values import judge
from threefold.kernels import build, native
from threefold.kernels.native import available
from threefold.laws.all import LAWS
from threefold.laws.law import judge as judged
from threefold.laws.ours import MixerSubject
from threefold.specs.attention import Linear
from threefold.specs.features import Taylor
from threefold.specs.positions import Decay
from threefold.specs.recurrent import GRU, LSTM, RNN

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}"),
]
MUTANTS = {
    "nothing": ("vec.h", "", "", "", ""),
    "the last token of a block is left out of the state": (
        "linear_core.h",
        "for (int t = 0; t < BLOCK; ++t)\n#pragma GCC unroll 4\n        for (int n = 0; n < N; ++n) {",
        "for (int t = 0; t < BLOCK - 1; ++t)\n#pragma GCC unroll 4\n        for (int n = 0; n < N; ++n) {",
        "plain",
        "forms",
    ),
    "a block sees one token ahead": (
        "linear_block.h",
        "between[u][t] = t < u ? R(0)",
        "between[u][t] = t + 1 < u ? R(0)",
        "plain",
        "forms",
    ),
    "the state does not fade": (
        "linear_block.h",
        "whole = R(wanted);",
        "whole = R(1);",
        "decay",
        "forms",
    ),
    "the normaliser has no gradient": (
        "linear_backward.h",
        "if (owner) dn[i] = -by * dot(",
        "if (owner) dn[i] = 0 * dot(",
        "plain",
        "gradient",
    ),
    "a padded token enters the state": (
        "linear_block.h",
        "on_rows[BLOCK + t] = until_end[t] * real[t];",
        "on_rows[BLOCK + t] = until_end[t];",
        "padded",
        "padding",
    ),
}
STEPS = {
    "a step of linear attention does not fade": (
        "linear_step.h",
        "const R fade = R(fade_factor(c, h));",
        "const R fade = 1;",
        Linear(heads=2, key_dim=3, features=Taylor(2), position=Decay()),
    ),
    "a step of linear attention reads the state before it is written": (
        "linear_step.h",
        "sum[j] += r * s;",
        "sum[j] += r * old[j] * fade;",
        Linear(heads=2, key_dim=3, features=Taylor(2)),
    ),
    "a step of an LSTM forgets its old cell": (
        "recurrent_step.h",
        "u * candidate + f * entry(c.c0, i, n)",
        "u * candidate",
        LSTM(),
    ),
    "a step of a GRU loses its inner bias": (
        "recurrent_step.h",
        "const Lane<R> m = sum(b, 3) + entry(c.inner, j, n);",
        "const Lane<R> m = sum(b, 3);",
        GRU(),
    ),
    "a step of an RNN loses its last unit's bias": (
        "recurrent_step.h",
        "return sum(b, g) + entry(c.bias, g * N + j, N - j);",
        "return sum(b, g) + entry(c.bias, g * N + j, N - j - 1);",
        RNN(),
    ),
}
CASES = {
    "": Case(T=40),
    "plain": Case(T=40),
    "decay": Case(T=40, decay=True),
    "padded": Case(T=40, masked=True, normalised=True),
}


@pytest.fixture
def mutated(request, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """The library built from changed sources, for the baseline only, in the place of the real one."""
    file, line, change, *_ = (MUTANTS | STEPS)[request.param]
    sources = tmp_path / "cpp"
    shutil.copytree(build.SOURCES, sources)
    text = (sources / file).read_text()
    assert not line or text.count(line) == 1, f"{file} no longer holds {line!r} once"
    (sources / file).write_text(text.replace(line, change) if line else text)
    monkeypatch.setattr(build, "instruction_sets", lambda: {"base": ()})
    made = native.load(build.build(tmp_path / "_native.so", ("-O1",), sources), sources)
    made.best = made.isa = "base"
    monkeypatch.setattr(native, "native", lambda: made)
    monkeypatch.setattr("threefold.kernels.linear.native", lambda: made)
    monkeypatch.setattr("threefold.kernels.recurrent_step.native", lambda: made)
    yield request.param


@pytest.mark.parametrize("mutated", MUTANTS, indirect=True, ids=lambda name: name.replace(" ", "-"))
def test_a_broken_kernel_is_rejected(mutated: str) -> None:
    *_, kind, law = MUTANTS[mutated]
    names = (law,) if law else ("forms", "gradient", "padding")
    position = Decay() if kind == "decay" else None
    spec = Linear(heads=2, key_dim=3, value_dim=5, features=Taylor(2), position=position)
    verdicts = judged(MixerSubject(spec, 12), tuple(each for each in LAWS if each.name in names))
    assert len(verdicts) == len(names)
    if not law:
        judge(CASES[kind], torch.float64)
        assert not any(verdict.broken for verdict in verdicts)
        return
    assert all(verdict.broken for verdict in verdicts), f"{law} let it pass"
    with pytest.raises(AssertionError):
        judge(CASES[kind], torch.float64)


STREAMING = tuple(law for law in LAWS if law.name == "streaming")


@pytest.mark.parametrize("mutated", ["nothing", *STEPS], indirect=True, ids=lambda name: name.replace(" ", "-"))
def test_a_broken_step_is_rejected(mutated: str) -> None:
    specs = [STEPS[mutated][-1]] if mutated in STEPS else [spec for *_, spec in STEPS.values()]
    for spec in specs:
        (verdict,) = judged(MixerSubject(spec, 12), STREAMING)
        assert verdict.broken == (mutated in STEPS), verdict
