"""From a failing case to the smallest: numbers are lowered while the law still fails. Tensors are drawn anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from threefold.laws.case import Case
from threefold.laws.compare import Finding

Fails = Callable[[Case], Finding | None]
SECONDS = 1.6  # a person waits; what is reached by then is shown


def shrink(fails: Fails, case: Case, found: Finding, order: tuple[str, ...]) -> tuple[Case, Finding]:
    """Lower each number of `order` in turn; always ends with a case that fails."""
    deadline = time.monotonic() + SECONDS
    best = case, found
    for name in order:
        if time.monotonic() > deadline:
            break
        best = _length(fails, *best, deadline) if name == "T" else _number(fails, *best, name, deadline)
    return best


def _length(fails: Fails, case: Case, found: Finding, deadline: float) -> tuple[Case, Finding]:
    """The smallest T: upward in growing steps to the first failure, then between the last pass and it."""
    best, low = (case, found), 0
    for T in _ascending(case.T):
        if time.monotonic() > deadline:
            return best
        if hit := _free(fails, replace(case, T=T)):
            best = hit
            break
        low = T
    while best[0].T - low > 1 and time.monotonic() < deadline:
        middle = (low + best[0].T) // 2
        if hit := _free(fails, replace(case, T=middle)):
            best = hit
        else:
            low = middle
    return best


def _free(fails: Fails, case: Case) -> tuple[Case, Finding] | None:
    """Fails with the position free, and then at one position alone."""
    free = replace(case, at=None, feature=None)
    found = fails(free)
    if found is None or case.at is None:
        return (free, found) if found else None
    for at in [found.at] if found.at is not None else range(min(case.T + 1, 16)):
        single = replace(free, at=at)
        if alone := fails(single):
            return single, alone
    return None


def _number(fails: Fails, case: Case, found: Finding, name: str, deadline: float) -> tuple[Case, Finding]:
    unspoken = (name == "at" and case.at is None and found.at is None) or (name == "feature" and case.at is None)
    for value in () if unspoken else _lower(case, name):
        if time.monotonic() > deadline:
            break
        changed: dict[str, Any] = {name: value}
        smaller = replace(case, **changed)
        if hit := fails(smaller):
            return smaller, hit
    return case, found


def _lower(case: Case, name: str) -> Iterable[int | float]:
    value = getattr(case, name)
    if name == "feature":
        return range(16) if value is None else range(value)
    if name == "scale":
        return [scale for scale in (1.0, 10.0) if scale < value]
    if value is None:
        return range(min(case.T + 1, 64)) if name == "at" else ()
    start = 1 if name in ("B", "n") else 0
    return range(start, min(value, start + 64))


def _ascending(top: int) -> Iterable[int]:
    T, step = 1, 1
    while top > T:
        yield T
        step = max(1, T // 2)
        T += step
