"""What was learned: curves with their spread, test metrics with intervals, confusion, and what the runs decide."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from threefold.report.figures import Bars, Figure, Lines, Matrix, Row, Section, Series, Table
from threefold.report.numbers import counted
from threefold.report.records import Group, Record
from threefold.report.statistics import interval, main_metric, sentences

CURVE_POINTS = 60


def section(group: Group, slug: str) -> Section:
    """One group of comparable runs."""
    metric = main_metric(group)
    parts: list[Figure | Table] = [lines for lines in (_curves(group, "train"), _curves(group, "valid")) if lines]
    if metric:
        parts += [_bars(group, metric), _table(group, metric)]
    parts += _confusions(group)
    seeds = sorted({run.seed for runs in group.variants.values() for run in runs})
    lead = (
        f"{counted(len(group.variants), 'variant')} on {group.data}, {counted(len(seeds), 'seed')} each: "
        f"{', '.join(group.variants)}."
    )
    return Section(slug, group.name, lead, tuple(parts), sentences(group, metric) if metric else ())


def _curves(group: Group, kind: str) -> Lines | None:
    says = {
        "train": "Mean of the steps in each window; the band is the spread over seeds.",
        "valid": "On sentences, images or sounds that are not trained on; the band is the spread over seeds.",
    }
    series = tuple(_series(name, [run.curve(kind, "loss") for run in runs]) for name, runs in group.variants.items())
    drawn = tuple(one for one in series if one.x)
    title = {"train": "Training", "valid": "Validation"}[kind]
    return Lines(title=f"{title} loss", says=says[kind], x="step", y="loss", series=drawn) if drawn else None


def _series(name: str, curves: list[list[tuple[int, float]]]) -> Series:
    """Mean over seeds at each shared window of steps, with lowest and highest."""
    last = max((curve[-1][0] for curve in curves if curve), default=0)
    width = max(1, -(-last // CURVE_POINTS))
    windows: dict[int, list[float]] = defaultdict(list)
    for curve in curves:
        own: dict[int, list[float]] = defaultdict(list)
        for step, value in curve:
            own[-(-step // width) * width].append(value)
        for step, values in own.items():
            windows[step].append(mean(values))
    steps = sorted(windows)
    spread = len(curves) > 1
    return Series(
        name,
        tuple(float(step) for step in steps),
        tuple(mean(windows[step]) for step in steps),
        tuple(min(windows[step]) for step in steps) if spread else (),
        tuple(max(windows[step]) for step in steps) if spread else (),
    )


def _bars(group: Group, metric: str) -> Bars:
    found = {name: each for name, runs in group.variants.items() if (each := interval(runs, metric))}
    return Bars(
        title=f"Test {metric}",
        says="Bars are means; lines are 95% intervals, over seeds or, for one seed, over test examples.",
        y=metric,
        names=tuple(found),
        values=tuple(each.mean for each in found.values()),
        low=tuple(each.low for each in found.values()),
        high=tuple(each.high for each in found.values()),
    )


def _table(group: Group, metric: str) -> Table:
    first = next(run.test for runs in group.variants.values() for run in runs if run.test)
    others = [key for key, value in first.items() if isinstance(value, float) and key != metric]
    rows: list[Row] = []
    for name, runs in group.variants.items():
        done = [run for run in runs if run.test]
        numbers = [mean([float(run.test[key]) for run in done]) if done else None for key in (metric, *others)]
        seconds = [run.outcome["seconds"] for run in done if "seconds" in run.outcome]
        parameters = next((run.outcome["parameters"] for run in done if "parameters" in run.outcome), None)
        rows.append((name, len(runs), parameters, mean(seconds) if seconds else None, *numbers))
    header = ("variant", "runs", "parameters", "seconds", f"test {metric}", *(f"test {key}" for key in others))
    return Table("Test metrics and cost", header, tuple(rows), "Means over seeds.")


def _confusions(group: Group) -> list[Matrix]:
    found = []
    for name, runs in group.variants.items():
        tests = [run.test for run in runs if run.test.get("confusion")]
        if tests:
            found.append(_confusion(name, tests[0]["names"], runs))
    return found


def _confusion(name: str, names: list[str], runs: tuple[Record, ...]) -> Matrix:
    counts = [run.test["confusion"] for run in runs if run.test.get("confusion")]
    total = [[float(sum(each[i][j] for each in counts)) for j in range(len(names))] for i in range(len(names))]
    return Matrix(
        title=f"Confusion of {name}",
        says="Rows are true, columns are guessed; counts over all seeds.",
        rows="true",
        columns="guessed",
        values=tuple(tuple(row) for row in total),
        row_names=tuple(names),
        column_names=tuple(names),
        printed=len(names) <= 12,
    )
