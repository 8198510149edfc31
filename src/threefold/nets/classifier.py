"""A sequence in, logits of classes out."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from threefold.nets.lm import place
from threefold.nets.stack import Stack
from threefold.ops.scan import cleared
from threefold.specs.base import Form
from threefold.specs.nets import ClassifierSpec, Pool


class BagEmbedding(nn.Module):
    """sum_j table[id_j] over a token's ids other than 0, each unseen with chance `drop` while training."""

    def __init__(self, vocab: int, width: int, drop: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, width) / sqrt(width))
        self.drop = drop

    def forward(self, ids: Int[Tensor, "b t j"]) -> Float[Tensor, "b t d"]:
        seen = (ids != 0).to(self.weight.dtype)
        if self.training and self.drop > 0:
            seen = seen * (torch.rand_like(seen) >= self.drop) / (1.0 - self.drop)
        flat = functional.embedding_bag(
            ids.flatten(0, 1), self.weight, per_sample_weights=seen.flatten(0, 1), mode="sum"
        )
        return flat.unflatten(0, ids.shape[:2])


class Classifier(nn.Module):
    """Bags of ids, positions, a stack over any mixers, one pooled vector, logits."""

    def __init__(self, spec: ClassifierSpec) -> None:
        super().__init__()
        self.spec = spec
        width = spec.stack.width
        self.embedding = BagEmbedding(spec.vocab, width, spec.drop_ids)
        self.position = spec.position.build(width) if spec.position else None
        self.stack = Stack(spec.stack)
        self.head = nn.Linear(width, spec.classes)

    def forward(
        self,
        ids: Int[Tensor, "b t *j"],
        valid: Bool[Tensor, "b t"] | None = None,
        *,
        form: Form | None = None,
    ) -> Float[Tensor, "b c"]:
        """Logits of the classes; `ids` (B, T) or, with several ids a token, (B, T, J)."""
        bags = ids[..., None] if ids.ndim == 2 else ids
        at = torch.zeros(len(bags), dtype=torch.long, device=bags.device)
        x, _ = place(self.embedding, self.position, bags, at, valid)
        x = pooled(self.stack(x, valid, form=form), valid, self.spec.pool)
        return self.head(functional.dropout(x, self.spec.stack.dropout, self.training))


def pooled(x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None, pool: Pool) -> Float[Tensor, "b d"]:
    """One vector of the valid ones; 0 for a row without any."""
    if valid is None:
        valid = x.new_ones(x.shape[:2], dtype=torch.bool)
    some = valid.any(1, keepdim=True)
    if pool is Pool.MEAN:
        return cleared(x, valid).sum(1) / valid.sum(1, keepdim=True).clamp_min(1)
    if pool is Pool.MAX:
        return x.masked_fill(~valid[..., None], -torch.inf).amax(1).masked_fill(~some, 0.0)
    last = (valid * torch.arange(1, x.shape[1] + 1, device=x.device)).argmax(1)
    return x[torch.arange(len(x), device=x.device), last].masked_fill(~some, 0.0)
