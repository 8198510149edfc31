"""Softmax attention in three forms with one signature: y_i = sum_j softmax_j(q_i.k_j / sqrt(K) + bias_ij) v_j.

Head h of H reads key/value head h // (H / G). Key slot p of the cache has position p, so a query at position p sees the
slots up to p; padding never reaches the cache.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from threefold.ops.cache import Cache, append
from threefold.ops.fused import attention
from threefold.ops.place import positions
from threefold.ops.scan import accumulator, cleared, transformed

Bias = Callable[[Tensor, Tensor, Tensor], Tensor]
FAR = -1e30  # a finite minus infinity: exp(FAR - m) is exactly 0, and no difference of two is NaN


class Memory(NamedTuple):
    """Keys and values that every query sees where `valid` says so; None means everywhere."""

    keys: Tensor  # (B, G, S, K)
    values: Tensor  # (B, G, S, V)
    valid: Tensor | None  # (B, S)


def step(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t g v"],
    state: Cache,
    *,
    valid: Bool[Tensor, "b t"] | None = None,
    bias: Bias | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], Cache]:
    """One token: its key joins the cache, its query reads the cache."""
    q, state, q_at, k_at = _entered(q, k, v, state, valid)
    keys, values = state.seen()
    add = bias(q, q_at, k_at) if bias else None
    if not (state.even and q.shape[1] == 1):
        add = _masked(add, k_at[:, None, None, :] <= q_at[:, None, :, None])
    return cleared(_attend(q, keys, values, add), valid), state


def parallel(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t g v"],
    state: Cache,
    *,
    valid: Bool[Tensor, "b t"] | None = None,
    bias: Bias | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], Cache]:
    """All queries at once, by torch's fused attention."""
    fresh = state.slots == 0
    q, state, q_at, k_at = _entered(q, k, v, state, valid)
    keys, values = state.seen()
    add = bias(q, q_at, k_at) if bias else None
    if fresh and valid is None and add is None:
        return _fused(q, keys, values, None, causal=True), state
    visible = k_at[:, None, None, :] <= q_at[:, None, :, None]
    mask = visible if add is None else torch.where(visible, add, -torch.inf)
    return cleared(_fused(q, keys, values, mask, causal=False), valid), state


def chunked(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t g v"],
    state: Cache,
    *,
    valid: Bool[Tensor, "b t"] | None = None,
    bias: Bias | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], Cache]:
    """Online softmax: chunk x chunk scores at a time, recomputed in the backward pass, so memory is linear in T."""
    before = state.slots
    q, state, q_at, k_at = _entered(q, k, v, state, valid)
    y = _online(q, *state.seen(), q_at, k_at, chunk=chunk, bias=bias, before=before)
    return cleared(y, valid), state


def everywhere(
    q: Float[Tensor, "b t h k"],
    memory: Memory,
    *,
    valid: Bool[Tensor, "b t"] | None = None,
    bias: Bias | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "b t h v"]:
    """Every query sees the whole memory. `chunk` None: fused, otherwise online. An empty memory gives 0."""
    q = cleared(q, valid)
    keys, values, seen = memory
    batch, length, size = len(q), q.shape[1], keys.shape[2]
    zero = torch.zeros(batch, dtype=torch.long, device=q.device)
    q_at = positions(zero[:1] if valid is None else zero, length, valid)
    k_at = positions(zero[:1] if seen is None else zero, size, seen)
    if seen is not None:
        some = seen.any(1, keepdim=True)
        seen = seen | ~some
    if chunk is not None:
        y = _online(q, keys, values, q_at, k_at, chunk=chunk, bias=bias, seen=seen)
    else:
        mask = None if seen is None else seen[:, None, None, :]
        if bias:
            add = bias(q, q_at, k_at)
            mask = add if mask is None else torch.where(mask, add, -torch.inf)
        y = _fused(q, keys, values, mask, causal=False)
    return cleared(y if seen is None else cleared(y, some.expand(batch, length)), valid)


def weights(q: Float[Tensor, "b t h k"], memory: Memory) -> Float[Tensor, "b h t s"]:
    """The weights by which `everywhere` reads the memory; all 0 where it is empty."""
    scores = _scores(q, memory.keys)
    if memory.valid is None:
        return scores.softmax(-1)
    seen = memory.valid[:, None, None, :]
    return torch.where(seen, torch.where(seen, scores, FAR).softmax(-1), 0.0)


