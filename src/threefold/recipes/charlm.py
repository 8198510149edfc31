"""The next character of plain text: any mixer, any position, measured beyond the length that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from threefold.errors import InputError, require
from threefold.recipes.recipe import DataSpec, ModelSpec, Recipe
from threefold.specs.attention import Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.nets import FFN, LMSpec, StackSpec
from threefold.specs.positions import InputPositionSpec, Rotary
from threefold.train.settings import AdamW, Decay, Schedule, Train
from threefold.train.task import Assets

if TYPE_CHECKING:
    from torch import Tensor, nn

TAIL = 32  # characters at the end of a window that are scored when lengths are compared
WINDOWS = 32  # windows of each length


@dataclass(frozen=True)
class CharlmData(DataSpec):
    """A utf-8 text: its first 80% train, the next 10% choose, the last 10% test. Without a path, Python's manual."""

    length: int = 128
    choose: int = 40_000  # characters of the validation part that are scored while training


@dataclass(frozen=True)
class CharlmModel(ModelSpec):
    """A stack of one mixer; give `position` for an encoding that enters at the input."""

    mixer: MixerSpec = Softmax(heads=4, position=Rotary())
    layers: int = 4
    width: int = 128
    ffn: int | None = 512
    position: InputPositionSpec | None = None
    dropout: float = 0.0


class CharBatch(NamedTuple):
    """Windows (B, T + 1): each character but the last is followed by its answer."""

    tokens: Tensor


@dataclass(frozen=True)
class CharlmRecipe(Recipe):
    """Character language model."""

    name: ClassVar[str] = "charlm"
    says: ClassVar[str] = "the next character of your text, at 1, 2, 4 and 8 times the training length"

    data: CharlmData = CharlmData()
    model: CharlmModel = CharlmModel()
    train: Train = Train(
        lr=3e-3,
        epochs=4,
        batch=16,
        optimiser=AdamW(weight_decay=0.1, beta2=0.99),
        schedule=Schedule(warmup=0.05, decay=Decay.COSINE, floor=0.05),
        clip=1.0,
    )

    def task(self, assets: Assets | None = None) -> CharlmTask:
        return CharlmTask(self, assets)

    def smoke(self) -> Self:
        return replace(
            self,
            data=replace(self.data, length=32, choose=2000),
            model=replace(self.model, layers=1, width=32, ffn=64),
            train=replace(self.train, steps=40, batch=8, lr=1e-2),
        )


