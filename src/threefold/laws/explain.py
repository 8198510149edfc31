"""What is wrong with a signal, in words, and the smallest numbers that show it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

import torch
from torch import Tensor

from threefold.laws.compare import Comparison
from threefold.laws.derivation import Attempt, Backward, Mark, Smallest, attempt, forward_values
from threefold.laws.equations import Named, Sizes, parts
from threefold.laws.tolerance import equal

ONE_STEP = Sizes(T=1, m=1)
WAYS = ((1, 1, 2), (1, 2, 2), (2, 2, 2), (1, 2, 3))  # n_x, n, n_y; of one class the loss is 0


def explained(backward: Backward, found: Attempt, name: str) -> tuple[str, Smallest | None]:
    """(what is wrong with it, the smallest case)."""
    mark = found.mark(name)[0]
    remark = shape_remark(found, name) if mark is Mark.SHAPE else value_remark(found, name)
    if not remark and mark is Mark.WRONG:
        remark = factor_remark(attempt(backward, found.problem.cell, ONE_STEP), name)
    return remark, smallest(backward, found, name)


def same(one: Tensor, other: Tensor) -> bool:
    """Equal shapes and, to rounding, equal numbers."""
    return one.shape == other.shape and not Comparison("", one, other, equal(torch.float64, 1)).finding().broken


def shape_remark(found: Attempt, name: str) -> str:
    """The two shapes, and what would turn one into the other."""
    got, wanted = found.given[name], found.expected(name)
    said = f"got {tuple(got.shape)}, needed {tuple(wanted.shape)}"
    for axes in chain.from_iterable(combinations(range(got.ndim), count) for count in range(1, got.ndim + 1)):
        for kept in (True, False):
            if same(got.sum(axes, keepdim=kept), wanted):
                return f"{said}: sum it over axis {', '.join(map(str, axes))}"
    if got.ndim >= 2 and same(got.transpose(-1, -2), wanted):
        return f"{said}: transpose it"
    twin = _twin(found, name)
    return f"{said}: {twin}" if twin else said


def _twin(found: Attempt, name: str) -> str:
    """Which other gradient it is, if it is one."""
    got = found.given[name]
    for other, true in (found.truth | found.follows).items():
        if other == name:
            continue
        if same(got, true):
            return f"these are the numbers of {other}"
        if true.ndim == 3 and (same(got, true[-1]) or same(got, true[0])):
            return f"these are the numbers of {other} at one step"
    return ""


def value_remark(found: Attempt, name: str) -> str:
    """One factor for all entries, one step only, the wrong way round, or another signal's numbers."""
    got, expected = found.given[name], found.expected(name)
    if not got.isfinite().all():
        return "it is not finite"
    if name[1:] in found.problem.weights and found.sizes.T > 1:
        each = parts(found.problem)[name]
        for t, said in ((-1, "last"), (0, "first")):
            if same(got, each[t]):
                return f"it holds the {said} step only: sum over t"
    factor = float((got * expected).sum() / expected.square().sum()) if bool(expected.any()) else 0.0
    if same(got, factor * expected) and factor:
        return "its sign is flipped" if factor == -1 else f"it is {factor:.6g} times what it should be"
    if got.ndim >= 2 and same(got, expected.transpose(-1, -2).reshape(got.shape)):
        return "it is the wrong way round: transpose it"
    if twin := _twin(found, name):
        return twin
    if got.ndim == 3 and len(got) > 1 and name[1:] not in found.problem.leaves and same(got[-1], expected[-1]):
        return "it is right at t = T only: what comes back from step t + 1 is missing or wrong"
    return ""


def factor_remark(one: Attempt, name: str) -> str:
    """Where one step is off by a ratio of forward values, which: `1 - p stands where 1 - c_tilde^2 belongs`."""
    if one.raised or one.mark(name)[0] is not Mark.WRONG:
        return ""
    got, expected = (each.reshape(-1, each.shape[-1]) for each in (one.given[name], one.expected(name)))
    ratio = got / expected
    if len(ratio) < 2 or not ratio.isfinite().all() or not same(ratio, ratio[:, :1].expand_as(ratio)):
        return ""
    column, atoms = ratio[:, 0], list(_atoms(forward_values(one.problem), len(ratio)))
    for said, atom in atoms:
        if same(column, atom):
            return f"there is a factor {said} too many"
        if same(column * atom, torch.ones_like(atom)):
            return f"the factor {said} is missing"
    for (wrong, top), (right, below) in product(atoms, atoms):
        if same(column * below, top):
            return f"{wrong} stands where {right} belongs"
    return ""


def _atoms(values: Named, size: int) -> Iterator[tuple[str, Tensor]]:
    """Factors that a derivative may have, as words and numbers (size,), simplest first."""
    seen = {name: value[0, :, 0] for name, value in values.items() if value.shape == (1, size, 1)}
    seen |= {f"tanh({name})": torch.tanh(seen[name]) for name in ("c",) if name in seen}
    yield from seen.items()
    yield from ((f"(1 - {name})", 1 - value) for name, value in seen.items())
    yield from ((f"(1 - {name}^2)", 1 - value**2) for name, value in seen.items())
    yield from ((f"{name} (1 - {name})", value * (1 - value)) for name, value in seen.items())
    yield from ((f"{name}^2", value**2) for name, value in seen.items())


def smallest(backward: Backward, found: Attempt, name: str) -> Smallest | None:
    """The least sizes at which it is still wrong."""
    ladder = [Sizes(T, m, *way) for T in (1, 2, 3) for m in (1, 2) for way in WAYS]
    for sizes in sorted(ladder, key=lambda s: s.T * s.m * (s.n + s.n_x + s.n_y)):
        tried = attempt(backward, found.problem.cell, sizes)
        if tried.raised or tried.mark(name)[0] is not found.mark(name)[0]:
            continue
        got, expected = tried.given[name], tried.expected(name)
        if got.shape != expected.shape:
            return Smallest(sizes, f"shape {tuple(got.shape)}, needed {tuple(expected.shape)}", 0.0, 0.0)
        worst = Comparison(name, expected, got).finding()
        single = sizes.m == sizes.n == sizes.n_x == 1
        around = _around(tried, worst.index[0] if got.ndim == 3 else sizes.T - 1) if single else ()
        return Smallest(sizes, worst.place(), worst.expected, worst.got, around)
    return None


def _around(tried: Attempt, t: int) -> tuple[tuple[str, float], ...]:
    """Every value of one step that is one number: the forward ones, and the author's gradients."""
    values = forward_values(tried.problem) | tried.given
    return tuple((name, float(value[t])) for name, value in values.items() if value.ndim == 3 and value[t].numel() == 1)
