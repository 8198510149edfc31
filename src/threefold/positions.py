"""Position encodings as modules, one signature per site. `at` counts valid tokens and comes from the mixer's state."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.ops.bias import alibi, bucketed, shaw
from threefold.ops.rotate import rotate, sinusoids
from threefold.ops.scan import accumulator
from threefold.specs.positions import (
    Alibi,
    InputPositionSpec,
    Learned,
    Relative,
    Rotary,
    ScorePositionSpec,
    Shaw,
    Sinusoidal,
)


class InputPosition(nn.Module, ABC):
    """(x, at) -> x: a code added before any projection."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "b t d"], at: Int[Tensor, "#b t"]) -> Float[Tensor, "b t d"]: ...


class SinusoidalPosition(InputPosition):
    """x_p + [sin p.theta_1, cos p.theta_1, ...]; nothing is learned and every position exists."""

    def __init__(self, spec: Sinusoidal, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.width = width

    def forward(self, x: Float[Tensor, "b t d"], at: Int[Tensor, "#b t"]) -> Float[Tensor, "b t d"]:
        return x + sinusoids(at, self.width, self.spec.base).to(x.dtype)


class LearnedPosition(InputPosition):
    """x_p + table[p]."""

    def __init__(self, spec: Learned, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.table = nn.Parameter(torch.empty(spec.length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Float[Tensor, "b t d"], at: Int[Tensor, "#b t"]) -> Float[Tensor, "b t d"]:
        if at.numel() and not at.is_meta and not torch.compiler.is_compiling():
            last = int(at.max())
            require(
                last < self.spec.length,
                f"position {last} is beyond Learned(length={self.spec.length}): "
                "shorten the sequence, or give a longer table or Sinusoidal(), which has no end.",
            )
        return x + nn.functional.embedding(at, self.table).to(x.dtype)


class HeadPosition(nn.Module):
    """(q or k, at) -> the same, turned. Once per token and layer for queries and for keys, never per pair."""

    def __init__(self, spec: Rotary, key_dim: int) -> None:
        super().__init__()
        require(key_dim % 2 == 0, f"{spec!r} turns pairs, and key_dim {key_dim} is odd: give an even key_dim.")
        self.spec = spec

    def forward(self, x: Float[Tensor, "b t h k"], at: Int[Tensor, "#b t"]) -> Float[Tensor, "b t h k"]:
        return rotate(x, at, self.spec.base, self.spec.layout)


class ScorePosition(nn.Module, ABC):
    """(q, q_at, k_at) -> the term added to scores, (B or 1, H, T, S)."""

    @abstractmethod
    def forward(
        self, q: Float[Tensor, "b t h k"], q_at: Int[Tensor, "#b t"], k_at: Int[Tensor, "#b s"]
    ) -> Float[Tensor, "#b h t s"]: ...


class AlibiPosition(ScorePosition):
    """-m_h.|i - j|; nothing is learned."""

    def __init__(self, spec: Alibi, heads: int) -> None:
        super().__init__()
        self.spec = spec
        self.slopes = spec.rates(heads)  # numbers, not a buffer: a module cast to bfloat16 keeps its slopes

    def forward(
        self, q: Float[Tensor, "b t h k"], q_at: Int[Tensor, "#b t"], k_at: Int[Tensor, "#b s"]
    ) -> Float[Tensor, "#b h t s"]:
        return alibi(torch.tensor(self.slopes, dtype=accumulator(q.dtype), device=q.device), q_at, k_at)


class RelativePosition(ScorePosition):
    """table[bucket(j - i), h]."""

    def __init__(self, spec: Relative, heads: int, causal: bool) -> None:
        super().__init__()
        self.spec = spec
        self.causal = causal
        self.table = nn.Parameter(torch.zeros(spec.buckets, heads))
        nn.init.normal_(self.table, std=0.02)

    def forward(
        self, q: Float[Tensor, "b t h k"], q_at: Int[Tensor, "#b t"], k_at: Int[Tensor, "#b s"]
    ) -> Float[Tensor, "#b h t s"]:
        return bucketed(self.table, q_at, k_at, self.spec.max_distance, self.causal)


class ShawPosition(ScorePosition):
    """q_i.r_clip(j - i) / sqrt(K), the vectors r shared by all heads."""

    def __init__(self, spec: Shaw, key_dim: int, causal: bool) -> None:
        super().__init__()
        self.spec = spec
        self.table = nn.Parameter(torch.empty(spec.rows(causal), key_dim))
        nn.init.normal_(self.table, std=key_dim**-0.5)

    def forward(
        self, q: Float[Tensor, "b t h k"], q_at: Int[Tensor, "#b t"], k_at: Int[Tensor, "#b s"]
    ) -> Float[Tensor, "#b h t s"]:
        return shaw(q, self.table, q_at, k_at, self.spec.reach)


def build_input(spec: InputPositionSpec, width: int) -> InputPosition:
    """The module of an input position."""
    match spec:
        case Sinusoidal():
            return SinusoidalPosition(spec, width)
        case Learned():
            return LearnedPosition(spec, width)
    raise InputError(f"{spec!r} has no module: give Sinusoidal() or Learned(length).")


def build_scores(spec: ScorePositionSpec, heads: int, key_dim: int, causal: bool) -> ScorePosition:
    """The module of a score position; a causal one spends its table on the past alone."""
    match spec:
        case Alibi():
            return AlibiPosition(spec, heads)
        case Relative():
            return RelativePosition(spec, heads, causal)
        case Shaw():
            return ShawPosition(spec, key_dim, causal)
    raise InputError(f"{spec!r} has no module: give Alibi(), Relative() or Shaw().")