class CharlmTask:
    """Gives the loop windows of text and measures likelihood."""

    def __init__(self, recipe: CharlmRecipe, assets: Assets | None) -> None:
        from threefold.data.text import Alphabet

        self.recipe = recipe
        self._saved = assets is not None
        self.alphabet = Alphabet(tuple(assets["symbols"])) if assets else Alphabet.of([self.text])

    @cached_property
    def text(self) -> str:
        """The whole text, read when first asked for."""
        from threefold.data.text import read_plain

        path = self.recipe.data.path
        return manual() if path is None else read_plain(Path(path))

    @cached_property
    def parts(self) -> dict[str, Tensor]:
        """The tokens of each part; of another text than the one trained on, all of it is for testing."""
        import torch

        tokens = torch.tensor(self.alphabet.encode(self.text))
        if self._saved and self.recipe.data.path is not None:
            return {"test": tokens}
        first, second = round(0.8 * len(tokens)), round(0.9 * len(tokens))
        return {"train": tokens[:first], "valid": tokens[first:second], "test": tokens[second:]}

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def assets(self) -> Assets:
        return {"symbols": list(self.alphabet.symbols)}

    def build(self) -> nn.Module:
        model = self.recipe.model
        ffn = FFN(model.ffn) if model.ffn else None
        stack = StackSpec(model.width, (model.mixer,) * model.layers, ffn, dropout=model.dropout)
        return LMSpec(len(self.alphabet), stack, model.position, tied=False).build()

    def order(self, seed: int, epoch: int, size: int) -> list[list[int]]:
        from threefold.data.order import shuffled

        length, have = self.recipe.data.length, len(self.parts["train"])
        windows = (have - 1) // length - 1
        require(
            windows >= 1, f"{have} characters to train on: at least {2 * length + 1} are needed for length {length}."
        )
        return shuffled(windows, seed, epoch, size)

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> CharBatch:
        import numpy as np
        import torch

        length, text = self.recipe.data.length, self.parts["train"]
        shift = int(np.random.default_rng([seed, epoch, 1]).integers(length))
        starts = [shift + index * length for index in indices]
        return CharBatch(torch.stack([text[start : start + length + 1] for start in starts]))

    def weight(self, batch: CharBatch) -> float:
        return float(batch.tokens[:, 1:].numel())

    def loss(self, model: nn.Module, batch: CharBatch) -> Tensor:
        from torch.nn import functional

        logits = model(batch.tokens[:, :-1]).flatten(0, 1)
        smoothing = self.recipe.train.smoothing
        answers = batch.tokens[:, 1:].flatten()
        return functional.cross_entropy(logits, answers, reduction="sum", label_smoothing=smoothing)

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        from threefold.train.metrics import likelihood

        text, length = self.parts[split], self.recipe.data.length
        require(len(text) >= 2, f"{len(text)} characters to measure: give at least 2.")
        if split == "valid":
            text = text[: self.recipe.data.choose]
        found: dict[str, Any] = likelihood(strided(model, text, length)) | {"characters": len(text)}
        if split == "test":
            found["at_length"] = {str(k): tail(model, text, k * length) for k in (1, 2, 4, 8)}
        return found

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Each input continued by 200 characters, always the likeliest."""
        import torch

        from threefold.nets.decode import greedy
        from threefold.nets.lm import LM

        assert isinstance(model, LM)
        rows = []
        for given in inputs:
            require(len(given) > 0, "nothing to continue: give at least one character.")
            tokens = torch.tensor([self.alphabet.encode(given)])
            _, state = model.scan(tokens[:, :-1], model.init_state(1))
            written = greedy(model.step, state, tokens[:, -1], stop=None, limit=200)
            rows.append({"input": given, "text": self.alphabet.decode(written[0])})
        return rows


def strided(model: nn.Module, text: Tensor, length: int) -> float:
    """Mean nats a character: windows of `length` at every half length, of which the second half is scored."""
    import torch
    from torch.nn import functional

    half = max(1, length // 2)
    starts = list(range(0, max(1, len(text) - 1 - length + half), half))
    total = 0.0
    for at in range(0, len(starts), 64):
        windows = [text[start : start + length + 1] for start in starts[at : at + 64]]
        whole = len({len(window) for window in windows}) == 1
        for group in [windows] if whole else [[window] for window in windows]:
            tokens = torch.stack(group)
            logits = model(tokens[:, :-1])
            losses = functional.cross_entropy(logits.transpose(1, 2).float(), tokens[:, 1:], reduction="none")
            skip = length - half
            first = losses[:1] if at == 0 and group[0] is windows[0] else losses[:0]
            total += float(first[:, :skip].sum()) + float(losses[:, skip:].sum())
    return total / (len(text) - 1)


def tail(model: nn.Module, text: Tensor, length: int) -> float | None:
    """Mean nats of the last 32 characters of windows of this length; None where text or positions do not reach."""
    from torch.nn import functional

    if len(text) <= length:
        return None
    count = min(WINDOWS, (len(text) - 1) // length)
    starts = [round(at * (len(text) - 1 - length) / max(1, count - 1)) for at in range(count)]
    total = 0.0
    for start in starts:
        tokens = text[None, start : start + length + 1]
        try:
            logits = model(tokens[:, :-1])[:, -TAIL:]
        except InputError:
            return None
        total += float(functional.cross_entropy(logits[0].float(), tokens[0, 1:][-TAIL:]))
    return total / count


def manual() -> str:
    """Half a million characters of real English that every Python brings along: its manual's topics."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))
