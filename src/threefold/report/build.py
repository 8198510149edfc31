"""From folders of runs to a page: the runs, what they show, what the mixers cost, and why it can be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threefold.report.figures import Section
from threefold.report.page import Page
from threefold.report.records import Group, all_of
from threefold.report.sections import concepts, cost, runs, samples, speed, trust
from threefold.report.statistics import interval, main_metric
from threefold.train.files import read_json

BESIDE = ("laws.json", "claims.json", "speed.json")  # what else may lie beside the runs


def page(paths: Iterable[Path], title: str = "Threefold report", findings: tuple[str, ...] = ()) -> Page:
    """The page about the runs at or below these paths, with what lies beside them."""
    paths = tuple(paths)
    groups = all_of(paths) if paths else []
    sections: list[Section] = []
    for number, group in enumerate(groups):
        slug = re.sub(r"\W+", "-", group.name.lower()) + (f"-{number}" if number else "")
        sections.append(runs.section(group, slug))
        if shown := samples.section(group, slug):
            sections.append(shown)
    beside = {name: _beside(paths, name) for name in BESIDE}
    if beside["speed.json"]:
        sections.append(speed.section(beside["speed.json"]))
    sections.append(cost.section())
    if beside["laws.json"]:
        sections.append(trust.laws(beside["laws.json"]))
    if beside["claims.json"]:
        sections.append(trust.claims(beside["claims.json"]))
    sections.append(concepts.section())
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = "Which sequence model, at what cost, and why to trust it."
    return Page(title, lead, tuple(sections), findings or tuple(map(finding, groups)), f"Made by threefold, {made}.")


def finding(group: Group) -> str:
    """One line: who came first on the test set, with its interval."""
    metric = main_metric(group)
    if metric is None:
        return f"{group.name}: no run has been measured on a test set yet."
    from threefold.train.metrics import better

    found = {name: each for name, each in ((n, interval(r, metric)) for n, r in group.variants.items()) if each}
    best = next(iter(found))
    for name, each in found.items():
        best = name if better(metric, each.mean, found[best].mean) else best
    first = found[best]
    others = len(found) - 1
    told = f"{metric} {first.mean:.3f} (95% interval {first.low:.3f} to {first.high:.3f})"
    return f"{group.name}: {best} {told}" + (f", first of {others + 1} variants." if others else ".")


def _beside(paths: tuple[Path, ...], name: str) -> Any:
    return next((read_json(path / name) for path in paths if (path / name).is_file()), None)
