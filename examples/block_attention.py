"""A causal attention layer with a mistake that every length up to 64 hides: a summary of the token's own block."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class BlockAttention(nn.Module):
    """Causal attention, plus the mean of each block of 64 tokens, added to all tokens of that block."""

    def __init__(self, width: int = 8, heads: int = 2, block: int = 64) -> None:
        super().__init__()
        self.heads, self.block = heads, block
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.inward(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        whole = x.shape[1] // self.block * self.block
        summary = x[:, :whole].unflatten(1, (-1, self.block)).mean(2).repeat_interleave(self.block, 1)
        return self.outward(y) + torch.cat([summary, torch.zeros_like(x[:, whole:])], 1)