def _entered(
    q: Tensor, k: Tensor, v: Tensor, state: Cache, valid: Tensor | None
) -> tuple[Tensor, Cache, Tensor, Tensor]:
    """The queries without padding, the cache with the new tokens, and the positions of both."""
    watched = any(x.requires_grad for x in (q, k, v, state.keys, state.values))
    record = torch.compiler.is_compiling() or (torch.is_grad_enabled() and watched)
    row = state.tokens[:1] if state.even and valid is None else state.tokens
    q_at = positions(row, q.shape[1], valid)
    state = append(state, k, v, valid, record=record)
    k_at = torch.arange(state.slots, device=q.device)[None]
    return cleared(q, valid), state, q_at, k_at


def _masked(add: Tensor | None, visible: Bool[Tensor, "#b 1 t s"]) -> Tensor:
    return torch.where(visible, torch.zeros((), device=visible.device) if add is None else add, FAR)


def _scores(q: Float[Tensor, "b t h k"], keys: Float[Tensor, "b g s k"]) -> Float[Tensor, "b h t s"]:
    """q.k / sqrt(K) in the accumulating dtype; the heads of a group share one matrix product."""
    b, t, h, k = q.shape
    wide = accumulator(q.dtype)
    grouped = q.to(wide).transpose(1, 2).reshape(b, keys.shape[1], h // keys.shape[1] * t, k) * k**-0.5
    return (grouped @ keys.to(wide).transpose(-1, -2)).view(b, h, t, keys.shape[2])


def _read(p: Float[Tensor, "b h t s"], values: Float[Tensor, "b g s v"]) -> Float[Tensor, "b h t v"]:
    b, h, t, s = p.shape
    return (p.reshape(b, values.shape[1], h // values.shape[1] * t, s) @ values.to(p.dtype)).view(
        b, h, t, values.shape[-1]
    )


def _attend(q: Tensor, keys: Tensor, values: Tensor, add: Tensor | None) -> Float[Tensor, "b t h v"]:
    scores = _scores(q, keys)
    weights = (scores if add is None else scores + add).softmax(-1)
    return _read(weights, values).transpose(1, 2).to(q.dtype)


def _fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, causal: bool) -> Float[Tensor, "b t h v"]:
    if q.shape[1] == 0 or keys.shape[2] == 0:
        return _attend(q, keys, values, None)
    return attention(q.transpose(1, 2), keys, values, mask, causal=causal).transpose(1, 2)


def _online(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    q_at: Int[Tensor, "#b t"],
    k_at: Int[Tensor, "#b s"],
    *,
    chunk: int,
    bias: Bias | None,
    seen: Bool[Tensor, "b s"] | None = None,
    before: int | None = None,
) -> Float[Tensor, "b t h v"]:
    """m <- max(m, s), l <- l e^(m_old - m) + sum e^(s - m), o <- o e^(m_old - m) + e^(s - m) v; y = o / l.

    `before` slots precede the first query if the reading is causal; None reads everything.
    """
    if q.shape[1] == 0 or keys.shape[2] == 0:
        return _attend(q, keys, values, None)
    blocks = list(
        zip(keys.split(chunk, 2), values.split(chunk, 2), k_at.split(chunk, 1), _split(seen, keys, chunk), strict=True)
    )

    def row(q: Tensor, q_at: Tensor, count: int) -> Tensor:
        m = q.new_full((1, 1, 1, 1), FAR, dtype=accumulator(q.dtype))
        l = o = torch.zeros_like(m)
        for keys, values, k_at, seen in blocks[:count]:
            s = _scores(q, keys)
            s = s + bias(q, q_at, k_at) if bias else s
            if seen is not None:
                s = torch.where(seen[:, None, None, :], s, FAR)
            if before is not None:
                s = torch.where(k_at[:, None, None, :] <= q_at[:, None, :, None], s, FAR)
            top = torch.maximum(m, s.detach().amax(-1, keepdim=True))
            p, fade = (s - top).exp(), (m - top).exp()
            l, o, m = l * fade + p.sum(-1, keepdim=True), o * fade + _read(p, values), top
        return (o / l).transpose(1, 2).to(q.dtype)

    ys = []
    for i, (part, at) in enumerate(zip(q.split(chunk, 1), q_at.split(chunk, 1), strict=True)):
        count = len(blocks) if before is None else -(-min(before + (i + 1) * chunk, keys.shape[2]) // chunk)
        watched = torch.is_grad_enabled() and not torch.compiler.is_compiling() and not transformed()
        ys.append(
            checkpoint(row, part, at, count, use_reentrant=False, preserve_rng_state=False)
            if watched
            else row(part, at, count)
        )
    return torch.cat(ys, 1)


def _split(seen: Tensor | None, keys: Tensor, chunk: int) -> tuple[Tensor | None, ...]:
    if seen is None:
        return (None,) * len(keys.split(chunk, 2))
    return seen.split(chunk, 1)
