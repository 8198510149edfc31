"""Relative positions: moving every token alike changes nothing; moving one side alone does."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import torch

from threefold.laws.case import Case
from threefold.laws.compare import Comparison, fact
from threefold.laws.law import Absent, Law, cannot_run, does_not_apply
from threefold.laws.padding import fill, places
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import equal, turned

OFFSETS = (1, 7, 300, 5000, 100_000)


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map has no positions")
    if subject.claims.relative is False:
        return does_not_apply("its positions are absolute")
    if subject.strict and subject.claims.relative is None:
        return does_not_apply("it takes no positions")
    if not ways(subject):
        return cannot_run(
            "nothing moves its positions: no at/positions/position_ids argument, and no mask to push tokens along"
        )
    if subject.claims.relative is None:
        return does_not_apply("nobody declared its positions relative (--relative)")
    return None


def ways(subject: Subject) -> tuple[str, ...]:
    """How its positions can be moved: told, pushed along by padding, or at the scores of its own position modules."""
    told = ("outputs",) if subject.moves else ("pushed",) if subject.masks and not subject.strict else ()
    return (*told, *(f"scores:{name}" for name in subject.scores()))


def witness(subject: Subject) -> str | Absent:
    """Positions do something: the control below is part of every case."""
    return f"moving only the later half must change something ({', '.join(ways(subject))})"


def cases(subject: Subject) -> Iterator[Case]:
    for way in ways(subject):
        for n in OFFSETS if way != "pushed" else (1, 7, 60):
            yield from (Case(T=T, B=1, n=n, seed=T, how=way) for T in (2, 3, 17))


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    with torch.no_grad():
        way, _, name = case.how.partition(":")
        if way == "scores":
            yield from _scores(subject, case, name)
        elif way == "outputs":
            yield from _outputs(subject, case)
        else:
            yield from _pushed(subject, case)


def _outputs(subject: Subject, case: Case) -> Iterator[Comparison]:
    x, at, n = subject.inputs(case), torch.arange(case.T), case.n or 0
    limit = turned(subject.precision, n)
    y = subject.run(x, at=at)
    yield Comparison(
        "y", y, subject.run(x, at=at + n), limit, remark=f"every position moved by {n}, and outputs changed"
    )
    if case.T > 2:
        torn = subject.run(x, at=at + 7 * (at >= case.T // 2))
        yield _felt(Comparison("y", y, torn, equal(subject.precision, 1)))


def _pushed(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Left padding moves every real token along without being seen."""
    x, valid = subject.inputs(case), places(case, "left")
    y = subject.run(x, torch.ones(case.B, case.T, dtype=torch.bool))
    pushed = subject.run(fill(subject, case, x, valid, "noise", 11), valid)[:, case.n :]
    yield Comparison(
        "y",
        y,
        pushed,
        turned(subject.precision, case.n or 0),
        remark=f"tokens pushed along by {case.n} hidden ones, and outputs changed",
    )


def _scores(subject: Subject, case: Case, name: str) -> Iterator[Comparison]:
    score, shape = subject.scores()[name]
    draw = torch.Generator().manual_seed(case.seed)
    q, k = (torch.randn(case.B, case.T, *shape, generator=draw, dtype=WIDE) for _ in range(2))
    at, n = torch.arange(case.T)[None], case.n or 0
    limit = turned(subject.precision, n)
    plain = score(q, k, at, at)
    moved = score(q, k, at + n, at + n)
    yield Comparison("score", plain, moved, limit, remark=f"queries and keys moved by {n}, and scores changed")
    torn = score(q, k, at + 1, at)
    yield _felt(Comparison("score", plain, torn, equal(subject.precision, 1)))


def _felt(comparison: Comparison) -> Comparison:
    came = 0.0 if comparison.finding().broken else inf
    return fact("positions felt", 0.0, came, "one side was moved alone, and nothing changed: positions are ignored")


LAW = Law(
    name="shift",
    says="with relative positions, moving every token alike changes nothing, and moving one side changes the scores",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "n", "seed"),
)
