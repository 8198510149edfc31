"""Counted FLOPs and saved bytes grow with T as declared. Wall time is never asked."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from math import lcm

import torch
from torch import Tensor, nn

from threefold.laws.case import Case
from threefold.laws.compare import Comparison, fact
from threefold.laws.guard import seeded
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import Subject
from threefold.laws.wiring import COMMON
from threefold.plan.conventions import Conventions
from threefold.plan.count import Count, count
from threefold.specs.base import Form

POINTS = 4  # a cubic can be told from a square
LEAST, LONGEST = 6, 96
HIDDEN = 256  # blocks that a layer need not say it has divide this


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map has no length")
    if subject.spec is None and subject.claims.growth is None:
        try:
            flops, saved, _ = found(subject, "whole")
        except Exception as error:
            return does_not_apply(f"no growth was declared, and counting raised {type(error).__name__}: {error}")
        return does_not_apply(
            f"no growth was declared (--growth); counted: FLOPs as T^{flops}, saved bytes as T^{saved}"
        )
    return None


def witness(subject: Subject) -> str | Absent:
    """The counts do grow."""
    seen = counted(subject, subject.forms[0], base(subject))
    return (
        f"{seen.forward:,} forward FLOPs at T={base(subject)}"
        if seen.forward
        else does_not_apply("no FLOP of a contraction was counted")
    )


def cases(subject: Subject) -> Iterator[Case]:
    forms = [form for form in subject.forms if form != "step"] if subject.spec is not None else subject.forms[:1]
    yield from (Case(T=base(subject), B=1, how=form) for form in forms)


def base(subject: Subject) -> int:
    """A length that every block size of its own divides, so that no remainder spoils a degree."""
    own = [size for size in subject.blocks if subject.strict or size not in COMMON] or [16]
    whole = lcm(*own)
    return whole * -(-LEAST // whole) if whole <= LONGEST else max(own)


class Formed(nn.Module):
    """A subject's module in one form, so that its parameters are seen as its own."""

    def __init__(self, subject: Subject, form: str) -> None:
        super().__init__()
        self.inner = copy.deepcopy(subject.module(torch.float32)).to("meta")
        self.subject, self.form = subject, form if subject.strict else None

    def forward(self, x: Tensor) -> Tensor:
        with seeded(0), torch.device("meta"):  # for what it makes without saying where
            return self.subject.call(self.inner, x, valid=None, at=None, form=self.form)


def counted(subject: Subject, form: str, T: int, B: int = 1) -> Count:
    """One forward and backward pass under the plan's default conventions, where nothing is computed."""
    x = subject.inputs(Case(T=T, B=B)).to("meta")
    x = x if subject.vocabulary else x.float().requires_grad_()
    return count(Formed(subject, form), x, scores=Conventions().scores)


def degree(values: list[int]) -> int:
    """The order of the last difference that is not 0 everywhere."""
    found = 0
    for order in range(1, len(values)):
        values = [b - a for a, b in pairwise(values)]
        found = order if any(values) else found
    return found


def degrees(subject: Subject, form: str, step: int) -> tuple[int, int]:
    """(FLOPs, saved bytes): degrees in T, at multiples of the step."""
    seen = [counted(subject, form, step * n) for n in range(2, POINTS + 2)]  # one block may go a shorter way
    return degree([each.forward for each in seen]), degree([each.saved for each in seen])


def found(subject: Subject, form: str) -> tuple[int, int, int]:
    """Degrees of FLOPs and of saved bytes, and the step at which they were found.

    Inside one block work is square. Where a stranger's is more than linear, lengths past any block have the last word.
    """
    short = degrees(subject, form, base(subject))
    if not subject.strict and max(short) > 1:
        try:
            return *degrees(subject, form, HIDDEN), HIDDEN
        except Exception:  # the longest that it takes is shorter
            return *short, base(subject)
    return *short, base(subject)


def declared(subject: Subject, form: str) -> tuple[int, int]:
    """What the plan, or the user, says."""
    if subject.claims.growth is not None:
        return subject.claims.growth, subject.claims.growth
    total = subject.spec.plan(subject.width, Form(form)).total
    return total.forward.smooth().degree("T"), total.saved.smooth().degree("T")


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    flops, saved, step = found(subject, case.how)
    most_flops, most_saved = declared(subject, case.how)
    remark = f"counted on the meta device at T = {step} times 2 to {POINTS + 1}"
    yield fact("degree of FLOPs in T", most_flops, flops, remark)
    if subject.claims.growth is None or saved > most_saved:
        yield fact("degree of saved bytes in T", most_saved, saved, remark)


LAW = Law(
    name="growth",
    says="counted FLOPs and saved bytes grow with the length as declared",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=(),
)
