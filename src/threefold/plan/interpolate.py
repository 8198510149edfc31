"""The law behind counts: a polynomial through a few small sizes, exact in fractions, held against sizes it never saw.

Work in chunks is a polynomial at multiples of the chunk only, so several steps of lengths are tried, small ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import prod

from threefold.cost import ZERO, Poly, as_poly, axis_poly

Counts = Mapping[str, int]
Counting = Callable[[Mapping[str, int]], Counts]
HIGHEST = 4  # degrees looked at
STEPS = (4, 16, 64, 128)  # of lengths; a batch goes 2, 3, 4, ...


@dataclass(frozen=True)
class Laws:
    """A polynomial for every quantity that has one; `every` is the step of lengths at whose multiples they hold."""

    of: Mapping[str, Poly]
    missing: tuple[str, ...]  # quantities without a polynomial
    every: int
    counted: tuple[Mapping[str, int], ...]  # sizes that the laws go through
    verified: tuple[Mapping[str, int], ...]  # held-out sizes, which they foretold to the unit


def laws(count: Counting, axes: Sequence[str], far: Mapping[str, int] | None = None) -> Laws:
    """The laws of everything that `count` returns. Where no step gives one for all, the best is what is returned.

    `far` are sizes of use: there too, or at the multiples just above them, a law must hold. Within its first chunk work
    in chunks looks like another polynomial.
    """
    known = _Remembered(count)
    best: Laws | None = None
    first: Exception | None = None
    for step in STEPS if set(axes) - {"B"} else STEPS[:1]:
        try:
            found = _at_multiples(known, axes, step, far)
        except ArithmeticError:
            continue
        except Exception as error:  # lengths that the module refuses: perhaps it takes multiples of a larger number
            first = first or error
            continue
        if best is None or len(found.missing) < len(best.missing):
            best = found
        if not found.missing:
            return found
    if best is None:
        raise first or ArithmeticError("no law was found")
    return best


class _Remembered:
    """Counts each size once."""

    def __init__(self, count: Counting) -> None:
        self._count, self._known = count, dict[tuple[tuple[str, int], ...], Counts]()

    def __call__(self, sizes: Mapping[str, int]) -> Counts:
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            self._known[key] = self._count(sizes)
        return self._known[key]


def _at_multiples(count: _Remembered, axes: Sequence[str], step: int, far: Mapping[str, int] | None) -> Laws:
    start = {axis: _points(axis, step, 1)[0] for axis in axes}
    degrees = {axis: _degrees(count, start, axis, step) for axis in axes}
    names = list(count(start))
    found: dict[str, Poly] = {}
    used: list[Mapping[str, int]] = []
    for name in names:
        degree = {axis: degrees[axis].get(name, 0) for axis in axes}
        if any(each is None for each in degree.values()):
            continue
        grid = {axis: _points(axis, step, int(degree[axis] or 0) + 1) for axis in axes}
        used += [sizes for sizes in _all(grid) if sizes not in used]
        found[name] = _through({tuple(sizes.values()): count(sizes)[name] for sizes in _all(grid)}, grid)
    held = [{axis: _points(axis, step, 9)[at] for axis in axes} for at in (6, 8)]
    if far:
        held.append({axis: size if axis == "B" else -(-size // step) * step for axis, size in far.items()})
    found = {name: law for name, law in found.items() if all(_foretold(law, count(h)[name], h) for h in held)}
    odd = {axis: size if axis == "B" else size + 1 for axis, size in held[0].items()}
    everywhere = step == STEPS[0] and _holds(found, count, odd)
    missing = tuple(name for name in names if name not in found)
    return Laws(found, missing, 1 if everywhere else step, tuple(used), (*held, *([odd] if everywhere else ())))


def _foretold(law: Poly, seen: int, sizes: Mapping[str, int]) -> bool:
    return law.placed(sizes)() == seen


def _holds(found: Mapping[str, Poly], count: _Remembered, sizes: Mapping[str, int]) -> bool:
    try:
        seen = count(sizes)
    except Exception:  # the module takes multiples only
        return False
    return all(_foretold(law, seen[name], sizes) for name, law in found.items())


def _points(axis: str, step: int, count: int) -> list[int]:
    """Sizes of an axis: a batch grows by 1, a length by the step. Never 1, where copies may be views."""
    return [n + 1 if axis == "B" else n * step for n in range(1, count + 1)]


def _degrees(count: _Remembered, start: Mapping[str, int], axis: str, step: int) -> dict[str, int | None]:
    """The degree of each quantity along an axis; None where the differences do not end."""
    seen = [count({**start, axis: size}) for size in _points(axis, step, HIGHEST + 2)]
    return {name: _degree([each.get(name, 0) for each in seen]) for name in seen[0]}


def _degree(values: list[int]) -> int | None:
    """The order after which all differences are 0."""
    for order in range(len(values) - 1):
        if not any(b - a for a, b in pairwise(values)):
            return order
        values = [b - a for a, b in pairwise(values)]
    return None


def _all(grid: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    for sizes in product(*grid.values()):
        yield dict(zip(grid, sizes, strict=True))


def _through(values: Mapping[tuple[int, ...], int], grid: Mapping[str, Sequence[int]]) -> Poly:
    """The one polynomial of the grid's degrees through all values: Lagrange, axis by axis."""
    bases = {axis: {x: _basis(axis, x, points) for x in points} for axis, points in grid.items()}
    total = ZERO
    for at, value in values.items():
        term = prod((bases[axis][x] for axis, x in zip(grid, at, strict=True)), start=as_poly(value))
        total += term
    return total


def _basis(axis: str, at: int, points: Sequence[int]) -> Poly:
    """1 at one point, 0 at the others."""
    factors = ((axis_poly(axis) - other) * Fraction(1, at - other) for other in points if other != at)
    return prod(factors, start=as_poly(1))
