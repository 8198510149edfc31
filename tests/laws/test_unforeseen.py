"""Layers that the laws were not written for: broken ones are caught by the right law, unusual ones are let be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from threefold.laws import LAWS, Claims, Subject, judge
from threefold.laws.target import subject_of

CAUSAL = Claims(causal=True)


class Convolution(nn.Module):
    """A causal window of three."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(functional.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)


class PaddedOnTheOtherSide(Convolution):
    def forward(self, x: Tensor) -> Tensor:
        return self.conv(functional.pad(x.transpose(1, 2), (0, 2))).transpose(1, 2)


class NormalisedOverTime(Convolution):
    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(super().forward(x).transpose(1, 2), x.shape[1:2]).transpose(1, 2)


class StatisticsOfTheBatch(Convolution):
    """BatchNorm that keeps no running statistics: a batch's in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x)[:, -1:].transpose(1, 2)).transpose(1, 2) + super().forward(x)


class Biased(nn.Module):
    """Causal attention with a learned bias by distance, up to 40."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.table = nn.Linear(6, 18), nn.Parameter(torch.randn(41))

    def offset(self, T: int) -> int:
        return 0

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.map(x).chunk(3, -1)
        at = torch.arange(x.shape[1], device=x.device)
        apart = (at[:, None] - at + self.offset(x.shape[1])).clamp(0, 40)
        scores = q @ k.transpose(1, 2) + self.table[apart]
        return scores.masked_fill(at[:, None] < at, float("-inf")).softmax(-1) @ v


class OffByOneWhenLong(Biased):
    def offset(self, T: int) -> int:
        return 1 if T > 40 else 0


class DividesByLength(Convolution):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).cumsum(1) / x.shape[1]


class Cached(nn.Module):
    """Uniform attention over a cache of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x).cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]

    def init_state(self, batch: int) -> Any:
        return self.map.weight.new_zeros(batch, 512, 6), 0

    def step(self, x: Tensor, state: Any) -> Any:
        cache, count = state
        cache = self.owned(cache)
        cache[:, count] = self.map(x)
        return cache[:, : count + 1].mean(1), (cache, count + 1)

    def owned(self, cache: Tensor) -> Tensor:
        return cache.clone()


class SharedCache(Cached):
    """Every branch of a beam writes into one cache."""

    def owned(self, cache: Tensor) -> Tensor:
        return cache.detach()


class Dropping(Convolution):
    """Drops in eval mode too, where the sequence is long."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x), 0.1, training=x.shape[1] > 100)


class Masked(nn.Module):
    """Attention without order, with a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 18)

    def hidden(self, padded: Tensor) -> Tensor:
        return padded

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.map(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2)
        if key_padding_mask is not None:
            hidden = self.hidden(key_padding_mask)
            scores = scores.masked_fill(hidden[:, None], -1e30)
            v = v.masked_fill(hidden[..., None], 0)
        return scores.softmax(-1) @ v


class MaskedByAnotherRule(Masked):
    """One row alone is masked the other way round than many."""

    def hidden(self, padded: Tensor) -> Tensor:
        return ~padded if len(padded) > 1 else padded


class Chunks(nn.Module):
    """Linear attention in chunks of a size that nothing tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 18)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.map(x).chunk(3, -1)
        state, ys = torch.zeros(len(x), 6, 6, dtype=x.dtype), []
        for start in range(0, x.shape[1], 64):
            queries, keys, values = (part[:, start : start + 64] for part in (q, k, v))
            ys.append(queries @ state + (queries @ keys.transpose(1, 2)).tril() @ values)
            state = state + keys.transpose(1, 2) @ values
        return torch.cat(ys, 1)


class Whole(Chunks):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.map(x).chunk(3, -1)
        return (q @ k.transpose(1, 2)).tril() @ v


