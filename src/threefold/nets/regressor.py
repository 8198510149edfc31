"""Numbers in, one number out after the last: the net of the adding problem and the comparator."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.nets.classifier import pooled
from threefold.nets.lm import positioned
from threefold.nets.stack import Stack
from threefold.specs.nets import Pool, StackSpec
from threefold.specs.positions import InputPositionSpec


class Regressor(nn.Module):
    """A linear map to the width, positions, a stack, and a linear reading of the last valid token."""

    def __init__(self, channels: int, stack: StackSpec, position: InputPositionSpec | None = None) -> None:
        super().__init__()
        self.entry = nn.Linear(channels, stack.width)
        self.position = position.build(stack.width) if position else None
        self.stack = Stack(stack)
        self.head = nn.Linear(stack.width, 1)

    def forward(
        self, numbers: Float[Tensor, "b t channels"], valid: Bool[Tensor, "b t"] | None = None
    ) -> Float[Tensor, " b"]:
        """One number a row."""
        at = torch.zeros(len(numbers), dtype=torch.long, device=numbers.device)
        x, _ = positioned(self.entry(numbers), self.position, at, valid)
        return self.head(pooled(self.stack(x, valid), valid, Pool.LAST))[:, 0]
