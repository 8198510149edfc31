"""Characters and words as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zlib import crc32

from threefold.errors import require

PAD, START, STOP, UNKNOWN = range(4)
SPECIALS = ("@", "<", ">", "#")


@dataclass(frozen=True)
class Alphabet:
    """Characters numbered from 4; 0 pads, 1 starts, 2 stops, 3 is any character that training did not have."""

    symbols: tuple[str, ...]
    fold: bool = False  # lower-case first

    @classmethod
    def documents(cls) -> Alphabet:
        """The 35 symbols of the source documents' speech experiments: 4 special, 26 letters, 5 marks."""
        return cls(tuple("abcdefghijklmnopqrstuvwxyz '.,?"), fold=True)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Alphabet:
        """Every character of these texts, in the order of their code points."""
        return cls(tuple(sorted(set().union(*map(set, texts)))))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """Numbers of the characters, without start and stop."""
        table = self._table
        return [table.get(character, UNKNOWN) for character in (text.lower() if self.fold else text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; specials other than unknown are silent."""
        written = (self.symbols[t - 4] if t >= 4 else SPECIALS[t] if t == UNKNOWN else "" for t in tokens)
        return "".join(written)

    @cached_property
    def _table(self) -> dict[str, int]:
        return {symbol: at for at, symbol in enumerate(self.symbols, len(SPECIALS))}


WORD = re.compile(r"\w+|[^\w\s]")
MOST_WORDS = 1000  # a longer text is refused, unless a recipe is told otherwise


@dataclass(frozen=True)
class Lexicon:
    """A sentence as one bag of ids a word: the word itself, and `buckets` hashed features shared by unlike words.

    Hashed are the pair with the word before (`pairs`) and the word's letter runs of 3 to `letters` characters; crc32 is
    the same on every machine. Id 0 is nothing, 1 an unknown word.
    """

    words: tuple[str, ...]
    buckets: int = 0
    pairs: bool = True
    letters: int = 5
    most: int = 16  # ids a word, at most

    @classmethod
    def of(
        cls, texts: Iterable[str], least: int = 2, buckets: int = 0, pairs: bool = True, letters: int = 5
    ) -> Lexicon:
        """The words that occur at least `least` times."""
        counts = Counter(word for text in texts for word in split(text))
        return cls(tuple(sorted(w for w, n in counts.items() if n >= least)), buckets, pairs, letters)

    def __len__(self) -> int:
        return 2 + len(self.words) + self.buckets

    def encode(self, text: str) -> list[list[int]]:
        """One bag a word."""
        table = self._table
        bags, before = [], "<"
        for word in split(text):
            bag = [table.get(word, 1)]
            if self.buckets:
                runs = ([f"{before} {word}"] if self.pairs else []) + self._runs(word)
                bag += [self._bucket(run) for run in runs[: self.most - 1]]
            bags.append(bag)
            before = word
        return bags

    def _runs(self, word: str) -> list[str]:
        marked = f"<{word}>"
        sizes = range(3, self.letters + 1)
        return [marked[at : at + n] for n in sizes for at in range(len(marked) - n + 1) if n < len(marked)]

    def _bucket(self, run: str) -> int:
        return 2 + len(self.words) + crc32(run.encode()) % self.buckets

    @cached_property
    def _table(self) -> dict[str, int]:
        return {word: at for at, word in enumerate(self.words, 2)}


def split(text: str) -> list[str]:
    """Words and marks in lower case, in any script."""
    return WORD.findall(text.lower())


def read_plain(path: Path) -> str:
    """A utf-8 text file."""
    require(path.is_file(), f"{path}: no such file.")
    raw = path.read_bytes()
    require(b"\0" not in raw, f"{path} holds zero bytes: it is not a text file.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        require(False, f"{path} line {line}: byte {raw[error.start]:#04x} is not utf-8; save it as utf-8.")
        raise
    require(len(text.strip()) > 0, f"{path} is empty.")
    return text
