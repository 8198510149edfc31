"""Feature maps phi: pure functions (..., K) -> (..., F)."""

from functools import lru_cache
from itertools import accumulate
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor


def elu1(x: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """max(x, 0) + exp(min(x, 0)): positive even where elu(x) + 1 rounds to 0."""
    return x.clamp(min=0) + x.clamp(max=0).exp()


def lifted(q: Float[Tensor, "*s k"]) -> Float[Tensor, "*s k"]:
    """q moved up until its largest entry is -1, if it is below that: elu1(q) = exp(q) is then multiplied by one number
    for the token, which a normaliser cancels exactly. No output changes, and far below 0 nothing underflows."""
    return q - (q.detach().amax(-1, keepdim=True) + 1).clamp(max=0)


def _counted(key_dim: int, degree: int) -> list[float]:
    """Level by level: a leading index that repeats r times has brought the factor 1 / sqrt(r!)."""
    level = [(i, 1, 1.0) for i in range(key_dim)]
    for _ in range(1, degree):
        raised = []
        for i in range(key_dim):
            for lead, run, weight in level:
                if lead >= i:
                    again = run + 1 if lead == i else 1
                    raised.append((i, again, weight / sqrt(again)))
        level = raised
    return [weight for _, _, weight in level]


_remembered = lru_cache(maxsize=64)(_counted)


def weights(key_dim: int, degree: int) -> list[float]:
    """1 / sqrt(a!) for the multi-indices |a| = degree, in the order in which `taylor` lists them."""
    return _counted(key_dim, degree) if torch.compiler.is_compiling() else _remembered(key_dim, degree)


def taylor(x: Float[Tensor, "*s k"], degree: int) -> Float[Tensor, "*s f"]:
    """x^a / sqrt(a!) for |a| <= degree, by degree, then i <= j <= ..., so phi(q).phi(k) = sum_n (q.k)^n / n!.

    Hierarchical: the monomials of degree n that start with x_i are x_i times a suffix of those of degree n - 1. They
    are formed with the rows innermost, where memory is contiguous, and handed back transposed.
    """
    K = x.shape[-1]
    columns = x.transpose(-1, -2) if x.ndim > 1 else x[:, None]
    columns = columns.contiguous()
    blocks = [torch.ones_like(columns[..., :1, :]), columns]
    monomials, starts = columns, list(range(K))
    for n in range(2, degree + 1):
        parts = [columns[..., i : i + 1, :] * monomials[..., starts[i] :, :] for i in range(K)]
        monomials = torch.cat(parts, -2)
        starts = list(accumulate((part.shape[-2] for part in parts[:-1]), initial=0))
        blocks.append(monomials * torch.tensor(weights(K, n), dtype=x.dtype, device=x.device)[:, None])
    features = torch.cat(blocks, -2)
    return features.transpose(-1, -2) if x.ndim > 1 else features[:, 0]


def exp_series(s: Float[Tensor, "*s"], degree: int) -> Float[Tensor, "*s"]:
    """sum_{n <= degree} s^n / n! by Horner's rule."""
    total = 1.0 + s / degree
    for n in range(degree - 1, 0, -1):
        total = 1.0 + s * total / n
    return total
