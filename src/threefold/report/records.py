"""Runs as a report sees them: read from their folders, named by what differs, grouped by what they learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threefold.errors import InputError, require
from threefold.specs.attention import Linear
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.features import Taylor
from threefold.specs.words import say
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
    whole, short = _labels(members, say), _labels(members, family)
    labels = short if len(set(short)) == len(set(whole)) else whole  # sizes are told only where they tell apart
    variants: dict[str, list[Record]] = defaultdict(list)
    for record, label in zip(members, labels, strict=True):
        variants[label].append(record)
    ordered = {label: tuple(sorted(runs, key=lambda r: r.seed)) for label, runs in variants.items()}
    return Group(name.removesuffix("Recipe").lower() or name, data, ordered)


def _labels(members: list[Record], tell: Callable[[MixerSpec], str]) -> list[str]:
    flat = [flatten(record.recipe, tell) for record in members]
    keys = sorted({key for each in flat for key in each} - {SEED})
    differing = [key for key in keys if len({each.get(key, "") for each in flat}) > 1]
    return [_label(differing, each) for each in flat]


def _label(differing: list[str], values: dict[str, str]) -> str:
    """The values that differ, each after its field; a mixer speaks for itself, and for a run without others."""
    words = [(key.split(".")[-1], values.get(key, "")) for key in differing if values.get(key)]
    plain = [value if key == "mixer" else f"{key} {value}" for key, value in words]
    own = [values[key] for key in ("model.mixer", "model.decoder") if values.get(key)]
    return ", ".join(plain) or (own[0] if own else "run")


def flatten(value: Any, tell: Callable[[MixerSpec], str], path: str = "") -> dict[str, str]:
    """A recipe as leaves by dotted path; a mixer is one leaf, told by `tell`."""
    if isinstance(value, dict):
        if mixer := _mixer(value):
            return {path: tell(mixer)}
        inner = [flatten(each, tell, f"{path}.{key}" if path else key) for key, each in value.items() if key != "spec"]
        own = {path: str(value["spec"])} if "spec" in value and path else {}
        return own | {key: text for leaves in inner for key, text in leaves.items()}
    if isinstance(value, list):
        texts = [text for each in value for text in flatten(each, tell, path).values()]
        return {path: texts[0] if len(set(texts)) == 1 else " ".join(texts)}
    return {path: "" if value is None else str(value)}


def _mixer(spec: dict[str, Any]) -> MixerSpec | None:
    """The mixer that a dictionary of a recipe describes; None for anything else."""
    try:
        return MixerSpec.from_dict(spec)
    except (InputError, TypeError):
        return None


def family(mixer: MixerSpec) -> str:
    """A mixer without its sizes: LSTM, Softmax, Taylor 2."""
    match mixer:
        case Linear(features=Taylor(degree=degree)):
            return f"Taylor {degree}"
        case Linear(features=features):
            return f"Linear {type(features).__name__}"
        case Bidirectional(mixer=inner):
            return f"{family(inner)} both ways"
    return type(mixer).__name__


def all_of(paths: Iterable[Path]) -> list[Group]:
    """Find, read and group; a folder that cannot be read is named."""
    try:
        return group(read(path) for path in find(paths))
    except KeyError as error:
        raise InputError(f"a run's recipe.json lacks {error}: it was not written by `threefold train`.") from None
