"""A comparison: one recipe, some fields varied, several seeds, and what the paired differences say."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from threefold.errors import require
from threefold.recipes.recipe import Recipe
from threefold.recipes.saved import recipe_of
from threefold.train.metrics import Interval, bootstrap
from threefold.train.record import Run


@dataclass(frozen=True)
class Variant:
    """One setting of the varied fields: its label, and its recipe with each seed."""

    label: str
    recipe: Recipe

    def seeded(self, seed: int) -> Recipe:
        """The recipe with this seed."""
        return replace(self.recipe, train=replace(self.recipe.train, seed=seed))


def combine(axes: Sequence[Sequence[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """Every combination of one (field, value) from each axis."""
    return [list(chosen) for chosen in product(*axes)]


def folder_name(label: str, seed: int) -> str:
    """A label as a file name, with its seed."""
    return f"{re.sub(r'[^A-Za-z0-9_.=-]+', '_', label).strip('_')}-seed{seed}"


def prepare(folder: Path, variants: Sequence[Variant], seeds: Sequence[int]) -> dict[str, list[Path]]:
    """A run folder for each variant and seed; one that stands already must hold the same recipe."""
    found: dict[str, list[Path]] = {}
    for variant in variants:
        paths = [folder / folder_name(variant.label, seed) for seed in seeds]
        require(
            not any(path in taken for taken in found.values() for path in paths),
            f"two variants are both called {variant.label!r}: leave one of them out.",
        )
        for path, seed in zip(paths, seeds, strict=True):
            if (path / "recipe.json").exists():
                require(
                    recipe_of(Run.open(path)) == variant.seeded(seed),
                    f"{path} holds another recipe: give another --run, or the options that this comparison began with.",
                )
            else:
                Run.create(path, variant.seeded(seed))
        found[variant.label] = paths
    return found


@dataclass(frozen=True)
class Line:
    """One variant's row of the table."""

    label: str
    runs: int
    parameters: int
    seconds: float
    metrics: dict[str, tuple[float, float]]  # mean and standard deviation over seeds
    differences: dict[str, Interval]  # paired by seed with the first variant; empty where no pair is


def summary(folders: dict[str, list[Path]]) -> list[Line]:
    """The table's rows, from the records alone; a variant of which no run is finished has none."""
    every = {label: {p: d for p in paths if (d := Run.open(p).done)} for label, paths in folders.items()}
    outcomes = {label: done for label, done in every.items() if done}
    require(bool(outcomes), f"no run of {', '.join(map(repr, every))} is finished.")
    lines: list[Line] = []
    first = next(iter(outcomes))
    for label, done in outcomes.items():
        values = {path: _tested(path, outcome) for path, outcome in done.items()}
        names = list(next(iter(values.values())))
        both = zip(folders[first], folders[label], strict=True)
        pairs = [(a, b) for a, b in both if a in outcomes[first] and b in done]
        base = {a: _tested(a, outcomes[first][a]) for a, _ in pairs}
        differences = {
            name: bootstrap([values[b][name] - base[a][name] for a, b in pairs])
            for name in names
            if pairs and label != first
        }
        lines.append(
            Line(
                label,
                len(done),
                int(next(iter(done.values()))["parameters"]),
                math.fsum(outcome["seconds"] for outcome in done.values()) / len(done),
                {name: _spread([row[name] for row in values.values()]) for name in names},
                differences,
            )
        )
    return lines


def _tested(path: Path, outcome: dict[str, Any]) -> dict[str, float]:
    """What was measured on the test set; else the best validation."""
    if outcome.get("test"):
        return dict(outcome["test"])
    rows = [row for row in Run.open(path).rows("valid") if row["step"] == outcome["best"]["step"]]
    return {key: value for row in rows for key, value in row.items() if isinstance(value, float)}


def _spread(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    rest = math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return mean, math.sqrt(rest)
