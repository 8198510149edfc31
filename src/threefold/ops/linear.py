"""Linear attention in three forms with one signature, for any feature map phi, with an optional decay per head.

S_t = e^-m S_{t-1} + phi(k_t) v_t^T,  z_t = e^-m z_{t-1} + phi(k_t),  y_t = S_t^T phi(q_t) [/ z_t.phi(q_t)].

Values carry a last column of ones when normalised, so that z is the last column of S and one product serves both; an
invalid token's whole row is 0, ones included (phi(0) is not 0), and it fades nothing. Sums are float32 or wider.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from threefold.ops.place import advance
from threefold.ops.scan import accumulator, cleared
from threefold.specs.features import FeatureMap, Sign


class LinearState(NamedTuple):
    """A sequence so far, in a fixed size."""

    memory: Tensor  # (B, H, F, V): S
    mass: Tensor  # (B, H, F): z; (B, H, 0) where nothing is normalised
    tokens: Tensor  # (B,): valid tokens so far
    nonpositive: Tensor  # (B,): outputs so far, over tokens and heads, whose normaliser was not positive


def empty(batch: int, heads: int, features: int, value_dim: int, *, normalised: bool, like: Tensor) -> LinearState:
    """The state before the first token, in the dtype and on the device of `like`."""
    zero = torch.zeros(batch, dtype=torch.long, device=like.device)
    return LinearState(
        like.new_zeros(batch, heads, features, value_dim),
        like.new_zeros(batch, heads, features if normalised else 0),
        zero,
        zero,
    )


class Accelerator(NamedTuple):
    """Another implementation of `step` and `chunked`: `supports` says why it cannot serve a call, or ''."""

    supports: Callable[..., str]
    run: Callable[..., tuple[Tensor, LinearState]]


_accelerators: list[Accelerator] = []


def accelerate(accelerator: Accelerator) -> None:
    """Let calls that `accelerator` supports run there (the native kernels say so when they are imported)."""
    _accelerators[:] = [accelerator]


def _accelerated(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, unless an accelerator supports the call; `inspect.unwrap` gives `plain` back."""

    @wraps(plain)
    def chosen(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: LinearState,
        *,
        features: FeatureMap,
        valid: Tensor | None = None,
        rates: Tensor | None = None,
        chunk: int = 64,
    ) -> tuple[Tensor, LinearState]:
        call = (q, k, v, state, features, valid, rates)
        for accelerator in _accelerators:
            if not accelerator.supports(*call):
                return accelerator.run(*call)
        return plain(q, k, v, state, features=features, valid=valid, rates=rates, chunk=chunk)

    return chosen


@_accelerated
def step(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t h k"],
    v: Float[Tensor, "b t h v"],
    state: LinearState,
    *,
    features: FeatureMap,
    valid: Bool[Tensor, "b t"] | None = None,
    rates: Float[Tensor, " h"] | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], LinearState]:
    """One token: the recurrence itself."""
    q, k, w = _entered(q, k, v, features, valid, state.memory.dtype, normalised=bool(state.mass.shape[-1]))
    sums = _joined(state)
    if rates is not None:
        fade = torch.exp(-rates.to(w.dtype))[None, :, None, None]
        sums = sums * (fade if valid is None else torch.where(valid[:, :, None, None], fade, 1.0))
    sums = sums + features.phi(k).transpose(-1, -2) @ w
    y = features.phi(q) @ sums
    return _left(y, sums, v, state, valid, features)


def parallel(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t h k"],
    v: Float[Tensor, "b t h v"],
    state: LinearState,
    *,
    features: FeatureMap,
    valid: Bool[Tensor, "b t"] | None = None,
    rates: Float[Tensor, " h"] | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], LinearState]:
    """All pairs at once: the masked T x T kernel matrix, plus what the state brings."""
    q, k, w = _entered(q, k, v, features, valid, state.memory.dtype, normalised=bool(state.mass.shape[-1]))
    sums = _joined(state)
    into, out, between = _fades(rates, q.shape[2], valid, q)
    y = (features.scores(q, k) * between) @ w + (features.phi(q) @ sums) * into
    if q.shape[2] and isinstance(into, Tensor):
        sums = sums * into[..., -1:, :]
    sums = sums + features.phi(k).transpose(-1, -2) @ (w * out)
    return _left(y, sums, v, state, valid, features)


