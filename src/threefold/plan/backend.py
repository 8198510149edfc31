"""Name the attention backend instead of inheriting the device's: fused (scores never stored) or materialised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from threefold.plan.conventions import Scores

_original = functional.scaled_dot_product_attention


@contextmanager
def attention(scores: Scores | None) -> Iterator[None]:
    """Inside, scaled dot-product attention runs in this way on any device; None leaves the device its choice."""
    if scores is None:
        yield
    elif scores is Scores.MATERIALISED:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    else:
        functional.scaled_dot_product_attention = _chosen
        try:
            with _Fused():
                yield
        finally:
            functional.scaled_dot_product_attention = _original


class _Fused(TorchFunctionMode):
    """Catches attention that was imported by name; `_chosen` catches torch's own layers, whose inside no mode sees."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_chosen if func is _original else func)(*args, **(kwargs or {}))


def _chosen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Tensors on meta take the CPU's fused kernel wherever the CPU would; other devices choose for themselves."""
    fused = query.is_meta and not dropout_p and _fusible(query, key, value, attn_mask)
    if not fused:
        with sdpa_kernel(SDPBackend.MATH) if query.is_meta else nullcontext():
            return _original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(attn_mask.logical_not(), float("-inf"))
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]


def _fusible(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """The CPU kernel's own conditions: four axes, one head size, whole rows, a mask that is not learned."""
    return (
        all(t.ndim == 4 and t.stride(-1) == 1 and t.numel() > 0 for t in (q, k, v))
        and q.shape[-1] == k.shape[-1] == v.shape[-1]
        and (mask is None or (mask.ndim in (2, 4) and not mask.requires_grad))
    )
