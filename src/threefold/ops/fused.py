"""torch's fused attention, kept on its fast path and made twice differentiable."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.nn.functional import pad

from threefold.ops.scan import transformed


def attention(
    q: Float[Tensor, "b h t k"],
    k: Float[Tensor, "b g s k"],
    v: Float[Tensor, "b g s v"],
    mask: Tensor | None = None,
    *,
    causal: bool = False,
) -> Float[Tensor, "b h t v"]:
    """softmax(q k^T / sqrt(K) + mask) v. `mask` is boolean (True is seen) or added, and broadcasts to (B, H, T, S).

    The shorter of K and V is filled with zeros, which changes no score and no value: the flash kernel wants them equal.
    """
    key_dim, value_dim = q.shape[-1], v.shape[-1]
    size = max(key_dim, value_dim)
    if key_dim < size:
        q, k = pad(q, (0, size - key_dim)), pad(k, (0, size - key_dim))
    if value_dim < size:
        v = pad(v, (0, size - value_dim))
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(q.dtype)
    scale = key_dim**-0.5
    if transformed():
        return composite(q, k, v, mask, causal, scale)[..., :value_dim]
    learned = mask is not None and mask.requires_grad
    watched = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if watched and not learned and not torch.compiler.is_compiling():
        y = _Twice.apply(q, k, v, mask, causal, scale)
    else:
        y = _torch(q, k, v, mask, causal, scale)
    return y[..., :value_dim]


def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> str:
    """The kernel that torch chooses for these tensors: `flash_attention` (memory linear in T) or `math` (T x S)."""
    grouped = q.shape[1] != k.shape[1]
    return SDPBackend(torch._fused_sdp_choice(q, k, v, mask, 0.0, causal, enable_gqa=grouped)).name.lower()


def _torch(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    # asked for by its module, so that whoever counts can choose its kernel there
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped)


def composite(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """The same function from differentiable parts."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * scale
    if causal:
        mask = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
    if mask is not None:
        s = torch.where(mask, s, -torch.inf) if mask.dtype == torch.bool else s + mask
    return s.softmax(-1) @ v


class _Twice(torch.autograd.Function):
    """Forward and first derivative by the fused kernel; the derivative of the derivative through `composite`, because
    the kernel has none."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
        ctx.save_for_backward(q, k, v, mask)
        ctx.causal, ctx.scale = causal, scale
        ctx.leaves = [x.detach().requires_grad_(x.requires_grad) for x in (q, k, v)]
        with torch.enable_grad():
            ctx.y = _torch(ctx.leaves[0], ctx.leaves[1], ctx.leaves[2], mask, causal, scale)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        again = torch.is_grad_enabled()
        q, k, v, mask = ctx.saved_tensors
        y, inputs = (
            (composite(q, k, v, mask, ctx.causal, ctx.scale), (q, k, v)) if again else (ctx.y, tuple(ctx.leaves))
        )
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(y, wanted, dy, create_graph=again, retain_graph=True))
        return (*(next(found) if x.requires_grad else None for x in inputs), None, None, None)
