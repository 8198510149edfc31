"""What a task gives to the training loop. The loop knows nothing else about it.

Everything random about the data is a function of numbers: the order of (seed, epoch), an augmentation of
(seed, epoch, sample). A run that is stopped anywhere therefore continues with the very same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor, nn

Batch = TypeVar("Batch")
Assets = dict[str, Any]  # JSON: what was read off the training data (vocabulary, labels) and is saved with the model


class Task(Protocol[Batch]):
    """A model to build, batches to learn from, and a way to measure."""

    @property
    def splits(self) -> tuple[str, ...]:
        """What `evaluate` knows, of "train", "valid", "test"."""

    def assets(self) -> Assets:
        """What a saved model needs of its training data, as JSON: the alphabet, the labels' names."""

    def build(self) -> nn.Module:
        """A fresh model; the loop has seeded torch before it asks."""

    def order(self, seed: int, epoch: int, size: int) -> Sequence[Sequence[int]]:
        """The training examples of one epoch as batches of (at most) `size` indices: a pure function.

        Each example stands in exactly one batch, and the number of batches is the same in every epoch.
        """

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> Batch:
        """Load, augment and pad these training examples. An augmentation draws from (seed, epoch, index) only."""

    def weight(self, batch: Batch) -> float:
        """How many terms the batch's loss sums: examples, or tokens that count."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The *sum* of the loss terms, a scalar. The loop divides by the weight of the whole step, on all processes."""

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """Metrics as JSON values, `loss` (mean) among them. The loop sets eval mode, stops gradients, keeps the RNG."""

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """One JSON row for each input (a path or a text), with the input itself under `input`."""


@runtime_checkable
class Shows(Protocol):
    """A task that can show single test examples: what a person would look at or listen to."""

    def show(self, model: nn.Module, count: int) -> list[dict[str, Any]]:
        """JSON rows, as `threefold.recipes.shown` makes them."""


class Listener(Protocol):
    """Hears audio piece by piece and says the text that it is sure of."""

    rate: int  # samples a second that `hear` expects

    def hear(self, samples: Tensor) -> str:
        """More mono samples in [-1, 1]; the text that they add."""

    def end(self) -> str:
        """No more samples; the rest of the text."""


@runtime_checkable
class Listens(Protocol):
    """A task whose model can transcribe audio as it comes."""

    def listen(self, model: nn.Module) -> Listener:
        """A fresh listener; raises InputError with the reason when this model's mixers cannot stream."""
