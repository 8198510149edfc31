"""Tasks whose answer is known: example i is a function of (seed, i), so nothing is stored and nothing repeats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from threefold.errors import require
from threefold.specs.base import Spec

IGNORE = -1


class Puzzle(NamedTuple):
    """Token ids (T,) with the answer after each, or IGNORE where none is asked."""

    tokens: NDArray[np.int64]
    answers: NDArray[np.int64]


class Sum(NamedTuple):
    """Numbers (T, channels) and one number to be told after the last."""

    numbers: NDArray[np.float32]
    answer: float


@dataclass(frozen=True)
class TokenToy(Spec, ABC):
    """A task of tokens."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """How many token ids there are."""

    @abstractmethod
    def draw(self, rng: Generator) -> Puzzle:
        """One example."""

    def example(self, seed: int, index: int) -> Puzzle:
        """Example `index` of the set that `seed` names."""
        return self.draw(np.random.default_rng([seed, index]))


@dataclass(frozen=True)
class Recall(TokenToy):
    """Associative recall: key value key value ... then keys again, after each of which its value is asked."""

    pairs: int = 8
    keys: int = 16
    values: int = 16

    def __post_init__(self) -> None:
        require(1 <= self.pairs <= self.keys, f"Recall(pairs={self.pairs}): give 1 to keys ({self.keys}) pairs.")

    @property
    def vocab(self) -> int:
        return self.keys + self.values

    def draw(self, rng: Generator) -> Puzzle:
        keys = rng.permutation(self.keys)[: self.pairs]
        values = self.keys + rng.integers(0, self.values, self.pairs)
        asked = rng.permutation(self.pairs)
        tokens = np.concatenate([np.stack([keys, values], 1).ravel(), keys[asked]])
        answers = np.concatenate([np.full(2 * self.pairs, IGNORE), values[asked]])
        return Puzzle(tokens, answers)


@dataclass(frozen=True)
class Copy(TokenToy):
    """Delayed copy: `length` symbols, `delay` blanks, a mark, then the symbols are asked in order."""

    length: int = 8
    delay: int = 16
    symbols: int = 8

    def __post_init__(self) -> None:
        require(
            self.length >= 1 and self.delay >= 0 and self.symbols >= 2, "Copy: length >= 1, delay >= 0, symbols >= 2."
        )

    @property
    def vocab(self) -> int:
        return self.symbols + 2

    def draw(self, rng: Generator) -> Puzzle:
        blank, mark = self.symbols, self.symbols + 1
        said = rng.integers(0, self.symbols, self.length)
        quiet = np.full(self.delay, blank)
        tokens = np.concatenate([said, quiet, [mark], np.full(self.length - 1, blank)])
        answers = np.concatenate([np.full(self.length + self.delay, IGNORE), said])
        return Puzzle(tokens, answers)


@dataclass(frozen=True)
class Permutation(TokenToy):
    """Apply a fixed permutation of places to `length` symbols: the answer at place i is the symbol at place p(i)."""

    length: int = 8
    symbols: int = 8

    @property
    def vocab(self) -> int:
        return self.symbols + 1

    def places(self) -> NDArray[np.int64]:
        """p, a function of the length alone."""
        return np.random.default_rng(self.length).permutation(self.length)

    def draw(self, rng: Generator) -> Puzzle:
        said = rng.integers(0, self.symbols, self.length)
        tokens = np.concatenate([said, np.full(self.length, self.symbols)])
        answers = np.concatenate([np.full(self.length, IGNORE), said[self.places()]])
        return Puzzle(tokens, answers)


@dataclass(frozen=True)
class NumberToy(Spec, ABC):
    """A task of numbers with one answer at the end."""

    length: int = 50

    channels: ClassVar[int] = 1

    @abstractmethod
    def draw(self, rng: Generator) -> Sum:
        """One example."""

    def example(self, seed: int, index: int) -> Sum:
        """Example `index` of the set that `seed` names."""
        return self.draw(np.random.default_rng([seed, index]))


@dataclass(frozen=True)
class Adding(NumberToy):
    """The sum of the two marked numbers, one in each half (Hochreiter & Schmidhuber 1997). Guessing 1 costs 1/6."""

    channels: ClassVar[int] = 2

    def __post_init__(self) -> None:
        require(self.length >= 2, f"Adding(length={self.length}): give at least 2.")

    def draw(self, rng: Generator) -> Sum:
        values = rng.random(self.length)
        marks = np.zeros(self.length)
        half = self.length // 2
        marks[[rng.integers(0, half), rng.integers(half, self.length)]] = 1.0
        return Sum(np.stack([values, marks], 1).astype(np.float32), float(values @ marks))


@dataclass(frozen=True)
class Comparator(NumberToy):
    """Whether the integers at even steps sum to more (1), as much (1/2) or less (0) than those at odd steps.

    The documents' alternating-sum recurrence h_t = x_t - h_{t-1}, y = sigmoid(1000 h_T) answers it exactly for even T.
    """

    length: int = 10
    largest: int = 4

    def __post_init__(self) -> None:
        require(
            self.length >= 2 and self.length % 2 == 0, f"Comparator(length={self.length}): give an even number >= 2."
        )

    def draw(self, rng: Generator) -> Sum:
        values = rng.integers(-self.largest, self.largest + 1, self.length)
        difference = int(values[1::2].sum() - values[0::2].sum())
        return Sum(values[:, None].astype(np.float32), 0.5 + 0.5 * float(np.sign(difference)))
