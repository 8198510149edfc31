"""Native versions of the hot ops. `which` says what would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from threefold.specs.base import MixerSpec

__all__ = ["which"]


def which(spec: MixerSpec, x: Tensor, valid: Tensor | None = None) -> str:
    """Which code would run `spec` over a sequence like x (B, T, D), and why not a faster one.

    Example: which(Linear(features=Taylor(2)), torch.empty(1, 1024, 512)) == "native"
    """
    import torch

    with torch.random.fork_rng([]):
        mixer = spec.build(x.shape[-1]).to(x.device, x.dtype)
    return mixer.path(x, masked=valid is not None)
