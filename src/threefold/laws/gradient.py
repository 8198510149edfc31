"""The closed form, autograd and central differences give one gradient; and one second derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import nan

import torch
from torch import Tensor

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.law import Absent, Law, cannot_run, does_not_apply
from threefold.laws.signals import compare_signals, has_signals
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import difference, resolution

DIRECTIONS = 2


def applies(subject: Subject) -> Absent | None:
    return None if subject.mixes else does_not_apply("the law about feature maps covers it")


def witness(subject: Subject) -> str | Absent:
    """There is a gradient, and it is not zero."""
    x, sources = _sources(subject, Case(T=3, B=1))
    if not sources:
        return does_not_apply("it has neither a differentiable input nor a parameter")
    y = subject.run(x)
    if not y.requires_grad:
        return cannot_run("its output carries no gradient")
    grads = torch.autograd.grad(y.square().sum(), list(sources.values()), allow_unused=True)
    for name, grad in zip(sources, grads, strict=True):
        if grad is not None and bool(grad.abs().max() > 0):
            return f"d {name} reaches {float(grad.abs().max()):.1e}"
    return cannot_run("every gradient is zero: nothing could be compared")


def cases(subject: Subject) -> Iterator[Case]:
    forms = subject.forms if subject.strict else ("whole",)
    for form in forms:
        yield from (Case(T=T, B=2, seed=T, how=f"first {form}") for T in ((1, 2, 5) if form == forms[0] else (2, 4)))
    for T in (17, 67):
        yield Case(T=T, B=1, seed=T, how=f"first {forms[0]}")
    for form in forms:
        yield Case(T=4, B=2, seed=3, how=f"second {form}")
    if has_signals(subject):
        yield from (Case(T=T, B=B, seed=T, how="signals") for T, B in ((1, 1), (6, 4)))


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    order, _, form = case.how.partition(" ")
    if order == "signals":
        yield from compare_signals(subject, case)
        return
    x, sources = _sources(subject, case)
    way = form if subject.strict else None
    y = subject.run(x, form=way)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(case.seed + 5), dtype=WIDE)

    ruler = _Ruler(subject.precision, float((y.detach() * weights).abs().sum()))

    def loss() -> Tensor:
        return (subject.run(x, form=way) * weights).sum()

    if order == "first":
        yield from _first(loss, sources, case, ruler)
    else:
        yield from _second(loss, sources, case, ruler)


def _sources(subject: Subject, case: Case) -> tuple[Tensor, dict[str, Tensor]]:
    x = subject.inputs(case)
    sources: dict[str, Tensor] = {name: p for name, p in subject.module().named_parameters() if p.requires_grad}
    if not subject.vocabulary:
        sources = {"x": x.requires_grad_(), **sources}
    return x, sources


def _first(loss: Callable[[], Tensor], sources: dict[str, Tensor], case: Case, ruler: _Ruler) -> Iterator[Comparison]:
    if case.at is not None:
        sources = {"x": sources["x"]} if "x" in sources else {}
    grads = torch.autograd.grad(loss(), list(sources.values()), allow_unused=True)
    limit = difference(1, ruler.dtype)[1]

    def value() -> Tensor:
        with torch.no_grad():
            return loss().detach()

    floor = ruler.floor(1)
    for (name, source), grad in zip(sources.items(), grads, strict=True):
        grad = torch.zeros_like(source) if grad is None else grad
        remark = f"autograd's d {name} differs from central differences"
        if case.at is None:
            moves = _directions(source, case)
            got = torch.stack([(grad * v).sum() for v in moves])
            expected = torch.stack([ruler.along(value, source, v, g, 1) for v, g in zip(moves, got, strict=True)])
            at = 0 if name == "x" else None
            yield Comparison(f"d {name} along random directions", expected, got, limit, at, remark, floor)
        else:
            blank = Comparison(f"d {name}", grad, grad, limit, None, remark, floor)
            yield _entries(value, source, grad, case, blank, ruler)


def _second(loss: Callable[[], Tensor], sources: dict[str, Tensor], case: Case, ruler: _Ruler) -> Iterator[Comparison]:
    """d/ds of <gradient, u>, by autograd twice and by central differences of autograd."""
    held = list(sources.values())
    us = [_directions(source, case)[0] for source in held]

    def slope() -> Tensor:
        grads = torch.autograd.grad(loss(), held, create_graph=True, allow_unused=True)
        return torch.stack([(g * u).sum() for g, u in zip(grads, us, strict=True) if g is not None]).sum()

    steep = slope()

    limit = difference(2, ruler.dtype)[1]
    curves = torch.autograd.grad(steep, held, allow_unused=True) if steep.requires_grad else [None] * len(held)
    expected, got = [], []
    for source, curve in zip(held, curves, strict=True):
        v = _directions(source, replace(case, seed=case.seed + 1))[0]
        got.append(torch.zeros((), dtype=WIDE) if curve is None else (curve * v).sum())
        expected.append(ruler.along(lambda: slope().detach(), source, v, got[-1], 2))
    remark = f"second derivatives along one direction each of {', '.join(sources)}"
    floor = ruler.floor(2)
    yield Comparison("second derivative", torch.stack(expected), torch.stack(got), limit, remark=remark, floor=floor)


def _entries(
    value: Callable[[], Tensor], source: Tensor, grad: Tensor, case: Case, blank: Comparison, ruler: _Ruler
) -> Comparison:
    """The gradient to one position of x, entry by entry; elsewhere it is compared with itself."""
    expected = grad.detach().clone()
    features = range(source.shape[2]) if case.feature is None else [case.feature]
    for b in range(source.shape[0]):
        for f in features:
            if case.at is not None and case.at < source.shape[1] and f < source.shape[2]:
                v = torch.zeros_like(source).detach()
                v[b, case.at, f] = 1.0
                expected[b, case.at, f] = ruler.along(value, source, v, grad[b, case.at, f], 1)
    return replace(blank, expected=expected)


def _directions(source: Tensor, case: Case) -> list[Tensor]:
    draw = torch.Generator().manual_seed(case.seed + 17)
    return [torch.randn(source.shape, generator=draw, dtype=source.dtype) for _ in range(DIRECTIONS)]


@dataclass(frozen=True)
class _Ruler:
    """Central differences of numbers whose terms sum to `size` in absolute value."""

    dtype: torch.dtype
    size: float

    def floor(self, order: int) -> float:
        """The slope below which nothing can be told from 0."""
        return resolution(order, self.size, self.dtype)

    def along(self, value: Callable[[], Tensor], source: Tensor, v: Tensor, claim: Tensor, order: int) -> Tensor:
        """The slope along v. A relu's kink inside the step is stepped out of: what is wrong is so at every step."""
        step, limit = difference(order, self.dtype)
        best = torch.full((), nan, dtype=WIDE)
        for shorter in (1, 8, 64):
            sides = []
            for sign in (1.0, -1.0):
                with _shifted(source, sign * step / shorter * v):
                    sides.append(value())
            slope = (sides[0] - sides[1]) / (2 * step / shorter)
            if not (best - claim).abs() <= (slope - claim).abs():
                best = slope
            if (slope - claim).abs() <= limit * max(float(slope.abs()), self.floor(order)):
                break
        return best


class _shifted:  # noqa: N801
    """A tensor moved for a while, then put back to the bit."""

    def __init__(self, source: Tensor, by: Tensor) -> None:
        self.source, self.by, self.kept = source, by, source.detach().clone()

    def __enter__(self) -> None:
        self.source.data.add_(self.by)

    def __exit__(self, *_: object) -> None:
        self.source.data.copy_(self.kept)


LAW = Law(
    name="gradient",
    says="the closed form, autograd and central differences give one gradient, and one second derivative",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "at", "feature", "seed"),
)
