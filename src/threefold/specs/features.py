"""Feature maps phi with phi(q).phi(k) = kernel(q, k): what turns attention into a state of fixed size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from math import comb, sqrt
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.base import Spec

if TYPE_CHECKING:
    from torch import Tensor


class Sign(Enum):
    """What is proven about phi(q).phi(k), and hence about the normaliser, in exact arithmetic."""

    POSITIVE = "positive"  # > 0 always: dividing is safe without any epsilon
    NONNEGATIVE = "nonnegative"  # >= 0; zero only where every weight is zero, and then the output is the empty sum 0
    SIGNED = "signed"  # may vanish or be negative: the op reports it


class FeatureMap(Spec, ABC):
    """phi, its dimension, its kernel, and what is proven about its sign."""

    of_dot: bool = False  # the kernel is a function of q.k alone, so rotating q and k first keeps it exactly relative

    @property
    @abstractmethod
    def sign(self) -> Sign:
        """The proven sign of the kernel."""

    @abstractmethod
    def dim(self, key_dim: int) -> int:
        """F, the exact number of features of a key of `key_dim` entries."""

    @abstractmethod
    def phi(self, x: Tensor) -> Tensor:
        """(..., K) -> (..., F)."""

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, K), (..., S, K) -> (..., T, S): phi(q).phi(k) for every pair, by the shortest exact route."""

    def scale(self, key_dim: int) -> float:
        """The factor on q. It lives here and nowhere else."""
        return 1.0


class InnerProductMap(FeatureMap):
    """A map whose features are as short as the key, so that pairs are simply multiplied."""

    def dim(self, key_dim: int) -> int:
        return key_dim

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return self.phi(q) @ self.phi(k).transpose(-1, -2)


@dataclass(frozen=True)
class Elu1(InnerProductMap):
    """phi(x) = elu(x) + 1 = max(x, 0) + exp(min(x, 0)). Positive: each feature is."""

    @property
    def sign(self) -> Sign:
        return Sign.POSITIVE

    def phi(self, x: Tensor) -> Tensor:
        from threefold.ops.features import elu1

        return elu1(x)


@dataclass(frozen=True)
class Relu(InnerProductMap):
    """phi(x) = max(x, 0). Nonnegative: a query without positive entries attends to nothing and gives 0."""

    @property
    def sign(self) -> Sign:
        return Sign.NONNEGATIVE

    def phi(self, x: Tensor) -> Tensor:
        return x.relu()


@dataclass(frozen=True)
class Identity(InnerProductMap):
    """phi(x) = x: attention with the exp dropped. Signed."""

    of_dot = True

    @property
    def sign(self) -> Sign:
        return Sign.SIGNED

    def phi(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class Taylor(FeatureMap):
    """phi_a(x) = x^a / sqrt(a!) for all multi-indices |a| <= degree, so phi(q).phi(k) = sum_{n<=degree} (q.k)^n / n!.

    Even degrees are positive: at a minimum of P_K the derivative P_{K-1} vanishes, so P_K = s^K / K! > 0 there.
    An odd degree has one real root, beyond which weights are negative; it must be asked for with `odd=True`.
    """

    degree: int = 2
    odd: bool = False

    of_dot = True

    def __post_init__(self) -> None:
        require(
            isinstance(self.degree, int) and self.degree >= 1, f"Taylor degree {self.degree!r}: give an integer >= 1."
        )
        require(
            self.degree % 2 == 0 or self.odd,
            f"Taylor degree {self.degree} is odd: its kernel is negative below its root, so the normaliser may vanish. "
            f"Use degree {self.degree + 1}, or Taylor({self.degree}, odd=True) to accept a reported failure.",
        )

    @property
    def sign(self) -> Sign:
        return Sign.POSITIVE if self.degree % 2 == 0 else Sign.SIGNED

    def dim(self, key_dim: int) -> int:
        """C(K + degree, degree): packed symmetric monomials."""
        return comb(key_dim + self.degree, self.degree)

    def scale(self, key_dim: int) -> float:
        return 1.0 / sqrt(key_dim)

    def phi(self, x: Tensor) -> Tensor:
        from threefold.ops.features import taylor

        return taylor(x, self.degree)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        from threefold.ops.features import exp_series

        return exp_series(q @ k.transpose(-1, -2), self.degree)
