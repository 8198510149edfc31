"""Speech with its text, in LJSpeech's layout: `metadata.csv` (id|raw text|normalised text) beside `wavs/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from threefold.data import audio
from threefold.data.order import held_out
from threefold.data.problems import Problem, refuse
from threefold.errors import require


@dataclass(frozen=True)
class Limits:
    """What one utterance may be at most; longer ones are refused by name, never dropped."""

    seconds: float = 60.0
    characters: int = 1000


@dataclass(frozen=True)
class Utterance:
    """One recording and what is said in it."""

    name: str
    sound: Path
    text: str
    seconds: float


def load(folder: Path, limits: Limits = Limits()) -> tuple[Utterance, ...]:
    """Every utterance of a folder, in the order of its metadata."""
    utterances, problems = scan(folder, limits)
    refuse(problems, str(folder))
    return tuple(utterances)


def scan(folder: Path, limits: Limits = Limits()) -> tuple[list[Utterance], list[Problem]]:
    """The utterances that are sound, and everything that is wrong with the others."""
    require(folder.is_dir(), f"{folder}: no such folder.")
    metadata = folder / "metadata.csv"
    require(metadata.is_file(), f"{folder}: no metadata.csv (id|text|normalised text, one line an utterance).")
    try:
        lines = metadata.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        return [], [Problem("metadata.csv", f"byte at {error.start} is not utf-8; save it as utf-8")]
    utterances: list[Utterance] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found, fault = _utterance(folder, line, limits, seen)
        if found is None:
            problems.append(Problem(f"metadata.csv line {number}", fault))
        else:
            utterances.append(found)
    if not utterances and not problems:
        problems.append(Problem("metadata.csv", "there are no rows"))
    return utterances, problems


def _utterance(folder: Path, line: str, limits: Limits, seen: set[str]) -> tuple[Utterance | None, str]:
    cells = line.split("|")
    if len(cells) not in (2, 3):
        return None, f"{len(cells)} columns; id|text or id|text|normalised text is needed"
    name, text = cells[0].strip(), cells[-1].strip()
    if not name or name in seen:
        return None, f"the id {name!r} is {'used twice' if name else 'empty'}"
    seen.add(name)
    if not text:
        return None, f"{name}: the text is empty"
    if len(text) > limits.characters:
        return None, f"{name}: the text has {len(text)} characters, over the limit of {limits.characters}"
    sound = _sound(folder, name)
    if sound is None:
        return None, f"{name}: no wavs/{name}.wav or .flac"
    if fault := audio.check(sound):
        return None, f"wavs/{sound.name}: {fault}"
    length = audio.seconds(sound)
    if length > limits.seconds:
        return None, f"wavs/{sound.name}: {length:.1f} s, over the limit of {limits.seconds:g} s"
    return Utterance(name, sound, text, length), ""


def _sound(folder: Path, name: str) -> Path | None:
    """The sound file of an id, which may not leave the folder."""
    root = folder / "wavs"
    for path in (root / f"{name}.wav", root / f"{name}.flac", root / name):
        if path.suffix.lower() in audio.KINDS and path.is_file() and path.resolve().is_relative_to(root.resolve()):
            return path
    return None


def splits(folder: Path, limits: Limits = Limits()) -> dict[str, tuple[Utterance, ...]]:
    """train, valid and test: folders of these names when they are there, else every text dealt 90/5/5.

    Utterances of one text go to one part, so that a test sentence is never one that was heard in training.
    """
    parts = {name: folder / name for name in ("train", "valid", "test")}
    if (parts["train"] / "metadata.csv").is_file():
        return {name: load(path, limits) for name, path in parts.items() if (path / "metadata.csv").is_file()}
    every = load(folder, limits)
    texts = sorted({utterance.text for utterance in every})
    require(len(texts) >= 3, f"{folder}: {len(texts)} different texts; at least 3 are needed to train, choose, test.")
    dealt = held_out(len(texts), (0.9, 0.05, 0.05))
    owner = {texts[at]: name for name, part in zip(parts, dealt, strict=True) for at in part}
    return {name: tuple(u for u in every if owner[u.text] == name) for name in parts}
