"""Mutants of the laws about numbers and conduct: features, accounting, growth, stability, determinism."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from tests.laws.mutants import GROWS, WIDTH, LinearAttention, Mutant, Sound, feature_subject, subject
from threefold.cost import Cost, Plan, as_poly
from threefold.laws import Claims, MixerSubject, Subject
from threefold.plan import tree
from threefold.specs.base import Form
from threefold.specs.features import Elu1, FeatureMap, Relu, Sign, Taylor
from threefold.specs.recurrent import LSTM

CAUSAL = Claims(causal=True)


@dataclass(frozen=True)
class SquareOnly(Taylor):
    """vec(x x^T) for 1 + t + t^2/2: it gives t^2."""

    def dim(self, key_dim: int) -> int:
        return key_dim**2

    def phi(self, x: Tensor) -> Tensor:
        return (x[..., :, None] * x[..., None, :]).flatten(-2)


@dataclass(frozen=True)
class NoRoots(Taylor):
    """Packed monomials without 1 / sqrt(a!)."""

    def phi(self, x: Tensor) -> Tensor:
        i, j = torch.triu_indices(x.shape[-1], x.shape[-1])
        return torch.cat([torch.ones_like(x[..., :1]), x, x[..., i] * x[..., j] / sqrt(2)], -1)


@dataclass(frozen=True)
class WrongDimension(Taylor):
    """Claims D^(K-1)."""

    def dim(self, key_dim: int) -> int:
        return key_dim ** (self.degree - 1)


@dataclass(frozen=True)
class OddCalledPositive(Taylor):
    """Degree 3 sold as positive."""

    degree: int = 3
    odd: bool = True

    @property
    def sign(self) -> Sign:
        return Sign.POSITIVE


class ReluCalledPositive(Relu):
    """Zero where no entry is positive."""

    @property
    def sign(self) -> Sign:
        return Sign.POSITIVE


class HonestLSTM(LSTM):
    """Planned as every LSTM."""

    def plan(self, width: int, form: Form | None = None) -> Plan:
        return tree.mixer(self, width, form)


class CountsMultiplications(HonestLSTM):
    """One multiply-add as one FLOP."""

    def plan(self, width: int, form: Form | None = None) -> Plan:
        plan = super().plan(width, form)
        return Plan(plan.name, replace(plan.total, forward=plan.total.forward / 2))


class ForgetsBias(HonestLSTM):
    def plan(self, width: int, form: Form | None = None) -> Plan:
        plan = super().plan(width, form)
        return Plan(plan.name, plan.total + Cost(params=as_poly(-4 * width)))


class ForgetsCell(HonestLSTM):
    """A state of h without c."""

    def plan(self, width: int, form: Form | None = None) -> Plan:
        plan = super().plan(width, form)
        return Plan(plan.name, replace(plan.total, state=plan.total.state / 2))


def planned(kind: Callable[[], LSTM]) -> Callable[[], Subject]:
    return lambda: MixerSubject(kind(), 12)


class KeepsPairs(LinearAttention):
    """Linear in contractions; elementwise it makes and keeps T x T numbers."""

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        closeness = torch.exp(-(q[..., None, :1] - k[..., None, :, :1]).squeeze(-1).squeeze(1).square()).tril()
        return super().read(q, k, v) + closeness.mean(-1, keepdim=True)


class Gated(nn.Module):
    """A running sum behind a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def gate(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(3 * self.map(x)) * x.cumsum(1)


class WrittenSigmoid(Gated):
    """Right forward; backward multiplies 0 by infinity where exp overflows."""

    def gate(self, x: Tensor) -> Tensor:
        return 1 / (1 + torch.exp(-x))


class Bounded(LinearAttention):
    """A map between 1/e and e."""

    def phi(self, x: Tensor) -> Tensor:
        return torch.exp(torch.tanh(x))


class Sinking(Bounded):
    """The same function, for the normaliser cancels the factor; and 0 divided by 0 in float32."""

    def phi(self, x: Tensor) -> Tensor:
        return torch.exp(torch.tanh(x) - 60)


class Counter(nn.Module):
    """A running mean of a positive feature, summed wide."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def running(self, x: Tensor) -> Tensor:
        return x.float().cumsum(1) if x.dtype is torch.bfloat16 else x.cumsum(1)

    def forward(self, x: Tensor) -> Tensor:
        phi = torch.exp(torch.tanh(self.map(x)))
        total = self.running(torch.ones_like(phi))
        return (self.running(phi) / total).to(x.dtype)


class NarrowSum(Counter):
    """State in the input's dtype: a bfloat16 sum of ones stops at 256."""

    def running(self, x: Tensor) -> Tensor:
        sums, ys = torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(1):
            sums = sums + x_t
            ys.append(sums)
        return torch.stack(ys, 1)


class DropsAlways(Sound):
    """Dropout that eval does not stop."""

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        return nn.functional.dropout(super().mix(x, valid, at), 0.5, training=True)


class WritesInput(Sound):
    def forward(self, x: Tensor, valid: Tensor | None = None, at: Tensor | None = None) -> Tensor:
        x.data[..., 0] = 0
        return super().forward(x, valid, at)


class Reseeds(Sound):
    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        torch.manual_seed(7)
        return super().mix(x, valid, at)


class ReseedsWhenBuilt(Sound):
    def __init__(self) -> None:
        torch.manual_seed(23)
        super().__init__()


class UnsavedTable(Sound):
    """Draws a table that its state_dict does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(WIDTH), persistent=False)

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        return super().mix(x, valid, at) + self.table


class CountsCalls(Sound):
    """A buffer that grows in eval."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        self.calls += 1
        return super().mix(x, valid, at)


class ForgetsField(LSTM):
    """JSON without its last field."""

    def to_json(self) -> str:
        data: dict[str, Any] = self.to_dict()
        return json.dumps({key: value for key, value in data.items() if key != "bias"})


def without_bias(kind: type[LSTM]) -> Callable[[], Subject]:
    return lambda: MixerSubject(kind(bias=False), 12)


def features(kind: Callable[[], FeatureMap]) -> Callable[[], Subject]:
    return feature_subject(kind)


NUMBERS: tuple[Mutant, ...] = (
    Mutant("t^2 for 1 + t + t^2/2", "features", features(SquareOnly), features(Taylor)),
    Mutant("monomials without their roots", "features", features(NoRoots), features(Taylor)),
    Mutant("dimension D^(K-1)", "features", features(WrongDimension), features(Taylor)),
    Mutant("odd degree sold as positive", "features", features(OddCalledPositive), features(Taylor)),
    Mutant("relu sold as positive", "features", features(ReluCalledPositive), features(Elu1)),
    Mutant("a multiply-add as one FLOP", "accounting", planned(CountsMultiplications), planned(HonestLSTM)),
    Mutant("biases forgotten", "accounting", planned(ForgetsBias), planned(HonestLSTM)),
    Mutant("a state without its cell", "accounting", planned(ForgetsCell), planned(HonestLSTM)),
    Mutant("pairs kept for backward", "growth", subject(KeepsPairs, GROWS), subject(LinearAttention, GROWS)),
    Mutant("gradient of an overflow", "stability", subject(WrittenSigmoid, CAUSAL), subject(Gated, CAUSAL)),
    Mutant("normaliser that underflows", "stability", subject(Sinking, CAUSAL), subject(Bounded, CAUSAL)),
    Mutant("state in bfloat16", "stability", subject(NarrowSum, CAUSAL), subject(Counter, CAUSAL)),
    Mutant("dropout in eval", "determinism", subject(DropsAlways), subject(Sound)),
    Mutant("writes into its input", "determinism", subject(WritesInput), subject(Sound)),
    Mutant("reseeds the process", "determinism", subject(Reseeds), subject(Sound)),
    Mutant("reseeds when built", "determinism", subject(ReseedsWhenBuilt), subject(Sound)),
    Mutant("a table that is not saved", "determinism", subject(UnsavedTable), subject(Sound)),
    Mutant("counts its calls", "determinism", subject(CountsCalls), subject(Sound)),
    Mutant("JSON forgets a field", "determinism", without_bias(ForgetsField), without_bias(LSTM)),
)
