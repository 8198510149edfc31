"""Film opinions from a grammar: what is negated, contrasted or intensified decides, not which words occur.

The polarity of a sentence is computed while it is built, so every label is right by construction:

- a plain word carries its own polarity, an intensifier ("very") keeps it, a negation ("not", "hardly") turns it;
- "A but B" and "although A , B" mean B; "A and B" joins two of one polarity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from threefold.errors import require
from threefold.specs.base import Spec

LABELS = ("negative", "positive")
SUBJECTS = (
    "the film", "this movie", "the story", "the plot", "her acting", "the dialogue", "the ending", "the score",
    "the camera work", "the whole cast", "the first half", "its humour", "the script", "the director 's idea",
)  # fmt: skip
GOOD = (
    "wonderful", "moving", "funny", "clever", "gripping", "beautiful", "fresh", "honest", "brilliant", "charming",
    "rich", "warm", "tense", "original",
)  # fmt: skip
BAD = (
    "dull", "clumsy", "tired", "awful", "boring", "flat", "silly", "empty", "lifeless", "predictable", "noisy", "cheap",
    "slow", "confused",
)  # fmt: skip
STRONG = ("very", "truly", "deeply", "remarkably", "so", "utterly")
TURN = ("not", "never", "hardly", "by no means", "anything but")
VERBS = ("is", "was", "seems", "feels", "remains")


@dataclass(frozen=True)
class Opinions(Spec):
    """`count` sentences, none twice, half of each polarity (one more negative when odd)."""

    count: int = 4000
    clauses: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.count >= 10, f"Opinions(count={self.count}): give at least 10.")
        require(1 <= self.clauses <= 4, f"Opinions(clauses={self.clauses}): give 1 to 4.")

    def rows(self) -> tuple[tuple[str, str], ...]:
        """(sentence, label)."""
        rng = np.random.default_rng([self.seed, 11])
        seen: dict[str, str] = {}
        tries = 0
        while len(seen) < self.count:
            tries += 1
            require(tries < 100 * self.count, f"{self.count} different sentences cannot be made: allow more clauses.")
            good = len(seen) % 2 == 1
            seen.setdefault(_sentence(rng, good, int(rng.integers(1, self.clauses + 1))), LABELS[good])
        return tuple(seen.items())


def _sentence(rng: Generator, good: bool, clauses: int) -> str:
    """A sentence of this polarity."""
    if clauses == 1:
        return _clause(rng, good)
    rest = clauses - 1
    match int(rng.integers(3)):
        case 0:
            return f"{_sentence(rng, bool(rng.integers(2)), rest)} but {_clause(rng, good)}"
        case 1:
            return f"although {_clause(rng, bool(rng.integers(2)))} , {_sentence(rng, good, rest)}"
        case _:
            return f"{_clause(rng, good)} and {_clause(rng, good)}"


def _clause(rng: Generator, good: bool) -> str:
    turned = rng.random() < 0.4
    word = _one(rng, GOOD if good != turned else BAD)
    words = [_one(rng, SUBJECTS), _one(rng, VERBS)]
    words += [_one(rng, TURN)] if turned else []
    words += [_one(rng, STRONG)] if rng.random() < 0.4 else []
    return " ".join([*words, word])


def _one(rng: Generator, of: tuple[str, ...]) -> str:
    return of[int(rng.integers(len(of)))]
