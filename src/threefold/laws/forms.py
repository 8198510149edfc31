"""One function, several ways to compute it: values, final states and gradients agree."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison
from threefold.laws.influence import tokens_matter
from threefold.laws.law import Absent, Law, cannot_run, does_not_apply
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import equal


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map has one form")
    if len(subject.forms) < 2 and subject.strict:
        return does_not_apply("it declares one form")
    if len(subject.forms) < 2:
        return cannot_run("there is one way to compute it: no step(x_t, state), no state argument, no other form")
    return None


def witness(subject: Subject) -> str | Absent:
    return tokens_matter(subject) or does_not_apply("no token reaches another's output: every form is trivially right")


def cases(subject: Subject) -> Iterator[Case]:
    reference = subject.forms[-1]
    for form in subject.forms[:-1]:
        for T in lengths(subject.blocks):
            yield Case(T=T, how=f"{form} values")
        for T in (2, 5, *(C + 1 for C in subject.blocks if C < 64)):
            yield Case(T=T, seed=1, how=f"{form} gradients")
            if subject.masks and subject.strict:
                yield Case(T=T, seed=2, how=f"{form} masked")
    if reference == "step" and subject.strict:
        yield from (Case(T=0, how=f"{form} values") for form in subject.forms[:-1])


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    form, what = case.how.split()
    reference = subject.forms[-1]
    x = subject.inputs(case)
    valid = None
    if what == "masked":
        valid = torch.rand(case.B, case.T, generator=torch.Generator().manual_seed(case.seed)) < 0.7
    limit = equal(subject.precision, case.T)
    if what == "gradients":
        yield from _gradients(subject, case, form, reference, x)
        return
    with torch.no_grad():
        got, state = _way(subject, form, x, valid)
        expected, end = _way(subject, reference, x, valid)
    yield Comparison("y", expected, got, limit, remark=f"{form} differs from {reference}")
    for name, leaf in end.items():
        yield Comparison(
            f"state.{name}", leaf, state[name], limit, remark=f"{form} ends in another state than {reference}"
        )


def _way(subject: Subject, form: str, x: Tensor, valid: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
    if not subject.streams:
        return subject.run(x, valid, form=form), {}
    module = subject.module()
    if subject.strict:
        y, state = subject.feed(module, x, subject.start(module, len(x)), valid=valid, form=form)
        return y, subject.leaves(state)
    if form == "whole":
        return subject.run(x, valid), {}
    state, ys = subject.start(module, len(x)), []
    for x_t in x.split(1, 1):
        y, state = subject.feed(module, x_t, state, valid=None, form=None)
        ys.append(y)
    return torch.cat(ys, 1), {}


def _gradients(subject: Subject, case: Case, form: str, reference: str, x: Tensor) -> Iterator[Comparison]:
    """d/dx and d/dparameter of one weighted sum of the outputs."""
    sources: dict[str, Tensor] = dict(subject.module().named_parameters())
    if not subject.vocabulary:
        sources = {"x": x.requires_grad_(), **sources}
    found: list[tuple[Tensor | None, ...]] = []
    for way in (reference, form):
        y = _way(subject, way, x, None)[0]
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=WIDE)
        if not y.requires_grad:
            return
        found.append(torch.autograd.grad((y * weights).sum(), list(sources.values()), allow_unused=True))
    for name, expected, got in zip(sources, *found, strict=True):
        one, other = (torch.zeros_like(sources[name]) if g is None else g for g in (expected, got))
        yield Comparison(
            f"d {name}",
            one,
            other,
            10 * equal(subject.precision, case.T),
            remark=f"the gradient of {form} differs from {reference}'s",
        )


LAW = Law(
    name="forms",
    says="every form gives the values, final states and gradients of the last one declared (step, where there is one)",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "seed"),
)
