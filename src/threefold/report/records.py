"""Runs as a report sees them: read from their folders, named by what differs, grouped by what they learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threefold.errors import InputError, require
from threefold.train.files import read_json
from threefold.train.record import Run

SEED = "train.seed"


@dataclass(frozen=True)
class Record:
    """One run's files, read once."""

    folder: Path
    recipe: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    outcome: dict[str, Any]
    environment: dict[str, Any]
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def seed(self) -> int:
        """The seed that the recipe was run with."""
        return int(self.recipe.get("train", {}).get("seed", 0))

    @property
    def test(self) -> dict[str, Any]:
        """The measurement on the test set; empty when there was none."""
        return next((row for row in reversed(self.rows) if row["kind"] == "test"), {})

    def curve(self, kind: str, metric: str) -> list[tuple[int, float]]:
        """(step, value) of one metric."""
        return [(row["step"], row[metric]) for row in self.rows if row["kind"] == kind and metric in row]


@dataclass(frozen=True)
class Group:
    """Runs of one recipe on the same data: by variant, one run a seed."""

    name: str
    data: str
    variants: dict[str, tuple[Record, ...]] = field(default_factory=dict)


def read(folder: Path) -> Record:
    """One run's record."""
    run = Run.open(folder)
    environment, samples = run.folder / "environment.json", run.folder / "samples.json"
    return Record(
        run.folder,
        run.recipe,
        tuple(run.rows()),
        run.done or {},
        read_json(environment) if environment.exists() else {},
        tuple(read_json(samples)) if samples.exists() else (),
    )


def find(paths: Iterable[Path]) -> list[Path]:
    """The run folders at or below these paths."""
    found: list[Path] = []
    for path in paths:
        require(path.is_dir(), f"{path}: no such folder; give run folders, or one that holds some.")
        here = [path] if (path / "recipe.json").is_file() else sorted(p.parent for p in path.rglob("recipe.json"))
        require(bool(here), f"{path} holds no run: a run is a folder that `threefold train` made, with a recipe.json.")
        found += here
    return list(dict.fromkeys(found))


def group(records: Iterable[Record]) -> list[Group]:
    """Runs that can be compared stand together; a variant's name is what differs from the others, the seed aside."""
    alike: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        data = record.recipe.get("data") or {}
        alike[record.recipe.get("spec", "?"), str(data.get("path") or "embedded data")].append(record)
    return [_group(name, data, members) for (name, data), members in alike.items()]


def _group(name: str, data: str, members: list[Record]) -> Group:
    flat = [flatten(record.recipe) for record in members]
    keys = sorted({key for each in flat for key in each} - {SEED})
    differing = [key for key in keys if len({each.get(key, "") for each in flat}) > 1]
    variants: dict[str, list[Record]] = defaultdict(list)
    for record, each in zip(members, flat, strict=True):
        variants[_label(differing, each)].append(record)
    ordered = {label: tuple(sorted(runs, key=lambda r: r.seed)) for label, runs in variants.items()}
    return Group(name.removesuffix("Recipe").lower() or name, data, ordered)


def _label(differing: list[str], values: dict[str, str]) -> str:
    words = [(key.split(".")[-1], values.get(key, "")) for key in differing if values.get(key)]
    plain = [value if not _is_number(value) else f"{key} {value}" for key, value in words]
    return ", ".join(dict.fromkeys(plain)) or "run"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("e-", "", 1).lstrip("-").isdigit()


def flatten(value: Any, path: str = "") -> dict[str, str]:
    """A recipe as leaves by dotted path; a mixer is one leaf, named as a person would name it."""
    if isinstance(value, dict) and "features" in value:
        return {path: named(value)}
    if isinstance(value, dict):
        inner = {key: flatten(each, f"{path}.{key}" if path else key) for key, each in value.items() if key != "spec"}
        own = {path: named(value)} if "spec" in value and path else {}
        return own | {key: text for leaf in inner.values() for key, text in leaf.items()}
    if isinstance(value, list):
        texts = [named(each) if isinstance(each, dict) else str(each) for each in value]
        return {path: texts[0] if len(set(texts)) == 1 else " ".join(texts)}
    return {path: "" if value is None else str(value)}


def named(spec: dict[str, Any]) -> str:
    """A spec's dictionary as a word or two: LSTM, Softmax, Taylor 2."""
    features = spec.get("features")
    if isinstance(features, dict):
        return f"Taylor {features['degree']}" if features.get("spec") == "Taylor" else f"Linear {features.get('spec')}"
    return str(spec.get("spec", "?"))


def all_of(paths: Iterable[Path]) -> list[Group]:
    """Find, read and group; a folder that cannot be read is named."""
    try:
        return group(read(path) for path in find(paths))
    except KeyError as error:
        raise InputError(f"a run's recipe.json lacks {error}: it was not written by `threefold train`.") from None
