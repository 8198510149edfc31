"""Terms added to each query-key score, as functions of explicit positions: q_at of queries, k_at of keys, per row."""

from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor


def alibi(
    slopes: Float[Tensor, " h"], q_at: Int[Tensor, "#b t"], k_at: Int[Tensor, "#b s"]
) -> Float[Tensor, "#b h t s"]:
    """-m_h.|i - j|."""
    distance = (q_at[:, :, None] - k_at[:, None, :]).abs()
    return -slopes[:, None, None] * distance[:, None]


def bucket(offset: Int[Tensor, "*s"], buckets: int, reach: int, causal: bool) -> Int[Tensor, "*s"]:
    """T5's bucket of the offset j - i: one each for short distances, then logarithmic, the last from `reach` on.

    Causal: every bucket serves the past. Otherwise half of them serve each direction.
    """
    if causal:
        start: Tensor | int = 0
        distance = (-offset).clamp(min=0)
    else:
        buckets //= 2
        start = (offset > 0).long() * buckets
        distance = offset.abs()
    exact = buckets // 2
    ratio = (distance.clamp(min=1).to(torch.float64) / exact).log() / log(reach / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return start + torch.where(distance < exact, distance, far)


def bucketed(
    table: Float[Tensor, "n h"],
    q_at: Int[Tensor, "#b t"],
    k_at: Int[Tensor, "#b s"],
    reach: int,
    causal: bool,
) -> Float[Tensor, "#b h t s"]:
    """table[bucket(j - i), h]."""
    offset = k_at[:, None, :] - q_at[:, :, None]
    return table[bucket(offset, len(table), reach, causal)].permute(0, 3, 1, 2)


def shaw(
    q: Float[Tensor, "b t h k"],
    table: Float[Tensor, "n k"],
    q_at: Int[Tensor, "#b t"],
    k_at: Int[Tensor, "#b s"],
    reach: int,
) -> Float[Tensor, "b h t s"]:
    """q_i.r_clip(j - i, -reach, reach) / sqrt(K). Each product q.r is formed once per distance, then looked up.

    Row r of the table belongs to the offset r - reach; a causal table ends at offset 0.
    """
    products = torch.einsum("bthk,nk->bhtn", q, table.to(q.dtype)) * q.shape[-1] ** -0.5
    row = (k_at[:, None, :] - q_at[:, :, None]).clamp(-reach, len(table) - 1 - reach) + reach
    return products.gather(-1, row[:, None].expand(*products.shape[:3], row.shape[-1]))
