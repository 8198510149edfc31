"""Connected digits out of recordings of single ones: an LJSpeech-format folder whose test takes are heard nowhere else.

An utterance is three to six digits of one speaker with short pauses between them; its text is the digits' names. The
takes 0 to 4 of every digit and speaker make the test set, 5 and 6 the validation set, the others the training set. Each
set uses each of its recordings equally often, in another company each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from threefold.data.cache import folder, make_once

RATE = 8000
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TAKES = {"test": range(5), "valid": range(5, 7), "train": range(7, 50)}
PASSES = {"test": 4, "valid": 4, "train": 5}  # how often each recording is used
PAUSE = (0.03, 0.15)  # seconds between digits


@dataclass(frozen=True)
class Spoken:
    """One recording of one digit."""

    digit: int
    speaker: str
    take: int
    samples: NDArray[np.int16]


def recordings(path: Path) -> list[Spoken]:
    """Every recording of the archive."""
    with np.load(path) as archive:
        audio, lengths, names = archive["audio"], archive["lens"], archive["names"].tolist()
    found = []
    for name, samples in zip(names, np.split(audio, np.cumsum(lengths)[:-1]), strict=True):
        digit, speaker, take = name.split("_")
        found.append(Spoken(int(digit), speaker, int(take), samples))
    return found


def strings(chosen: list[Spoken], rng: np.random.Generator) -> Iterator[list[Spoken]]:
    """One speaker's recordings in any order, cut into strings of three to six; the rest joins the last ones."""
    order = [chosen[at] for at in rng.permutation(len(chosen))]
    while order:
        size = int(rng.integers(3, 7))
        if len(order) - size < 3:
            size = len(order) if len(order) <= 6 else len(order) - 3
        yield order[:size]
        order = order[size:]


def joined(parts: list[Spoken], rng: np.random.Generator) -> NDArray[np.int16]:
    """The recordings with a pause before, between and after them."""
    pieces: list[NDArray[np.int16]] = []
    for part in parts:
        pieces += [np.zeros(round(RATE * float(rng.uniform(*PAUSE))), np.int16), part.samples]
    return np.concatenate([*pieces, np.zeros(round(RATE * PAUSE[1]), np.int16)])


def fill(archive: Path, target: Path) -> None:
    """Write the folders train, valid and test."""
    import soundfile

    every = recordings(archive)
    for number, (split, takes) in enumerate(TAKES.items()):
        rng, lines = np.random.default_rng([2, number]), []
        (target / split / "wavs").mkdir(parents=True)
        speakers = sorted({spoken.speaker for spoken in every})
        for speaker in speakers * PASSES[split]:
            own = [spoken for spoken in every if spoken.speaker == speaker and spoken.take in takes]
            for parts in strings(own, rng):
                name = f"{speaker}-{len(lines):05d}"
                soundfile.write(target / split / "wavs" / f"{name}.wav", joined(parts, rng), RATE, subtype="PCM_16")
                lines.append(f"{name}|{' '.join(NAMES[part.digit] for part in parts)}\n")
        (target / split / "metadata.csv").write_text("".join(lines), encoding="utf-8")


def connected_digits(archive: Path) -> Path:
    """The folder, made once and kept where made data is kept."""
    return make_once(folder() / "connected-digits-3", lambda target: fill(archive, target))
