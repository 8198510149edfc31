"""Tasks with known answers: what a mixer can remember, and for how long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from threefold.data.toy import IGNORE, Adding, Comparator, Copy, NumberToy, Permutation, Recall, TokenToy
from threefold.errors import require
from threefold.recipes.recipe import DataSpec, ModelSpec, Recipe
from threefold.specs.attention import Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.nets import FFN, LMSpec, StackSpec
from threefold.specs.positions import InputPositionSpec, Rotary
from threefold.specs.recurrent import LSTM
from threefold.train.settings import AdamW, Decay, Schedule, Train
from threefold.train.task import Assets

if TYPE_CHECKING:
    from torch import Tensor, nn

PARTS = {"train": 1, "valid": 2, "test": 3}  # which set of examples a split is


@dataclass(frozen=True)
class ToyModel(ModelSpec):
    """A small causal stack of one mixer."""

    mixer: MixerSpec = LSTM()
    layers: int = 2
    width: int = 64
    ffn: int | None = 128
    position: InputPositionSpec | None = None

    def stack(self) -> StackSpec:
        """The stack."""
        return StackSpec(self.width, (self.mixer,) * self.layers, FFN(self.ffn) if self.ffn else None)


@dataclass(frozen=True)
class DrawnData(DataSpec):
    """Examples are drawn: so many an epoch, and so many for a test."""

    count: int = 4096
    tested: int = 512


@dataclass(frozen=True)
class RecallData(DrawnData):
    """Which recall task."""

    toy: Recall = Recall()


@dataclass(frozen=True)
class CopyData(DrawnData):
    """Which copy task."""

    toy: Copy = Copy()


@dataclass(frozen=True)
class AddingData(DrawnData):
    """Which adding problem."""

    toy: Adding = Adding()


@dataclass(frozen=True)
class ComparatorData(DrawnData):
    """Which comparator."""

    toy: Comparator = Comparator()


@dataclass(frozen=True)
class PermutationData(DrawnData):
    """Which permutation."""

    toy: Permutation = Permutation()


ToyData = RecallData | CopyData | AddingData | ComparatorData | PermutationData
SETTINGS = Train(
    lr=3e-3, epochs=10, batch=32, optimiser=AdamW(), schedule=Schedule(warmup=0.05, decay=Decay.COSINE), clip=1.0
)


@dataclass(frozen=True)
class ToyRecipe(Recipe, ABC):
    """Shared by the toy recipes."""

    data: ToyData
    model: ToyModel = ToyModel()
    train: Train = SETTINGS

    def task(self, assets: Assets | None = None) -> ToyTask:
        require(self.data.path is None, f"{self.name} makes its own examples and reads no file: leave --data out.")
        return TokenTask(self) if isinstance(self.data.toy, TokenToy) else NumberTask(self)

    @abstractmethod
    def easy(self) -> ToyData:
        """Data on which a small model improves within seconds."""

    def smoke(self) -> Self:
        return replace(
            self,
            data=self.easy(),
            model=replace(self.model, width=32, layers=1, ffn=64),
            train=replace(self.train, lr=1e-2, steps=60),
        )


@dataclass(frozen=True)
class RecallRecipe(ToyRecipe):
    """Associative recall."""

    name: ClassVar[str] = "recall"
    says: ClassVar[str] = "the value that stood beside a key"
    data: RecallData = RecallData()
    model: ToyModel = ToyModel(mixer=Softmax(heads=4, position=Rotary()))

    def easy(self) -> RecallData:
        return RecallData(toy=Recall(pairs=2, keys=3, values=2), count=1024, tested=64)


@dataclass(frozen=True)
class CopyRecipe(ToyRecipe):
    """Delayed copy."""

    name: ClassVar[str] = "copy"
    says: ClassVar[str] = "symbols, repeated after a delay"
    data: CopyData = CopyData()

    def easy(self) -> CopyData:
        return CopyData(toy=Copy(length=2, delay=1, symbols=3), count=1024, tested=64)


@dataclass(frozen=True)
class AddingRecipe(ToyRecipe):
    """The adding problem."""

    name: ClassVar[str] = "adding"
    says: ClassVar[str] = "the sum of two marked numbers, far apart"
    data: AddingData = AddingData()

    def easy(self) -> AddingData:
        return AddingData(toy=Adding(length=6), count=1024, tested=64)


@dataclass(frozen=True)
class ComparatorRecipe(ToyRecipe):
    """The documents' alternating-sum comparator, learned."""

    name: ClassVar[str] = "comparator"
    says: ClassVar[str] = "whether even steps sum to more than odd ones"
    data: ComparatorData = ComparatorData()

    def easy(self) -> ComparatorData:
        return ComparatorData(toy=Comparator(length=4), count=1024, tested=64)


@dataclass(frozen=True)
class PermutationRecipe(ToyRecipe):
    """A fixed permutation of places."""

    name: ClassVar[str] = "permutation"
    says: ClassVar[str] = "symbols, repeated in another order that is always the same"
    data: PermutationData = PermutationData()
    model: ToyModel = ToyModel(mixer=Softmax(heads=4, position=Rotary()))

    def easy(self) -> PermutationData:
        return PermutationData(toy=Permutation(length=3, symbols=3), count=1024, tested=64)


