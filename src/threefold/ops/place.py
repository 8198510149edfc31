"""Where a token stands. Positions count valid tokens, per row: padding on any side, or scattered, equals none."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def positions(count: Int[Tensor, " b"], length: int, valid: Bool[Tensor, "b t"] | None = None) -> Int[Tensor, "b t"]:
    """at[b, t]: valid tokens of row b before token t, given `count` of them before the first. An invalid token repeats
    the position before it (and never less than 0), so it advances nothing."""
    if valid is None:
        return count[:, None] + torch.arange(length, device=count.device)
    return (count[:, None] + valid.long().cumsum(1) - 1).clamp(min=0)


def advance(count: Int[Tensor, " b"], length: int, valid: Bool[Tensor, "b t"] | None = None) -> Int[Tensor, " b"]:
    """Valid tokens per row after `length` more."""
    return count + (length if valid is None else valid.sum(1))


def packed(count: Int[Tensor, " b"], valid: Bool[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """A slot of its own for every token: valid ones in order from `count`, the invalid ones behind them."""
    real = valid.long().cumsum(1)
    rest = (~valid).long().cumsum(1)
    return count[:, None] + torch.where(valid, real, real[:, -1:] + rest) - 1
