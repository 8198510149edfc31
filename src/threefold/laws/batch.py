"""Rows of a batch never see each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import torch

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import Subject
from threefold.laws.tolerance import BITS, equal

LENGTHS = (1, 2, 3, 17, 65)


def applies(subject: Subject) -> Absent | None:
    return None if subject.mixes else does_not_apply("a feature map has no batch of sequences")


def witness(subject: Subject) -> str | Absent:
    """A row's own content does matter to it."""
    x = subject.inputs(Case(T=3))
    with torch.no_grad():
        change = (subject.run(subject.differing(x, Case(T=3), 7)) - subject.run(x)).abs().max()
    return (
        f"its own content moves a row by {float(change):.1e}"
        if change > 0
        else does_not_apply("the input has no effect at all")
    )


def cases(subject: Subject) -> Iterator[Case]:
    for how in ("content eval", "content train", "joining eval", *(() if subject.vocabulary else ("nan eval",))):
        yield from (Case(T=T, B=3, how=how) for T in LENGTHS)


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    what, mode = case.how.split()
    if case.B < 2:
        return  # alone there is no neighbour
    x = subject.inputs(case)
    with torch.no_grad():
        y = subject.run(x, training=mode == "train")
        if what == "joining":
            alone = subject.run(x[:1], training=mode == "train")
            yield Comparison(
                "y",
                alone,
                y[:1],
                equal(subject.precision, case.T),
                remark="joining a batch changed a row beyond rounding",
            )
            return
        other = subject.differing(x, case, 7) if what == "content" else torch.full_like(x, nan)
        other[0] = x[0]
        z = subject.run(other, training=mode == "train")
    yield Comparison("y", y[:1], z[:1], BITS, remark="another row's content reached row 0")


LAW = Law(
    name="batch",
    says="a neighbour's content never reaches a row; joining a batch costs rounding only",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "seed"),
)