class ToyBatch(NamedTuple):
    """Inputs, and answers: token ids (B, T) with -1 where none is asked, or one number a row (B,)."""

    inputs: Tensor
    answers: Tensor


class ToyTask(ABC):
    """What token and number tasks share: the examples are drawn, never stored."""

    splits = ("train", "valid", "test")

    def __init__(self, recipe: ToyRecipe) -> None:
        self.recipe = recipe

    def assets(self) -> Assets:
        return {}

    def order(self, seed: int, epoch: int, size: int) -> list[list[int]]:
        from threefold.data.order import shuffled

        return shuffled(self.recipe.data.count, seed, epoch, size)

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> ToyBatch:
        """Fresh examples in every epoch."""
        return self._draw([epoch * self.recipe.data.count + index for index in indices], seed * 8 + PARTS["train"])

    def _draw(self, indices: Sequence[int], seed: int) -> ToyBatch:
        import numpy as np
        import torch

        inputs, answers = zip(*(self.recipe.data.toy.example(seed, index) for index in indices), strict=True)
        kind = np.int64 if isinstance(self.recipe.data.toy, TokenToy) else np.float32
        return ToyBatch(torch.from_numpy(np.stack(inputs)), torch.from_numpy(np.array(answers, kind)))

    def _tests(self, split: str) -> list[ToyBatch]:
        count = self.recipe.data.tested
        indices = [range(at, min(at + 256, count)) for at in range(0, count, 256)]
        return [self._draw(part, PARTS[split]) for part in indices]

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        require(False, f"{self.recipe.name} answers drawn examples only: use `threefold evaluate`.")
        return []

    @abstractmethod
    def build(self) -> nn.Module: ...

    @abstractmethod
    def weight(self, batch: ToyBatch) -> float: ...

    @abstractmethod
    def loss(self, model: nn.Module, batch: ToyBatch) -> Tensor: ...

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]: ...


class TokenTask(ToyTask):
    """Answers are tokens; accuracy counts them one by one and as whole answers."""

    def build(self) -> nn.Module:
        toy, model = self.recipe.data.toy, self.recipe.model
        assert isinstance(toy, TokenToy)
        return LMSpec(toy.vocab, model.stack(), model.position, tied=False).build()

    def weight(self, batch: ToyBatch) -> float:
        return float((batch.answers != IGNORE).sum())

    def loss(self, model: nn.Module, batch: ToyBatch) -> Tensor:
        from torch.nn import functional

        logits = model(batch.inputs).flatten(0, 1)
        answers = batch.answers.flatten()
        return functional.cross_entropy(
            logits, answers, reduction="sum", ignore_index=IGNORE, label_smoothing=self.recipe.train.smoothing
        )

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        from torch.nn import functional

        loss = asked = right = whole = rows = 0.0
        for batch in self._tests(split):
            logits = model(batch.inputs)
            flat = logits.flatten(0, 1).float()
            loss += float(functional.cross_entropy(flat, batch.answers.flatten(), reduction="sum", ignore_index=IGNORE))
            counted = batch.answers != IGNORE
            hits = (logits.argmax(-1) == batch.answers) & counted
            asked, right = asked + float(counted.sum()), right + float(hits.sum())
            whole, rows = whole + float((hits.sum(1) == counted.sum(1)).sum()), rows + len(hits)
        return {"loss": loss / asked, "accuracy": right / asked, "whole": whole / rows}


class NumberTask(ToyTask):
    """The answer is a number: squared error, or for the comparator the cross-entropy of a probability."""

    def build(self) -> nn.Module:
        from threefold.nets.regressor import Regressor

        toy = self.recipe.data.toy
        assert isinstance(toy, NumberToy)
        return Regressor(toy.channels, self.recipe.model.stack(), self.recipe.model.position)

    def weight(self, batch: ToyBatch) -> float:
        return float(len(batch.answers))

    def loss(self, model: nn.Module, batch: ToyBatch) -> Tensor:
        from torch.nn import functional

        told = model(batch.inputs)
        if isinstance(self.recipe.data.toy, Comparator):
            return functional.binary_cross_entropy_with_logits(told, batch.answers, reduction="sum")
        return functional.mse_loss(told, batch.answers, reduction="sum")

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        compares = isinstance(self.recipe.data.toy, Comparator)
        loss = right = rows = 0.0
        for batch in self._tests(split):
            told = model(batch.inputs)
            loss += float(self.loss(model, batch))
            near = (told > 0) == (batch.answers > 0.5) if compares else (told - batch.answers).abs() < 0.1
            counted = batch.answers != 0.5 if compares else near | True
            right, rows = right + float((near & counted).sum()), rows + float(counted.sum())
        return {"loss": loss / self.recipe.data.tested, "accuracy": right / max(rows, 1.0)}