@_accelerated
def chunked(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t h k"],
    v: Float[Tensor, "b t h v"],
    state: LinearState,
    *,
    features: FeatureMap,
    valid: Bool[Tensor, "b t"] | None = None,
    rates: Float[Tensor, " h"] | None = None,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b t h v"], LinearState]:
    """Pairs inside a chunk by their scores, everything earlier through the state at the chunk's start."""
    q, k, w = _entered(q, k, v, features, valid, state.memory.dtype, normalised=bool(state.mass.shape[-1]))
    sums = _joined(state)
    length = q.shape[2]
    chunk = max(1, min(chunk, length))
    count = -(-length // chunk)
    short = count * chunk - length
    real = valid
    if real is None and short and rates is not None:
        real = torch.ones(1, length, dtype=torch.bool, device=q.device)
    if short:
        q, k, w = (pad(x, (0, 0, 0, short)) for x in (q, k, w))
        real = real if real is None else pad(real, (0, short))
    q, k, w = (x.unflatten(2, (count, chunk)) for x in (q, k, w))
    into, out, between = _fades(rates, chunk, real if real is None else real.unflatten(1, (count, chunk)), q)
    gains = features.phi(k).transpose(-1, -2) @ (w * out)
    starts = []
    totals: Sequence[Tensor | float] = [1.0] * gains.shape[2]
    if isinstance(into, Tensor):
        totals = into[..., -1:, :].expand(*gains.shape[:3], 1, 1).unbind(2)
    for gain, total in zip(gains.unbind(2), totals, strict=True):
        starts.append(sums)
        sums = sums * total + gain
    y = (features.scores(q, k) * between) @ w
    if starts:
        y = y + (features.phi(q) @ torch.stack(starts, 2)) * into
    return _left(y.flatten(2, 3)[:, :, :length], sums, v, state, valid, features)


def remember(
    k: Float[Tensor, "b s h k"],
    v: Float[Tensor, "b s h v"],
    *,
    features: FeatureMap,
    normalised: bool,
    valid: Bool[Tensor, "b s"] | None = None,
) -> LinearState:
    """A whole sequence as a state of fixed size, for queries that see all of it."""
    like = v.new_zeros((), dtype=accumulator(v.dtype))
    state = empty(len(k), k.shape[2], features.dim(k.shape[-1]), v.shape[-1], normalised=normalised, like=like)
    _, k, w = _entered(k, k, v, features, valid, like.dtype, normalised=normalised)
    sums = features.phi(k).transpose(-1, -2) @ w
    memory, mass = _unjoined(sums, v.shape[-1], state)
    return LinearState(memory, mass, advance(state.tokens, k.shape[2], valid), state.nonpositive)


def recall(
    q: Float[Tensor, "b t h k"],
    state: LinearState,
    *,
    features: FeatureMap,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[Float[Tensor, "b t h v"], LinearState]:
    """y_i = S^T phi(q_i) [/ z.phi(q_i)]; an empty memory gives the empty sum 0."""
    wide = state.memory.dtype
    scaled = cleared(q, valid).transpose(1, 2).to(wide) * features.scale(q.shape[-1])
    y = (features.phi(scaled) @ _joined(state)).transpose(1, 2)
    some = (state.tokens > 0)[:, None].expand(-1, q.shape[1])
    y, bad = _normalised(y, state.memory.shape[-1], some if valid is None else valid & some, features)
    return y.to(q.dtype), state._replace(nonpositive=state.nonpositive + bad)


def everywhere(
    q: Float[Tensor, "b t h k"],
    k: Float[Tensor, "b t h k"],
    v: Float[Tensor, "b t h v"],
    *,
    features: FeatureMap,
    normalised: bool,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[Float[Tensor, "b t h v"], Int[Tensor, " b"]]:
    """Every query sees every key, all pairs at once. The second result counts normalisers that are not positive."""
    q, k, w = _entered(q, k, v, features, valid, accumulator(v.dtype), normalised=normalised)
    y = (features.scores(q, k) @ w).transpose(1, 2)
    y, bad = _normalised(y, v.shape[-1], valid, features)
    return y.to(v.dtype), bad


def _joined(state: LinearState) -> Float[Tensor, "b h f w"]:
    """S and z side by side: W = V + 1, or V where nothing is normalised."""
    return torch.cat([state.memory, state.mass[..., None]], -1) if state.mass.shape[-1] else state.memory


def _unjoined(sums: Tensor, value_dim: int, state: LinearState) -> tuple[Tensor, Tensor]:
    return (sums[..., :value_dim], sums[..., value_dim]) if state.mass.shape[-1] else (sums, state.mass)


def _entered(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    features: FeatureMap,
    valid: Tensor | None,
    wide: torch.dtype,
    *,
    normalised: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """q (scaled, here and in recall only), k and the widened values: heads first, no padding, accumulating dtype."""
    q, k, v = (cleared(x, valid).transpose(1, 2).to(wide).contiguous() for x in (q, k, v))
    if normalised:
        ones = (
            torch.ones_like(v[..., :1]) if valid is None else valid[:, None, :, None].expand(*v.shape[:3], 1).to(wide)
        )
        v = torch.cat([v, ones], -1)
    return q * features.scale(q.shape[-1]), k, v


def _fades(
    rates: Float[Tensor, " h"] | None, length: int, valid: Tensor | None, like: Tensor
) -> tuple[Tensor | float, Tensor | float, Tensor]:
    """How much fades from the start to each token, from each token to the end, and between two tokens (0 backwards)."""
    below = torch.ones(length, length, dtype=like.dtype, device=like.device).tril()
    if rates is None:
        return 1.0, 1.0, below
    rank = torch.arange(length, device=like.device).view(*(1,) * (like.ndim - 3), length)
    rank = (rank if valid is None else valid.long().cumsum(-1) - 1).unsqueeze(1)
    rates = rates.to(like.dtype).view(-1, *(1,) * (like.ndim - 2))
    into = torch.exp(-rates * (rank + 1)[..., None])
    out = torch.exp(-rates * (rank[..., -1:] - rank)[..., None])
    between = torch.exp(-rates * (rank[..., :, None] - rank[..., None, :]).clamp(min=0)) * below
    return into, out, between


def _left(
    y: Tensor, sums: Tensor, v: Tensor, state: LinearState, valid: Tensor | None, features: FeatureMap
) -> tuple[Float[Tensor, "b t h v"], LinearState]:
    """The outputs in their own layout and dtype, and the state after them."""
    memory, mass = _unjoined(sums, v.shape[-1], state)
    y, bad = _normalised(y.transpose(1, 2), v.shape[-1], valid, features)
    count = advance(state.tokens, v.shape[1], valid)
    return y.to(v.dtype), LinearState(memory, mass, count, state.nonpositive + bad)


def _normalised(
    y: Float[Tensor, "b t h w"], value_dim: int, real: Bool[Tensor, "b t"] | None, features: FeatureMap
) -> tuple[Float[Tensor, "b t h v"], Int[Tensor, " b"]]:
    if y.shape[-1] == value_dim:
        return cleared(y, real), torch.zeros(len(y), dtype=torch.long, device=y.device)
    return divided(y[..., :value_dim], y[..., value_dim:], real, features)


def divided(
    top: Float[Tensor, "b t h v"],
    below: Float[Tensor, "b t h 1"],
    real: Bool[Tensor, "b t"] | None,
    features: FeatureMap,
) -> tuple[Float[Tensor, "b t h v"], Int[Tensor, " b"]]:
    """The normalised output, and how many normalisers per row were not positive. Nothing is clamped: a signed map's
    vanishing normaliser gives what division gives. A nonnegative map's is a sum of zeros, and so is the output."""
    bad = below <= 0
    stays = below != 0 if features.sign is Sign.NONNEGATIVE else None
    if real is not None:
        exists = real[:, :, None, None]
        bad = bad & exists
        stays = exists if stays is None else stays & exists
    if stays is not None:
        below = torch.where(stays, below, 1.0)
    return cleared(top / below, real), bad.sum((1, 2, 3))
