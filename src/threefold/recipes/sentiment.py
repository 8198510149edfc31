"""Sentences to labels: any mixer over words, their letters and their neighbours, pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from threefold.data.text import MOST_WORDS
from threefold.errors import require
from threefold.recipes.recipe import DataSpec, ModelSpec, Recipe
from threefold.specs.base import MixerSpec
from threefold.specs.nets import FFN, ClassifierSpec, Pool, StackSpec
from threefold.specs.positions import InputPositionSpec
from threefold.specs.recurrent import LSTM
from threefold.train.settings import AdamW, Decay, Schedule, Train
from threefold.train.task import Assets

if TYPE_CHECKING:
    from torch import Tensor, nn

    from threefold.data.splits import Rows
    from threefold.data.text import Lexicon


@dataclass(frozen=True)
class SentimentData(DataSpec):
    """A tsv, csv or jsonl file, or a folder of train, valid and test; without a path, sentences from a grammar.

    `text` and `label` name the columns (or number them from 0); `split` is the folder's file to train on.
    """

    text: str | None = None
    label: str | None = None
    split: str = "train"
    longest: int = MOST_WORDS  # words; a longer text is refused by name
    cut: bool = False  # instead, keep the first `longest` words
    count: int = 4000  # sentences of the grammar


@dataclass(frozen=True)
class SentimentModel(ModelSpec):
    """A stack of one mixer, reading both ways, over summed vectors of words and hashed features."""

    mixer: MixerSpec = LSTM()
    layers: int = 1
    width: int = 64
    ffn: int | None = 128
    forward_only: bool = False
    position: InputPositionSpec | None = None
    pool: Pool = Pool.MEAN
    dropout: float = 0.5
    drop_ids: float = 0.5  # word dropout
    least: int = 1  # occurrences that make a word
    buckets: int = 20000  # hashed letter runs (and word pairs); 0: words alone
    pairs: bool = False
    letters: int = 5


class TextBatch(NamedTuple):
    """Bags of ids (B, T, J), which tokens are real, class numbers."""

    ids: Tensor
    valid: Tensor
    labels: Tensor


@dataclass(frozen=True)
class SentimentRecipe(Recipe):
    """Sentiment of sentences, with the mixer as the only difference."""

    name: ClassVar[str] = "sentiment"
    says: ClassVar[str] = "sentences to labels: LSTM, GRU, transformer, Taylor; your own tsv, csv or jsonl"

    data: SentimentData = SentimentData()
    model: SentimentModel = SentimentModel()
    train: Train = Train(
        lr=3e-3,
        epochs=5,
        batch=64,
        optimiser=AdamW(weight_decay=0.3),
        schedule=Schedule(warmup=0.1, decay=Decay.LINEAR),
        clip=1.0,
        watch="accuracy",
    )

    def task(self, assets: Assets | None = None) -> SentimentTask:
        return SentimentTask(self, assets)

    def smoke(self) -> Self:
        return replace(
            self,
            data=replace(self.data, count=300),
            model=replace(self.model, width=24, buckets=200, dropout=0.1, drop_ids=0.1),
            train=replace(self.train, epochs=4, batch=16, lr=1e-2),
        )


class SentimentTask:
    """Gives the loop batches of sentences and judges labels."""

    def __init__(self, recipe: SentimentRecipe, assets: Assets | None) -> None:
        self.recipe = recipe
        self._saved = assets is not None
        self._assets = assets or self._read()
        self.names: list[str] = list(self._assets["names"])

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """The texts of every split, read when first asked for."""
        from threefold.data import sentiment, splits
        from threefold.data.order import held_out
        from threefold.data.tables import Columns

        data = self.recipe.data
        if data.path is None:
            texts, labels = zip(*sentiment.Opinions(data.count).rows(), strict=True)
            every = splits.Rows(texts, labels)
            parts = held_out(len(texts), (0.8, 0.1, 0.1))
            return {name: every.pick(part) for name, part in zip(("train", "valid", "test"), parts, strict=True)}
        path, columns = Path(data.path), Columns(data.text, data.label)
        require(path.exists(), f"{path}: no such file or folder.")
        if self._saved and (path.is_file() or data.split not in splits.tables(path)):
            return {"test": splits.whole(path, columns)}
        return splits.load(path, columns, train=data.split)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def _read(self) -> Assets:
        from threefold.data.splits import classes
        from threefold.data.text import Lexicon

        model, texts = self.recipe.model, self.rows["train"].texts
        words = Lexicon.of(texts, least=model.least).words
        return {"names": list(classes(self.rows)), "words": list(words)}

    @cached_property
    def lexicon(self) -> Lexicon:
        """Words of the training texts, and the hashed features that need no list."""
        from threefold.data.text import Lexicon

        model = self.recipe.model
        return Lexicon(tuple(self._assets["words"]), model.buckets, model.pairs, model.letters)

    def assets(self) -> Assets:
        return self._assets

    def build(self) -> nn.Module:
        from threefold.recipes.common import both_ways

        model = self.recipe.model
        mixer = model.mixer if model.forward_only else both_ways(model.mixer)
        ffn = FFN(model.ffn) if model.ffn else None
        stack = StackSpec(model.width, (mixer,) * model.layers, ffn, dropout=model.dropout)
        spec = ClassifierSpec(len(self.lexicon), len(self.names), stack, model.position, model.pool, model.drop_ids)
        return spec.build()

    @cached_property
    def _encoded(self) -> dict[str, list[list[list[int]]]]:
        return {split: self._encode(list(rows.texts), split) for split, rows in self.rows.items()}

    def _encode(self, texts: list[str], where: str) -> list[list[list[int]]]:
        from threefold.data.problems import Problem, refuse

        limit = self.recipe.data.longest
        encoded = [self.lexicon.encode(text) for text in texts]
        if self.recipe.data.cut:
            return [bags[:limit] for bags in encoded]
        long = [
            Problem(f"{where} text {at + 1}", f"{len(bags)} words, over the limit of {limit}")
            for at, bags in enumerate(encoded)
            if len(bags) > limit
        ]
        refuse(long, "texts (--data.longest allows more, --data.cut keeps their beginnings)")
        return encoded

    def order(self, seed: int, epoch: int, size: int) -> list[list[int]]:
        from threefold.data.order import bucketed

        return bucketed([len(bags) for bags in self._encoded["train"]], seed, epoch, size)

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> TextBatch:
        return self._of("train", list(indices))

    def _of(self, split: str, indices: list[int]) -> TextBatch:
        import torch

        names = {name: at for at, name in enumerate(self.names)}
        ids, valid = bags_of([self._encoded[split][at] for at in indices])
        labels = [names[self.rows[split].labels[at]] for at in indices]
        return TextBatch(ids, valid, torch.tensor(labels))

    def weight(self, batch: TextBatch) -> float:
        return float(len(batch.labels))

    def loss(self, model: nn.Module, batch: TextBatch) -> Tensor:
        from torch.nn import functional

        logits = model(batch.ids, batch.valid)
        smoothing = self.recipe.train.smoothing
        return functional.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        from threefold.recipes.common import Verdicts

        strange = sorted(set(self.rows[split].labels) - set(self.names))
        require(not strange, f"labels {strange[:5]}: this model knows {', '.join(self.names)}.")
        verdicts = Verdicts(self.names)
        lengths = [len(bags) for bags in self._encoded[split]]
        by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
        for start in range(0, len(by_length), 128):
            batch = self._of(split, by_length[start : start + 128])
            verdicts.add(model(batch.ids, batch.valid), batch.labels)
        return verdicts.report()

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        from threefold.recipes.common import chances

        empty = [text for text in inputs if not text.strip()]
        require(not empty, "an empty sentence has no sentiment: give at least one word.")
        if not inputs:
            return []
        ids, valid = bags_of(self._encode(list(inputs), "input"))
        return chances(model(ids, valid), self.names, inputs)

    def show(self, model: nn.Module, count: int) -> list[dict[str, Any]]:
        from threefold.recipes import shown

        return shown.sentences(self, model, count)


def bags_of(sentences: Sequence[Sequence[Sequence[int]]]) -> tuple[Tensor, Tensor]:
    """Sentences of bags of ids as (B, T, J), zeros where nothing is, and which tokens are real."""
    import numpy as np
    import torch

    longest = max(1, *(len(sentence) for sentence in sentences)) if len(sentences) > 1 else max(1, len(sentences[0]))
    most = max((len(bag) for sentence in sentences for bag in sentence), default=1)
    ids = np.zeros((len(sentences), longest, most), np.int64)
    valid = np.zeros((len(sentences), longest), bool)
    for row, sentence in enumerate(sentences):
        valid[row, : len(sentence)] = True
        for at, bag in enumerate(sentence):
            ids[row, at, : len(bag)] = bag
    return torch.from_numpy(ids), torch.from_numpy(valid)
