"""Padding never matters: not its content (NaN included), nor its amount, nor its side."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import torch
from torch import Tensor

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison
from threefold.laws.law import Absent, Law, cannot_run, does_not_apply
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import BITS, equal

SIDES = ("right", "left", "scattered")


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map sees no padding")
    if not subject.masks:
        return cannot_run("the layer takes no padding mask: batches of unequal lengths must not be padded for it")
    return None


def witness(subject: Subject) -> str | Absent:
    """Hiding a real token changes something."""
    for T in (2, 5):
        for hidden in (0, T - 1):
            x, valid = subject.inputs(Case(T=T)), torch.ones(2, T, dtype=torch.bool)
            valid[:, hidden] = False
            with torch.no_grad():
                change = (subject.run(x, valid) - subject.run(x, torch.ones_like(valid))).abs()
            if subject.per_token:
                change = change[valid]
            if change.nan_to_num(nan=1.0).max() > 0:
                return f"hiding token {hidden} of {T} moves the others' outputs by {float(change.max()):.1e}"
    return "hiding a token changes no other output"


def cases(subject: Subject) -> Iterator[Case]:
    for T in lengths(subject.blocks):
        for side in SIDES:
            contents = ("noise",) if subject.vocabulary else ("noise", "nan")
            for seed, content in enumerate(contents):
                n = 1 if T < 3 else 5
                yield Case(T=T, n=n, seed=seed, how=f"{side} {content}")
    yield Case(T=5, B=1, n=3, how="right noise")
    yield from (Case(T=T, n=3, how="empty row") for T in (1, 5))
    yield from (Case(T=T, n=3, how=f"gradient {side}") for T in (2, 9) for side in SIDES)


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    if case.how == "empty row":
        yield from _empty_row(subject, case)
    elif case.how.startswith("gradient"):
        yield from _gradient(subject, case)
    else:
        with torch.no_grad():
            yield from _outputs(subject, case)


def _outputs(subject: Subject, case: Case) -> Iterator[Comparison]:
    side, content = case.how.split()
    x, valid = subject.inputs(case), places(case, side)
    alone = subject.run(x)
    padded = fill(subject, case, x, valid, content, 11)
    y = subject.run(padded, valid)
    remark = f"{case.n} padded tokens ({side}, {'NaN' if content == 'nan' else 'arbitrary'} content) reached the output"
    limit = equal(subject.precision, case.T)
    yield Comparison("y", alone, _real(subject, y, valid), limit, remark=remark)
    if content == "noise":
        again = subject.run(fill(subject, case, x, valid, content, 12), valid)
        remark = "other content in the padded tokens moved a real token's output"
        yield Comparison("y", _real(subject, y, valid), _real(subject, again, valid), BITS, remark=remark)
    if subject.streams and subject.strict:
        _, plain = subject.feed(subject.module(), x, subject.start(subject.module(), case.B), valid=None, form=None)
        _, state = subject.feed(
            subject.module(), padded, subject.start(subject.module(), case.B), valid=valid, form=None
        )
        found = subject.leaves(state)
        for name, leaf in subject.leaves(plain).items():
            yield Comparison(f"state.{name}", leaf, found[name], limit, remark="padding changed the state")


def _empty_row(subject: Subject, case: Case) -> Iterator[Comparison]:
    """A row without one real token disturbs no other row."""
    x = subject.inputs(case, B=2)
    valid = torch.ones(2, case.T, dtype=torch.bool)
    with torch.no_grad():
        full = subject.run(x, valid)
        valid[1] = False
        y = subject.run(x, valid)
    yield Comparison(
        "y", full[:1], y[:1], equal(subject.precision, case.T), remark="a fully padded row disturbed its neighbour"
    )


def _gradient(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Parameters learn the same with padding as without, and padded content learns nothing."""
    valid = places(case, case.how.split()[1])
    x = subject.inputs(case)
    padded = fill(subject, case, x, valid, "noise", 11)
    parameters = dict(subject.module().named_parameters())
    weights = torch.randn(subject.run(x).shape, generator=torch.Generator().manual_seed(5), dtype=WIDE)
    if not parameters or not subject.run(x).requires_grad:
        return

    def gradients(y: Tensor) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad((y * weights).sum(), list(parameters.values()), allow_unused=True)

    plain, found = gradients(subject.run(x)), gradients(_real(subject, subject.run(padded, valid), valid))
    for name, expected, got in zip(parameters, plain, found, strict=True):
        if expected is not None and got is not None:
            yield Comparison(
                f"d {name}", expected, got, 10 * equal(subject.precision, case.T), remark="padding reached a gradient"
            )


def places(case: Case, side: str) -> Tensor:
    """(B, T + n): True where a token is real; n pads on one side, or scattered differently in each row."""
    n = case.n or 0
    valid = torch.ones(case.B, case.T + n, dtype=torch.bool)
    if side == "right":
        valid[:, case.T :] = False
    elif side == "left":
        valid[:, :n] = False
    else:
        source = torch.Generator().manual_seed(case.seed + 3)
        for row in valid:
            row[torch.randperm(case.T + n, generator=source)[:n]] = False
    return valid


def fill(subject: Subject, case: Case, x: Tensor, valid: Tensor, content: str, salt: int) -> Tensor:
    """x laid out on the real places, and content that should not matter on the others."""
    total = valid.shape[1]
    out = subject.inputs(case, salt, T=total, loud=30.0)
    if content == "nan":
        out = torch.full_like(out, nan)
    out[valid] = x.flatten(0, 1)
    return out


def _real(subject: Subject, y: Tensor, valid: Tensor) -> Tensor:
    return y[valid].unflatten(0, (len(y), -1)) if subject.per_token else y


LAW = Law(
    name="padding",
    says="the content, the amount and the side of padding never matter, NaN included",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "n", "seed"),
)
