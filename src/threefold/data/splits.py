"""Which rows train, which choose, which test: from a folder's file names, or dealt from one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from threefold.data.order import held_out
from threefold.data.problems import Problem, refuse
from threefold.data.tables import KINDS, LONGEST, Columns, Table, kind, read
from threefold.errors import require

NAMES = {"train": ("train",), "valid": ("valid", "val", "dev", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class Rows:
    """Texts with the names of their labels."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def pick(self, indices: list[int]) -> Rows:
        """Some of the rows."""
        return Rows(tuple(self.texts[i] for i in indices), tuple(self.labels[i] for i in indices))


def tables(folder: Path) -> dict[str, Path]:
    """The table files of a folder by stem."""
    return {path.name.split(".")[0]: path for path in sorted(folder.iterdir()) if kind(path) in KINDS}


def load(path: Path, columns: Columns, *, train: str = "train", longest: int = LONGEST) -> dict[str, Rows]:
    """Rows of every split. `train` names the file of a folder to train on.

    One file is dealt 80/10/10. A folder without a validation file gives a tenth of its training rows to it.
    """
    require(path.exists(), f"{path}: no such file or folder.")
    if path.is_file():
        rows = _whole(path, columns, longest)
        require(len(rows.texts) >= 3, f"{path}: rows: {len(rows.texts)}; at least 3 are needed to train, choose, test.")
        parts = held_out(len(rows.texts), (0.8, 0.1, 0.1))
        return {name: rows.pick(part) for name, part in zip(("train", "valid", "test"), parts, strict=True)}
    files = tables(path)
    require(
        train in files,
        f"{path}: no {train}.tsv, .csv or .jsonl (found: {', '.join(files) or 'no tables'}). "
        "Name the file to train on with --data.split.",
    )
    splits = {"train": _whole(files[train], columns, longest)}
    for split in ("valid", "test"):
        found = [name for name in NAMES[split] if name in files and name != train]
        if found:
            splits[split] = _whole(files[found[0]], columns, longest)
    if "valid" not in splits:
        rows = splits["train"]
        require(len(rows.texts) >= 2, f"{files[train]}: one row; at least 2 are needed to train and to choose.")
        kept, aside = held_out(len(rows.texts), (0.9, 0.1))
        splits |= {"train": rows.pick(kept), "valid": rows.pick(aside)}
    return splits


def strangers(splits: dict[str, Rows]) -> list[Problem]:
    """The rows of other splits whose label training never shows."""
    known = tuple(sorted(set(splits["train"].labels)))
    return [
        Problem(f"{split} row {row + 1}", f"label {label!r} does not occur in training ({', '.join(known[:8])})")
        for split, rows in splits.items()
        for row, label in enumerate(rows.labels)
        if label not in known
    ]


def whole(path: Path, columns: Columns, longest: int = LONGEST) -> Rows:
    """What a saved model is measured on: a folder's test file, or all of one file."""
    require(path.exists(), f"{path}: no such file or folder.")
    if path.is_file():
        return _whole(path, columns, longest)
    files = tables(path)
    require("test" in files, f"{path}: no test.tsv, .csv or .jsonl (found: {', '.join(files) or 'no tables'}).")
    return _whole(files["test"], columns, longest)


def classes(splits: dict[str, Rows]) -> tuple[str, ...]:
    """The training labels, sorted; a label that only another split has is refused."""
    refuse(strangers(splits), "labels")
    known = tuple(sorted(set(splits["train"].labels)))
    require(len(known) >= 2, f"the training rows have one label only ({', '.join(known)}): give at least two.")
    require(
        len(known) <= max(50, len(splits["train"].labels) // 10),
        f"{len(known)} different labels in {len(splits['train'].labels)} rows: this looks like a column of text. "
        "Name the columns with --data.text and --data.label.",
    )
    return known


def _whole(path: Path, columns: Columns, longest: int) -> Rows:
    table: Table = read(path, columns, longest)
    refuse(table.problems, str(path))
    return Rows(table.texts, table.labels)
