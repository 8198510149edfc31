"""Every limit that a law uses, as a function of dtype, T and scale. Nowhere else is a tolerance written."""

from __future__ import annotations

from math import sqrt

import torch

BITS = 0.0  # the same operations on the same numbers in the same shapes: nothing to forgive
SHORT = 1024  # up to here rounding is covered by the constants; beyond it errors add like a random walk


def equal(dtype: torch.dtype, T: int) -> float:
    """Two routes to one number: 1e-12 in float64, 5e-4 in float32. Routes differ in the order of their sums."""
    return 4500 * torch.finfo(dtype).eps * sqrt(max(1.0, T / SHORT))


def difference(order: int, dtype: torch.dtype) -> tuple[float, float]:
    """(step, limit) of central differences, where truncation and rounding balance near eps^(1/3)."""
    if dtype == torch.float64:
        return (1e-5, 1e-6) if order == 1 else (1e-5, 5e-6)
    return 2 * torch.finfo(dtype).eps ** (1 / 3), 5 * torch.finfo(dtype).eps ** (1 / 3)


def resolution(order: int, value: float, dtype: torch.dtype) -> float:
    """The smallest slope that central differences of a number of this size can tell from 0, to the limit above."""
    step, limit = difference(order, dtype)
    return 4 * torch.finfo(dtype).eps * abs(value) / (step * limit)


def rounded(dtype: torch.dtype, T: int, scale: float) -> float:
    """A narrow run beside a float64 run from the same (rounded) weights and inputs, relative root mean square.

    Scores are products of two inputs, so that their rounding grows with scale squared, and a weight is the exponential
    of a score: its relative error is the score's absolute one. Past 1 a limit says nothing; only finiteness is asked.
    """
    return 16 * torch.finfo(dtype).eps * max(1.0, scale) ** 2 * sqrt(max(1.0, T / SHORT))


def conditioned(response: float) -> float:
    """What may be lost where the function is steep: 16 times what one rounding of inputs and weights does to it."""
    return 16 * response


def chance(draws: int) -> float:
    """Standard errors within which a mean of `draws` random draws must fall: missed once in 10^9 for a normal."""
    return 6.2 if draws >= 256 else 8.0


def turned(dtype: torch.dtype, offset: int) -> float:
    """Positions moved by `offset`: an angle p.theta is known to eps.p, whatever is done with it afterwards."""
    return equal(dtype, 1) + 8 * torch.finfo(dtype).eps * offset
