"""From folders of runs to a page: the runs, what they show, what the mixers cost, and why it can be trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threefold.errors import InputError
from threefold.report.figures import Section
from threefold.report.page import Page
from threefold.report.records import Group, all_of
from threefold.report.sections import concepts, cost, runs, samples, speed, trust
from threefold.report.statistics import interval, main_metric
from threefold.train.files import read_json


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
    sections += _beside(paths, "speed.json", speed.section)
    sections.append(cost.section())
    sections += _beside(paths, "laws.json", trust.laws)
    sections += _beside(paths, "claims.json", trust.claims)
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
    known = f" (95% interval {first.low:.3f} to {first.high:.3f})" if first.low < first.high else ""
    rest = ", ".join(f"{name} {each.mean:.3f}" for name, each in found.items() if name != best)
    return f"{group.name}: {best} {metric} {first.mean:.3f}{known}" + (f"; {rest}." if rest else ".")


def _beside(paths: tuple[Path, ...], name: str, section: Callable[[Any], Section]) -> list[Section]:
    """The section about a file that may lie beside the runs."""
    path = next((path / name for path in paths if (path / name).is_file()), None)
    if path is None:
        return []
    try:
        return [section(read_json(path))]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is not what `threefold demo` writes: remove it, and run the demonstration again."
        ) from None
