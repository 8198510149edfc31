"""Attention on plain matrices, by the library's own ops: rows are tokens; no batch, no heads, no scale."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.ops import cache, softmax
from threefold.ops import linear as linear_op
from threefold.specs.features import FeatureMap


def attend(
    q: Float[Tensor, "t k"], k: Float[Tensor, "s k"], v: Float[Tensor, "s v"], *, causal: bool = False
) -> Float[Tensor, "t v"]:
    """softmax(q k^T) v. The op divides by sqrt(K), so q is multiplied by it first."""
    queries = (q * sqrt(q.shape[1]))[None, :, None]
    if causal:
        start = cache.empty(k.new_empty(1, 1, 0, k.shape[1]), v.new_empty(1, 1, 0, v.shape[1]))
        return softmax.parallel(queries, k[None, :, None], v[None, :, None], start)[0][0, :, 0]
    return softmax.everywhere(queries, softmax.Memory(k[None, None], v[None, None], None))[0, :, 0]


def remembered(
    q: Float[Tensor, "t k"],
    k: Float[Tensor, "s k"],
    v: Float[Tensor, "s v"],
    features: FeatureMap,
    normalised: bool = True,
) -> tuple[Float[Tensor, "t v"], linear_op.LinearState]:
    """phi(q) (phi(k)^T v) [/ phi(q).sum phi(k)] in that order: linear in the length. The map's scale is undone."""
    queries, keys, values = _heads(q / features.scale(q.shape[1]), k, v)
    state = linear_op.remember(keys, values, features=features, normalised=normalised)
    y, state = linear_op.recall(queries, state, features=features)
    return y[0, :, 0], state


def linear(
    q: Float[Tensor, "t k"],
    k: Float[Tensor, "s k"],
    v: Float[Tensor, "s v"],
    features: FeatureMap,
    *,
    causal: bool = False,
    normalised: bool = True,
    rate: float | None = None,
) -> tuple[Float[Tensor, "t v"], int]:
    """Linear attention, and how many of its normalisers were not positive. `rate` fades the past of a causal one."""
    if not causal:
        y, state = remembered(q, k, v, features, normalised)
        return y, int(state.nonpositive)
    rates = None if rate is None else torch.tensor([rate], dtype=q.dtype)
    queries, keys, values = _heads(q / features.scale(q.shape[1]), k, v)
    state = linear_op.empty(1, 1, features.dim(k.shape[1]), v.shape[1], normalised=normalised, like=v)
    y, state = linear_op.chunked(queries, keys, values, state, features=features, rates=rates, chunk=4)
    return y[0, :, 0], int(state.nonpositive)


def _heads(*rows: Float[Tensor, "t k"]) -> list[Float[Tensor, "1 t 1 k"]]:
    return [x[None, :, None] for x in rows]


def weights(q: Float[Tensor, "t k"], k: Float[Tensor, "s k"], *, causal: bool = False) -> Float[Tensor, "t s"]:
    """The attention weights: what attention gives when the values are the unit vectors."""
    return attend(q, k, torch.eye(len(k), dtype=k.dtype), causal=causal)


def error(a: Tensor, b: Tensor) -> float:
    """Relative Frobenius distance of a from b; the distance itself when b is 0."""
    a, b = a.detach(), b.detach()
    size = float(b.norm())
    return float((a - b).norm()) / size if size else float((a - b).norm())


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normal numbers in float64 that are the same every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def orthonormal(rows: int, width: int, seed: int = 0) -> Float[Tensor, "rows width"]:
    """Random orthonormal rows."""
    return torch.linalg.qr(random(width, width, seed=seed)).Q[:rows].contiguous()
