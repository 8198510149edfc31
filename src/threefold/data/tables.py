"""Text with labels from tsv, csv and jsonl (also gzipped), utf-8 in any script, with or without a header."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from threefold.data.problems import Problem
from threefold.errors import InputError, require

TEXT_NAMES = ("text", "sentence", "review", "comment", "content", "document")
LABEL_NAMES = ("label", "labels", "sentiment", "class", "category", "target")
KINDS = (".tsv", ".csv", ".jsonl")
LONGEST = 100_000  # characters; a longer "text" is a file that was not split, or markup


@dataclass(frozen=True)
class Columns:
    """Which columns hold the text and the label: a header's names, or numbers from 0. None: found by usual names."""

    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Table:
    """The rows that could be read, and what was wrong with the others."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    problems: tuple[Problem, ...]


def kind(path: Path) -> str:
    """`.tsv`, `.csv`, `.jsonl`, or whatever else the name ends in, gzip apart."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def read(path: Path, columns: Columns = Columns(), longest: int = LONGEST) -> Table:
    """All rows of a file. Faults are collected, not raised, so that they can be shown together."""
    require(path.is_file(), f"{path}: no such file.")
    require(kind(path) in KINDS, f"{path}: give a {', '.join(KINDS)} file (or gzipped).")
    text, problems = _decoded(path)
    rows = _json_rows(text, path, columns, problems) if kind(path) == ".jsonl" else _rows(text, path, columns, problems)
    places, texts, labels = [], [], []
    for where, words, label in rows:
        fault = _fault(words, label, longest)
        if fault:
            problems.append(Problem(where, fault))
        else:
            places.append(where)
            texts.append(words)
            labels.append(label)
    if columns == Columns() and places[:1] == [f"{path.name} line 1"] and kind(path) != ".jsonl" and _headed(labels):
        told = (
            f"a header? its label {labels[0]!r} stands in no other line; name the columns `text` and `label`, or with"
        )
        problems.append(Problem(places[0], f"{told} --data.text and --data.label (0 and 1: there is no header)"))
    if not texts and not problems:
        problems.append(Problem(path.name, "there are no rows"))
    return Table(tuple(texts), tuple(labels), tuple(problems))


def _headed(labels: list[str]) -> bool:
    """Whether the first line may be a header that was taken for a row: of labels that recur, its own does not."""
    return labels.count(labels[0]) == 1 and len(set(labels)) < len(labels)


def _fault(words: str, label: str, longest: int) -> str:
    if not words.strip():
        return "the text is empty"
    if not label.strip():
        return "the label is empty"
    if len(words) > longest:
        return f"the text has {len(words)} characters, over the limit of {longest}"
    return ""


def _decoded(path: Path) -> tuple[str, list[Problem]]:
    raw = path.read_bytes()
    if path.name.endswith(".gz"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            return "", [Problem(path.name, f"not a whole gzip file ({error})")]
    if not raw.strip():
        return "", [Problem(path.name, "the file is empty")]
    if b"\0" in raw:
        return "", [Problem(path.name, "it holds zero bytes: this is not a text file")]
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        return "", [Problem(f"{path.name} line {line}", f"byte {raw[error.start]:#04x} is not utf-8; save it as utf-8")]


def _rows(text: str, path: Path, columns: Columns, problems: list[Problem]) -> Iterator[tuple[str, str, str]]:
    """(where, text, label) of delimited lines. tsv has no quoting: a quotation mark is a letter."""
    tabs = kind(path) == ".tsv"
    csv.field_size_limit(1 << 30)
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(lines, strict=True)
    places: tuple[int, int] | None = None
    width = 0
    try:
        for row in reader:
            if not row:
                continue
            if places is None:
                places, headed = _places(row, columns, path)
                width = len(row)
                if headed:
                    continue
            where = f"{path.name} line {reader.line_num}"
            if len(row) != width:
                problems.append(Problem(where, f"{len(row)} columns where the first line has {width}"))
            else:
                yield where, row[places[0]], row[places[1]]
    except csv.Error as error:
        problems.append(Problem(f"{path.name} line {reader.line_num}", f"not readable as {kind(path)} ({error})"))


def _places(first: list[str], columns: Columns, path: Path) -> tuple[tuple[int, int], bool]:
    """Where text and label stand, and whether the first line is a header."""
    names = [cell.strip().lower() for cell in first]
    text = _find(names, columns.text, TEXT_NAMES)
    label = _find(names, columns.label, LABEL_NAMES)
    if text is not None and label is not None:
        return (text, label), not (_is_number(columns.text) and _is_number(columns.label))
    if text is None and label is None and columns == Columns() and len(first) == 2:
        return (0, 1), False
    missing = "text" if text is None else "label"
    shown = [cell[:20] for cell in first[:8]]
    raise InputError(
        f"{path.name}: no {missing} column among {shown}: name the columns with --data.text and "
        "--data.label (names, or numbers from 0 where there is no header)."
    )


def _find(names: list[str], wanted: str | None, usual: tuple[str, ...]) -> int | None:
    if _is_number(wanted):
        place = int(wanted or 0)
        return place if place < len(names) else None
    for name in usual if wanted is None else (wanted.lower(),):
        if name in names:
            return names.index(name)
    return None


def _is_number(word: str | None) -> bool:
    return word is not None and word.isdigit()


def _json_rows(text: str, path: Path, columns: Columns, problems: list[Problem]) -> Iterator[tuple[str, str, str]]:
    """(where, text, label) of one JSON object a line."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path.name} line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            problems.append(Problem(where, f"not JSON ({error.msg})"))
            continue
        if not isinstance(row, dict):
            problems.append(Problem(where, "not a JSON object"))
            continue
        keys = list(row)
        names = [key.lower() for key in keys]
        text_at, label_at = _find(names, columns.text, TEXT_NAMES), _find(names, columns.label, LABEL_NAMES)
        if text_at is None or label_at is None:
            missing = "text" if text_at is None else "label"
            problems.append(Problem(where, f"no {missing} among the keys {keys[:8]}"))
            continue
        words, label = row[keys[text_at]], row[keys[label_at]]
        if not isinstance(words, str) or label is None:
            problems.append(Problem(where, "the text is not a string" if label is not None else "the label is null"))
            continue
        yield where, words, str(label)
