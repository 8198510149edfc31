"""How well 1 + s + ... + s^K/K! stands for exp(s) in attention: error, bound, sign, and cost.

With R = max|q.k|, every exp is off by at most eps = R^{K+1} e^R / (K+1)! relatively; if eps < 1
the total variation of each attention row is at most eps / (1 - eps).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, factorial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims import attend
from threefold.claims.attend import error, random
from threefold.ops import features
from threefold.specs.features import Taylor


def taylor(degree: int) -> Taylor:
    """The library's map of this degree, odd ones asked for."""
    return Taylor(degree, odd=degree % 2 == 1)


def series(s: Float[Tensor, "*s"], degree: int) -> Float[Tensor, "*s"]:
    """The kernel as the library computes it."""
    return features.exp_series(s, degree)


def worst_error(degree: int, R: float) -> float:
    """Largest |P_K(s) - e^s| / e^s on [-R, R], on a fine grid."""
    s = torch.linspace(-R, R, 4001, dtype=torch.float64)
    return float(((series(s, degree) - s.exp()).abs() / s.exp()).max())


def bound(degree: int, R: float) -> float:
    """eps."""
    return R ** (degree + 1) * exp(R) / factorial(degree + 1)


@dataclass(frozen=True)
class Rows:
    """What an approximation does to attention: R, worst exp, total variation of rows, output."""

    R: float
    exp_error: float
    tv_mean: float
    tv_max: float
    output: float
    output_max: float
    value_max: float


def rows(degree: int, scale: float, *, L: int = 256, D: int = 64, seed: int = 0) -> Rows:
    """Attention by the series against softmax, for q, k ~ scale N(0, 1), logits divided by sqrt(D)."""
    q, k, v = (
        random(L, D, seed=seed, scale=scale),
        random(L, D, seed=seed + 1, scale=scale),
        random(L, D, seed=seed + 2),
    )
    dots = q @ k.T / D**0.5
    kernel = taylor(degree).scores(q / D**0.5, k)
    soft, approx = attend.weights(q / D**0.5, k), kernel / kernel.sum(1, keepdim=True)
    tv = (soft - approx).abs().sum(1) / 2
    exp_error = ((kernel - dots.exp()).abs() / dots.exp()).max()
    outputs = approx @ v, soft @ v
    return Rows(
        float(dots.abs().max()),
        float(exp_error),
        float(tv.mean()),
        float(tv.max()),
        error(*outputs),
        float((outputs[0] - outputs[1]).abs().max()),
        float(v.abs().max()),
    )


def coefficients(degree: int) -> list[float]:
    """1/K!, ..., 1/2, 1, 1: the series as numpy wants it."""
    return [1 / factorial(n) for n in range(degree, -1, -1)]


def real_roots(degree: int) -> list[float]:
    """Real roots of the series, each confirmed on the library's kernel by a change of sign."""
    found = [float(root.real) for root in np.roots(coefficients(degree)) if abs(root.imag) < 1e-9]
    step = torch.tensor([-1e-6, 1e-6], dtype=torch.float64)
    return [root for root in found if float(series(root + step, degree).prod()) < 0]


def minimum(degree: int) -> float:
    """The smallest value of an even series: where its derivative, the series one degree lower, vanishes."""
    at = torch.tensor(real_roots(degree - 1), dtype=torch.float64)
    return float(series(at, degree).min())


def attention_weights(logits: list[float], degree: int) -> tuple[list[float], list[float]]:
    """Weights of one query by the library's linear attention and by softmax: keys are the logits, the query is 1."""
    q, k = torch.ones(1, 1, dtype=torch.float64), torch.tensor(logits, dtype=torch.float64)[:, None]
    approx, _ = attend.linear(q, k, torch.eye(len(k), dtype=k.dtype), taylor(degree))
    return approx[0].tolist(), attend.weights(q, k)[0].tolist()


def packed(D: int, degree: int) -> int:
    """The library's dimension."""
    return taylor(degree).dim(D)


def unpacked(D: int, degree: int) -> int:
    """1 + D + ... + D^K."""
    return sum(D**n for n in range(degree + 1))


def hockey_stick(D: int, degree: int) -> int:
    """Sum over k <= K of C(k + D - 1, D - 1)."""
    return sum(comb(k + D - 1, D - 1) for k in range(degree + 1))


def full_map(x: Float[Tensor, "n d"]) -> Float[Tensor, "n f"]:
    """[1; t; vec(t t^T)/sqrt 2], unpacked."""
    return torch.cat((torch.ones_like(x[:, :1]), x, square_map(x) / 2**0.5), 1)


def square_map(x: Float[Tensor, "n d"]) -> Float[Tensor, "n dd"]:
    """vec(t t^T): the map that document 001 prints."""
    return (x[:, :, None] * x[:, None, :]).flatten(1)


def break_even(D: int, degree: int = 2) -> float:
    """L* = M (1 + 1/(2D)): from here on 4LMD + 2LM is less than 4L^2 D."""
    return packed(D, degree) * (1 + 1 / (2 * D))
