"""Position encodings as declarations. Each names the site where it enters; `at` always comes from the state."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from threefold.errors import require
from threefold.specs.base import Site, Spec

if TYPE_CHECKING:
    from threefold.positions import HeadPosition, InputPosition, ScorePosition


class Position(Spec, ABC):
    """A position encoding. `relative` says that scores depend on differences of positions only."""

    site: ClassVar[Site]
    relative: ClassVar[bool]


class InputPositionSpec(Position):
    """A code added to the input, built for a width."""

    site = Site.INPUT
    relative = False

    def build(self, width: int) -> InputPosition:
        """The module (x, at) -> x."""
        from threefold import positions

        return positions.build_input(self, width)


class ScorePositionSpec(Position):
    """A term added to scores, built for a number of heads, a head dimension, and one direction or both."""

    site = Site.SCORES
    relative = True

    def build(self, heads: int, key_dim: int, causal: bool) -> ScorePosition:
        """The module (q, q_at, k_at) -> (B, H, T, S)."""
        from threefold import positions

        return positions.build_scores(self, heads, key_dim, causal)


@dataclass(frozen=True)
class Sinusoidal(InputPositionSpec):
    """x_p + [sin p.theta_1, cos p.theta_1, ...], theta_i = base^(-2(i-1)/d)."""

    base: float = 10000.0

    def __post_init__(self) -> None:
        require(self.base > 0, f"Sinusoidal(base={self.base}): give a positive base.")


@dataclass(frozen=True)
class Learned(InputPositionSpec):
    """x_p + table[p], for p < length; beyond the table it raises."""

    length: int

    def __post_init__(self) -> None:
        require(self.length >= 1, f"Learned(length={self.length}): the table needs at least one row.")


class Layout(Enum):
    """Which entries of a head form a rotated pair."""

    INTERLEAVED = "interleaved"  # (1, 2), (3, 4), ...
    HALVES = "halves"  # (1, d/2 + 1), (2, d/2 + 2), ...


@dataclass(frozen=True)
class Rotary(Position):
    """Pair i of a query or key at position p is turned by the angle p.theta_i, theta_i = base^(-2(i-1)/d)."""

    base: float = 10000.0
    layout: Layout = Layout.INTERLEAVED

    site = Site.HEADS
    relative = True

    def __post_init__(self) -> None:
        require(self.base > 0, f"Rotary(base={self.base}): give a positive base.")

    def build(self, key_dim: int) -> HeadPosition:
        """The module (q or k, at) -> same."""
        from threefold.positions import HeadPosition

        return HeadPosition(self, key_dim)


@dataclass(frozen=True)
class Alibi(ScorePositionSpec):
    """score_ij - m_h.|i - j| with the published slopes m_h."""

    def rates(self, heads: int) -> tuple[float, ...]:
        """m_h for h = 1..H."""
        return alibi_slopes(heads)


@dataclass(frozen=True)
class Relative(ScorePositionSpec):
    """score_ij + table[bucket(j - i), h]: T5's buckets, exact for short distances, logarithmic up to max_distance.

    In a causal mixer all buckets serve the past; otherwise half of them serve each direction.
    """

    buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        require(
            self.buckets >= 4 and self.buckets % 4 == 0 and self.max_distance > self.buckets // 2,
            f"Relative(buckets={self.buckets}, max_distance={self.max_distance}): "
            "buckets must be a multiple of 4 and max_distance larger than half of them.",
        )


@dataclass(frozen=True)
class Shaw(ScorePositionSpec):
    """score_ij + q_i . r_clip(j - i), a learned vector for every clipped distance (scaled like the score itself).

    The vectors are shared by all heads.
    """

    reach: int = 16

    def __post_init__(self) -> None:
        require(self.reach >= 1, f"Shaw(reach={self.reach}): give a distance >= 1.")

    def rows(self, causal: bool) -> int:
        """Vectors in the table: one for every offset from -reach to 0, or to reach."""
        return self.reach + 1 if causal else 2 * self.reach + 1


@dataclass(frozen=True)
class Decay(Position):
    """weight_ij . exp(-m_h (i - j)): the state fades by exp(-m_h) a token. ALiBi's exact form for linear attention."""

    site = Site.DECAY
    relative = True

    def rates(self, heads: int) -> tuple[float, ...]:
        """m_h for h = 1..H, ALiBi's slopes."""
        return alibi_slopes(heads)


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """m_h = 2^(-8h/H) for H a power of two; otherwise those of the power below, then every other one of its double."""
    below = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * h / below) for h in range(1, below + 1)]
    if below < heads:
        slopes += alibi_slopes(2 * below)[::2][: heads - below]
    return tuple(slopes)
