"""Which Taylor degree replaces softmax: exact error at a logit range, dimension, cost, and from which length it pays.

softmax attention   4 L^2 D FLOPs a head          phi(Q) (phi(K)^T V)   4 L M D, and 2 L M for the mass
so phi wins from L* = M (1 + 1 / (2 D)), with M = C(D + degree, degree).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, comb, exp, factorial, isfinite

from threefold.errors import require

HIGHEST = 60  # degrees looked at; by then M is beyond any machine


@dataclass(frozen=True)
class Degree:
    """One degree for heads of D = `key`, logits within [-reach, reach]."""

    degree: int
    key: int
    reach: float

    @property
    def error(self) -> float:
        """The largest relative error of any exp: that at -reach, where the terms cancel."""
        t = Fraction(self.reach)
        series = sum((-t) ** n / factorial(n) for n in range(self.degree + 1))
        return abs(float(series * _exp(t)) - 1.0) if self.error_is_resolved else self.bound

    @property
    def error_is_resolved(self) -> bool:
        """Whether 1 - series * e^reach is far enough above rounding to be computed so."""
        return self.bound > 1e-9

    @property
    def bound(self) -> float:
        """reach^(K+1) e^reach / (K+1)!, which is never less than the error."""
        return self.reach ** (self.degree + 1) / factorial(self.degree + 1) * exp(self.reach)

    @property
    def variation(self) -> float:
        """How far an attention row can at most be from softmax's (total variation); 1: nothing is promised."""
        return self.error / (1 - self.error) if self.error < 0.5 else 1.0

    @property
    def features(self) -> int:
        """M, the packed dimension."""
        return comb(self.key + self.degree, self.degree)

    @property
    def pays_from(self) -> int:
        """The least length at which its FLOPs are fewer than those of softmax attention."""
        return self.features * (2 * self.key + 1) // (2 * self.key) + 1

    def state(self, number: int) -> int:
        """Bytes of a head's state: M (D + 1) numbers of float32 or wider. `number`: bytes of one in the cache."""
        return self.features * (self.key + 1) * max(4, number)

    def smaller_from(self, number: int) -> int:
        """The least length at which a head's keys and values, 2 D numbers a token, outweigh the state."""
        return self.state(number) // (2 * self.key * number) + 1

    @property
    def positive(self) -> bool:
        """Even degrees are positive everywhere; an odd one has a root, beyond which the mass may vanish."""
        return self.degree % 2 == 0


def _exp(t: Fraction) -> Fraction:
    """e^t to far more digits than float64 has."""
    terms = ceil(float(t) * 4) + 60
    return sum((t**n / factorial(n) for n in range(terms)), Fraction(0))


def advice(key: int, reach: float, tolerance: float) -> Degree | None:
    """The lowest even degree whose attention rows stay within the tolerance; None: none of those looked at."""
    require(key >= 1, f"--key {key}: give a head size of at least 1.")
    require(isfinite(reach) and reach > 0, f"--range {reach}: give the largest |q.k| after scaling, above 0.")
    require(reach <= 20, f"--range {reach}: no Taylor series helps beyond 20; normalise q and k, or use softmax.")
    require(0 < tolerance < 1, f"--tolerance {tolerance}: give a distance between 0 and 1.")
    tried = (Degree(degree, key, reach) for degree in range(0, HIGHEST + 1, 2))
    return next((each for each in tried if each.variation <= tolerance), None)


def largest_key(degree: int, length: int) -> int:
    """The largest head size at which a degree pays at a length; 0: at none."""
    key = 0
    while Degree(degree, key + 1, 1.0).pays_from <= length:
        key += 1
    return key
