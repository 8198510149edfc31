"""Everything that is wrong with a user's data, said at once, before any run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from threefold.data import images, speech, splits, tables
from threefold.data.problems import Problem
from threefold.data.tables import Columns
from threefold.data.text import MOST_WORDS, WORD, read_plain
from threefold.errors import InputError, require


@dataclass(frozen=True)
class Finding:
    """What the data is, what is in it, and what is wrong with it."""

    kind: str
    holds: str
    recipe: str
    problems: tuple[Problem, ...]


def check(path: Path, columns: Columns = Columns()) -> Finding:
    """Judge a file or folder by what it is: npz, LJSpeech folder, tables, or plain text."""
    require(path.exists(), f"{path}: no such file or folder.")
    if path.is_dir():
        return _folder(path, columns)
    if path.suffix == ".npz":
        return _npz(path)
    if tables.kind(path) in tables.KINDS:
        return _tables({path.name: path}, columns)
    return _plain(path)


def _folder(path: Path, columns: Columns) -> Finding:
    parts = [p for p in (path, path / "train", path / "valid", path / "test") if (p / "metadata.csv").is_file()]
    if parts or (path / "wavs").is_dir():
        return _speech(path, parts)
    files = splits.tables(path)
    require(
        bool(files), f"{path}: neither metadata.csv (speech) nor tsv, csv or jsonl files (text) are in this folder."
    )
    return _tables(files, columns)


def _speech(path: Path, parts: list[Path]) -> Finding:
    count, seconds, problems = 0, 0.0, []
    for part in parts:
        found, faults = speech.scan(part)
        count, seconds = count + len(found), seconds + sum(u.seconds for u in found)
        inside = "" if part == path else f"{part.name}/"
        problems += [Problem(inside + fault.where, fault.what) for fault in faults]
    if not parts:
        problems.append(Problem(path.name, "wavs/ without a metadata.csv (id|text|normalised text, one line each)"))
    return Finding("speech", f"{count} sound utterances, {seconds / 60:.1f} minutes", "speech", tuple(problems))


def _npz(path: Path) -> Finding:
    problems = images.check(path)
    holds = ""
    if not problems:
        found = images.load(path)
        holds = ", ".join(f"{name} {len(each.labels)}" for name, each in found.items())
        holds += f" images of {'x'.join(map(str, next(iter(found.values())).pixels.shape[1:]))}"
    return Finding("images", holds, "octmnist", tuple(problems))


def _tables(files: dict[str, Path], columns: Columns) -> Finding:
    counts, problems, known = {}, [], {}
    for name, path in files.items():
        try:
            table = tables.read(path, columns)
        except InputError as error:
            problems.append(Problem(name, str(error)))
            continue
        counts[name], known[name] = len(table.texts), splits.Rows(table.texts, table.labels)
        problems += table.problems
        problems += _long(name, table.texts)
    training = "train" if "train" in known else next(iter(known), "")
    if len(known) == 1 or training == "train":
        problems += _labels({"train": known[training], **{k: v for k, v in known.items() if k != training}})
    holds = ", ".join(f"{name} {count} texts" for name, count in counts.items())
    labels = sorted({label for rows in known.values() for label in rows.labels})
    holds += f"; labels {', '.join(labels[:10])}{', ...' if len(labels) > 10 else ''}" if labels else ""
    return Finding("labelled text", holds, "sentiment", tuple(problems))


def _long(name: str, texts: tuple[str, ...]) -> list[Problem]:
    """The texts that the recipe refuses unless it is told otherwise."""
    counts = ((at, len(WORD.findall(text))) for at, text in enumerate(texts, 1))
    return [
        Problem(f"{name} text {at}", f"{count} words, over the limit of {MOST_WORDS} (--data.longest, --data.cut)")
        for at, count in counts
        if count > MOST_WORDS
    ]


def _labels(known: dict[str, splits.Rows]) -> list[Problem]:
    """What is wrong with the labels of rows that are there."""
    if strange := splits.strangers(known):
        return strange
    try:
        splits.classes(known)
    except InputError as error:
        return [Problem("labels", str(error).rstrip("."))] if known["train"].texts else []
    return []


def _plain(path: Path) -> Finding:
    try:
        text = read_plain(path)
    except InputError as error:
        return Finding("plain text", "", "charlm", (Problem(path.name, str(error)),))
    return Finding("plain text", f"{len(text)} characters, {len(set(text))} different", "charlm", ())
