"""A sequence fed in pieces gives what it gives at once, and streams do not disturb each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import torch
from torch import Tensor

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison, fact
from threefold.laws.influence import past_matters
from threefold.laws.law import Absent, Law, cannot_run, does_not_apply
from threefold.laws.subject import Subject
from threefold.laws.tolerance import BITS, equal

GROWING = (8, 64, 200)  # lengths after which the state is weighed


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map has no state")
    if not subject.streams:
        if subject.claims.causal:
            return cannot_run("no way to continue: no step(x_t, state), and no state argument that is also returned")
        return does_not_apply("a layer that sees the future cannot be fed in pieces")
    return None


def witness(subject: Subject) -> str | Absent:
    return past_matters(subject) or does_not_apply("no token reaches a later output: there is nothing to carry")


def cases(subject: Subject) -> Iterator[Case]:
    for T in lengths(subject.blocks):
        yield Case(T=T, how="split")
    for form in subject.forms[1:] if subject.strict else ():
        yield from (Case(T=T, how=f"split {form}") for T in (2, 5, 17))
    yield from (Case(T=T, how="interleaved") for T in (2, 6))
    yield from (Case(T=T, how="kept state") for T in (2, 6))
    yield from (Case(T=T, how="branches") for T in (2, 3, 6))
    if subject.claims.bounded is not None:
        yield Case(T=GROWING[-1], B=1, how="bytes")


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    with torch.no_grad():
        match case.how.split():
            case ["split", *form]:
                yield from _split(subject, case, form[0] if form else None)
            case ["interleaved"]:
                yield from _interleaved(subject, case)
            case ["kept", _]:
                yield from _kept(subject, case)
            case ["branches"]:
                yield from _branches(subject, case)
            case _:
                yield from _bytes(subject, case)


def _feed(subject: Subject, x: Tensor, state: Any, form: str | None = None) -> tuple[Tensor, Any]:
    return subject.feed(subject.module(), x, state, valid=None, form=form)


def _start(subject: Subject, batch: int) -> Any:
    return subject.start(subject.module(), batch)


def _split(subject: Subject, case: Case, form: str | None) -> Iterator[Comparison]:
    """Every split of a short sequence in two; of a long one, those around its blocks; and one in three."""
    x, limit = subject.inputs(case), equal(subject.precision, case.T)
    whole = subject.run(x, form=form) if subject.strict else subject.run(x)
    _, end = _feed(subject, x, _start(subject, case.B), form)
    ends = subject.leaves(end)
    cuts = (
        range(1, case.T)
        if case.T <= 5
        else sorted({1, 2, case.T // 2, case.T - 1} | set(subject.blocks) & set(range(case.T)))
    )
    for at in [case.at] if case.at is not None else cuts:
        if not 0 < at < case.T:
            continue
        head, state = _feed(subject, x[:, :at], _start(subject, case.B), form)
        middle, state = _feed(subject, x[:, at : at + 1], state, form)
        tail, state = _feed(subject, x[:, at + 1 :], state, form) if at + 1 < case.T else (middle[:, :0], state)
        remark = f"split after token {at - 1} and after the next"
        yield Comparison("y", whole, torch.cat([head, middle, tail], 1), limit, at=at, remark=remark)
        found = subject.leaves(state)
        for name, leaf in ends.items():
            yield Comparison(f"state.{name}", leaf, found[name], limit, at=at, remark=remark)


def _interleaved(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Two streams fed in turn through one module."""
    xs = [subject.inputs(case, salt) for salt in (0, 21)]
    wholes = [subject.run(x) for x in xs]
    ys = _in_turn(subject, xs, [_start(subject, case.B) for _ in xs])
    for whole, y in zip(wholes, ys, strict=True):
        yield Comparison(
            "y",
            whole,
            y,
            equal(subject.precision, case.T),
            remark="two streams fed in turn disturbed each other",
        )


def _in_turn(subject: Subject, xs: list[Tensor], states: list[Any]) -> list[Tensor]:
    """The outputs of several streams, fed token by token in turn."""
    ys: list[list[Tensor]] = [[] for _ in xs]
    for t in range(xs[0].shape[1]):
        for i, x in enumerate(xs):
            y, states[i] = _feed(subject, x[:, t : t + 1], states[i])
            ys[i].append(y)
    return [torch.cat(parts, 1) for parts in ys]


def _kept(subject: Subject, case: Case) -> Iterator[Comparison]:
    """A state that was kept continues the same a second time: feeding changed nothing in place."""
    x = subject.inputs(case)
    half = case.T // 2
    _, state = _feed(subject, x[:, :half], _start(subject, case.B))
    once, _ = _feed(subject, x[:, half:], state)
    again, _ = _feed(subject, x[:, half:], state)
    yield Comparison("y", once, again, BITS, remark="continuing twice from one kept state gave two results")


def _branches(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Two continuations of one state, token by token in turn, as in a beam: neither writes into the other's memory."""
    xs = [subject.inputs(case, salt) for salt in (0, 21)]
    half = case.T // 2
    xs[1][:, :half] = xs[0][:, :half]
    _, start = _feed(subject, xs[0][:, :half], _start(subject, case.B))
    ys = _in_turn(subject, [x[:, half:] for x in xs], [start, start])
    limit = equal(subject.precision, case.T)
    for x, y in zip(xs, ys, strict=True):
        remark = "two continuations of one kept state disturbed each other"
        yield Comparison("y", subject.run(x)[:, half:], y, limit, remark=remark)


def _bytes(subject: Subject, case: Case) -> Iterator[Comparison]:
    sizes = {}
    for T in dict.fromkeys(min(T, case.T) for T in GROWING):
        _, state = _feed(subject, subject.inputs(case, T=T, B=1), _start(subject, 1))
        sizes[T] = sum(leaf.numel() * leaf.element_size() for leaf in subject.leaves(state).values())
    first, last = next(iter(sizes.values())), list(sizes.values())[-1]
    if subject.claims.bounded:
        yield fact("state bytes", first, last, f"declared bounded; bytes after T tokens: {sizes}")
    elif len(sizes) > 1:
        grown = 0.0 if last > first else inf
        yield fact("state growth", 0.0, grown, f"declared growing and does not; bytes after T tokens: {sizes}")


LAW = Law(
    name="streaming",
    says="any split gives the same outputs and state; streams do not disturb each other; state bytes stay as declared",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "at", "seed"),
)