class Cyclic(nn.Module):
    """A global filter: it follows every shift around, and no other reordering."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(300, 6))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        product = torch.fft.rfft(x, dim=1) * torch.fft.rfft(self.filter[:n].to(x.dtype), dim=0)
        return torch.fft.irfft(product, n, dim=1)


@pytest.mark.parametrize(
    ("broken", "sound", "law", "claims"),
    [
        (PaddedOnTheOtherSide, Convolution, "causal", CAUSAL),
        (NormalisedOverTime, Convolution, "causal", CAUSAL),
        (StatisticsOfTheBatch, Convolution, "batch", CAUSAL),
        (OffByOneWhenLong, Biased, "causal", CAUSAL),
        (DividesByLength, Convolution, "causal", CAUSAL),
        (SharedCache, Cached, "streaming", CAUSAL),
        (Dropping, Convolution, "determinism", CAUSAL),
        (MaskedByAnotherRule, Masked, "padding", Claims()),
        (Whole, Chunks, "growth", Claims(causal=True, growth=1)),
        (Masked, Cyclic, "permutation", Claims(causal=False, permutes=False)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_broken_layer_is_caught_by_its_law(broken: Any, sound: Any, law: str, claims: Claims) -> None:
    laws = tuple(each for each in LAWS if each.name == law)
    (verdict,) = judge(subject_of(broken, claims=claims), laws)
    assert verdict.broken and verdict.where is not None, verdict
    (verdict,) = judge(subject_of(sound, claims=claims), laws)
    assert verdict.ok, verdict


def test_a_neighbour_is_shown_beside_another_row() -> None:
    laws = tuple(each for each in LAWS if each.name == "batch")
    (verdict,) = judge(subject_of(StatisticsOfTheBatch, claims=CAUSAL), laws)
    assert verdict.where is not None and verdict.where.case.B == 2


def test_a_mistake_that_shows_at_length_41_shrinks_to_it() -> None:
    (verdict,) = judge(
        subject_of(OffByOneWhenLong, claims=CAUSAL), tuple(each for each in LAWS if each.name == "causal")
    )
    assert verdict.where is not None and verdict.where.case.T == 41
    assert "an earlier output is another" in verdict.where.finding.remark


class TupleOut(nn.Module):
    """Gives its weights away beside its output, in a dict in a tuple, and takes time first without saying so."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        weights = self.map(x).softmax(-1)
        return torch.tanh(self.map(x)).cumsum(0), {"weights": weights.mean(-1)}


class NeedsMask(nn.Module):
    """Cannot be called without a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(5, 5)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = torch.where(mask[..., None], x, torch.zeros_like(x))
        return torch.tanh(self.map(x)) + (self.map(x) * mask[..., None]).sum(1, keepdim=True)


class Complex(nn.Module):
    """A diagonal recurrence of complex numbers, whose output is complex."""

    def __init__(self) -> None:
        super().__init__()
        self.angle, self.map = nn.Parameter(torch.rand(4)), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        pole, h, ys = torch.polar(torch.full_like(self.angle, 0.9), self.angle), 0, []
        for x_t in self.map(x).unbind(1):
            h = pole * h + x_t
            ys.append(h)
        return torch.stack(ys, 1)


class Turned(Complex):
    """The right size and another phase, where a token of the future says so."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * torch.polar(torch.ones_like(x[:, -1:]), x[:, -1:])


def unbroken(subject: Subject) -> None:
    laws = tuple(law for law in LAWS if law.name not in ("stability", "determinism"))
    for verdict in judge(subject, laws):
        assert not verdict.broken, verdict
        assert verdict.ok or verdict.reason


def test_time_first_and_a_tuple() -> None:
    subject = subject_of(TupleOut)
    assert "tokens reach each other along the first axis alone: time is the first axis" in subject.notes
    assert subject.claims.causal
    unbroken(subject)


def test_a_required_mask_is_given() -> None:
    subject = subject_of(NeedsMask)
    assert "mask is required; by its name True is a real token" in subject.notes
    assert subject.masks and subject.claims.permutes
    unbroken(subject)


def test_complex_numbers_are_compared_whole() -> None:
    unbroken(subject_of(Complex, claims=CAUSAL))
    causal = next(law for law in LAWS if law.name == "causal")
    verdict = causal.check(subject_of(Turned, claims=CAUSAL))
    assert verdict.broken and verdict.worst > 0.01, "a phase is no less an output"
