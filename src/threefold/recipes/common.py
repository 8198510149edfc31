"""What several tasks share: reading both ways, and the report on a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from threefold.specs.attention import Attention
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.positions import Site
from threefold.train.metrics import classification


def both_ways(mixer: MixerSpec) -> MixerSpec:
    """The same mixer reading the whole sequence: attention without its mask, anything else also backwards."""
    if not mixer.traits.causal:
        return mixer
    if isinstance(mixer, Attention) and (mixer.position is None or mixer.position.site is not Site.DECAY):
        return replace(mixer, causal=False)
    return Bidirectional(mixer)


def pad(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as one tensor, zeros behind, and which entries are real."""
    longest = max((len(row) for row in rows), default=0)
    padded = rows[0].new_zeros((len(rows), longest, *rows[0].shape[1:]))
    for at, row in enumerate(rows):
        padded[at, : len(row)] = row
    lengths = torch.tensor([len(row) for row in rows])
    return padded, torch.arange(longest) < lengths[:, None]


class Verdicts:
    """Collects a classifier's answers, batch by batch."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.loss = 0.0
        self.truths: list[int] = []
        self.guesses: list[int] = []

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """One batch."""
        self.loss += float(functional.cross_entropy(logits.float(), labels, reduction="sum"))
        self.truths += labels.tolist()
        self.guesses += logits.argmax(-1).tolist()

    def report(self) -> dict[str, Any]:
        """The mean loss, and everything that the confusion matrix says."""
        return {
            "loss": self.loss / max(1, len(self.truths)),
            **classification(self.truths, self.guesses, self.names).to_dict(),
        }


def chances(logits: Tensor, names: Sequence[str], inputs: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a prediction: the likeliest class, and the probability of each."""
    return [
        {
            "input": given,
            "label": names[int(row.argmax())],
            "probabilities": dict(zip(names, row.tolist(), strict=True)),
        }
        for given, row in zip(inputs, logits.float().softmax(-1), strict=True)
    ]
