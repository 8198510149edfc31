"""What a set of runs can and cannot decide: intervals, and one plain sentence for each comparison."""

from __future__ import annotations

from itertools import combinations
from math import sqrt
from statistics import mean

from threefold.report.numbers import counted, ends, signed
from threefold.report.records import Group, Record
from threefold.train.metrics import Interval, better, bootstrap, bootstrap_ratio

ENOUGH_SEEDS = 5
PREFERRED = ("accuracy", "cer", "wer", "loss")


def main_metric(group: Group) -> str | None:
    """The test metric that these runs are compared by."""
    tests = [record.test for runs in group.variants.values() for record in runs if record.test]
    return next((metric for metric in PREFERRED if tests and all(metric in test for test in tests)), None)


def interval(runs: tuple[Record, ...], metric: str) -> Interval | None:
    """Mean and 95% interval: over seeds when there are several, else over the test examples of the one run.

    None where nothing was measured; low = mean = high where one run gives nothing to resample.
    """
    values = [float(run.test[metric]) for run in runs if metric in run.test]
    if not values:
        return None
    if len(values) > 1:
        return bootstrap(values)
    confusion = runs[0].test.get("confusion")
    if metric == "accuracy" and confusion:
        return wilson(values[0], sum(map(sum, confusion)))
    if metric == "cer" and (wrong := runs[0].test.get("wrong_characters")):
        return bootstrap_ratio(wrong)
    return Interval(values[0], values[0], values[0])


def wilson(share: float, count: int) -> Interval:
    """Wilson's 95% interval of a share of `count` independent examples."""
    z = 1.959964
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Interval(share, middle - reach, middle + reach)


def sentences(group: Group, metric: str) -> tuple[str, ...]:
    """For every pair of variants: better yes, no, or not decided by these runs, and why."""
    return tuple(_sentence(a, b, group, metric) for a, b in combinations(group.variants, 2))


def _sentence(a: str, b: str, group: Group, metric: str) -> str:
    first = {run.seed: float(run.test[metric]) for run in group.variants[a] if metric in run.test}
    second = {run.seed: float(run.test[metric]) for run in group.variants[b] if metric in run.test}
    common = sorted(first.keys() & second.keys())
    if not common:
        return f"{a} and {b}: not decided by these runs; no seed of both has been tested."
    ahead, behind = (
        (a, b) if better(metric, mean(first[s] for s in common), mean(second[s] for s in common)) else (b, a)
    )
    if all(first[s] == second[s] for s in common):
        return f"{a} and {b}: equal in these runs (the same {metric} with each of {counted(len(common), 'seed')})."
    sign = 1 if ahead == a else -1
    found = bootstrap([sign * (first[s] - second[s]) for s in common])
    by, low, high = ends(found)
    told = f"{metric} {by}, 95% interval {low} to {high}, {len(common)} paired seeds"
    if len(common) < ENOUGH_SEEDS:
        return (
            f"{ahead} better than {behind}: not decided by these runs ({metric} {signed(found.mean)} over "
            f"{counted(len(common), 'seed')}; at least {ENOUGH_SEEDS} paired seeds are needed)."
        )
    if found.low <= 0 <= found.high:
        return f"{ahead} better than {behind}: not decided by these runs ({told})."
    return f"{ahead} better than {behind}: yes ({told})."
