"""What is planned is what is counted, to the unit: parameters, FLOPs, saved bytes, state bytes, feature dimension."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison, fact
from threefold.laws.growth import counted
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import Subject
from threefold.plan.count import parameters, state_bytes
from threefold.specs.base import Form


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("the law about feature maps covers its dimension")
    if subject.spec is None:
        return does_not_apply("nobody planned its cost; `threefold plan` counts it")
    return None


def witness(subject: Subject) -> str | Absent:
    """A plan that grows."""
    total = subject.spec.plan(subject.width).total
    return f"planned forward FLOPs {total.forward!r}"


def cases(subject: Subject) -> Iterator[Case]:
    yield Case(T=1, B=1, how="parameters")
    for form in subject.forms:
        for T in [T for T in lengths(subject.blocks) if T <= 17]:
            yield Case(T=T, B=3 if T < 4 else 1, how=f"cost {form}")
    if subject.streams:
        yield from (Case(T=T, B=2, how="state") for T in (1, 5, 33))


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    what, _, form = case.how.partition(" ")
    if what == "parameters":
        module = subject.module()
        yield fact(
            "parameters", int(subject.spec.plan(subject.width).total.params), parameters(module), "planned, counted"
        )
    elif what == "state":
        yield from _state(subject, case)
    else:
        yield from _cost(subject, case, form)


def _state(subject: Subject, case: Case) -> Iterator[Comparison]:
    module = subject.module(torch.float32)
    planned = subject.spec.plan(subject.width).total.state(B=case.B, T=case.T)
    with torch.no_grad():
        x = subject.inputs(case).float()
        _, state = subject.feed(module, x, subject.start(module, case.B), valid=None, form=None)
    yield fact("state bytes", float(planned), state_bytes(state), f"planned, counted after {case.T} tokens")


def _cost(subject: Subject, case: Case, form: str) -> Iterator[Comparison]:
    planned = subject.spec.plan(subject.width, Form(form)).total.at(B=case.B, T=case.T)
    seen = counted(subject, form, case.T, case.B)
    if seen.unknown:
        yield fact("ops without a rule", 0, len(seen.unknown), f"not counted: {', '.join(seen.unknown)}")
    yield fact("forward FLOPs", int(planned.forward), seen.forward, "planned, counted")
    yield fact("backward FLOPs", int(planned.backward), seen.backward, "planned, counted")
    yield fact("saved bytes", int(planned.saved), seen.saved, "planned, counted")


LAW = Law(
    name="accounting",
    says="planned parameters, FLOPs, saved bytes and state bytes are the counted ones, to the unit",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B"),
)
