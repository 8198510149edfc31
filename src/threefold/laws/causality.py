"""Change a token, and every earlier output keeps its bits; cut the sequence, and what is left keeps its values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison
from threefold.laws.influence import tokens_matter
from threefold.laws.law import Absent, Declined, Law, does_not_apply
from threefold.laws.subject import Subject
from threefold.laws.tolerance import BITS, equal

ROWS = 32  # positions judged side by side, to bound memory
BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map mixes no tokens")
    if not subject.per_token:
        return does_not_apply("one output for the whole sequence: nothing in it is early")
    if not subject.claims.causal:
        return does_not_apply("the layer is not meant to be causal")
    return None


def witness(subject: Subject) -> str | Absent:
    return tokens_matter(subject) or does_not_apply("no token reaches another's output: nothing is mixed")


def cases(subject: Subject) -> Iterator[Case]:
    for T in lengths(subject.blocks):
        if T > 1:
            yield Case(T=T, B=1, how="eval")
    yield from (Case(T=T, B=1, seed=4, how="cut") for T in lengths(subject.blocks) if T > 1)
    some = sorted({2, 17, *(C + 1 for C in subject.blocks if C < 70)})
    for T in some:
        yield Case(T=T, B=1, seed=1, how="train")
    for backend in BACKENDS:
        yield from (Case(T=T, B=1, seed=2, how=f"eval {backend}") for T in some)
    for form in subject.forms[1:]:
        yield from (Case(T=T, B=1, seed=3, how=f"eval {form}") for T in some[:2])


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    if case.how == "cut":
        yield from _cut(subject, case)
        return
    mode, _, way = case.how.partition(" ")
    x = subject.inputs(replace(case, B=1))
    other = subject.differing(x, case, 7)
    if case.feature is not None and not subject.vocabulary:
        one = torch.arange(subject.width) == case.feature
        other = torch.where(one, other, x)
    with torch.no_grad(), _backend(way):
        for tokens in torch.tensor([case.at] if case.at is not None else range(1, case.T), dtype=torch.long).split(
            ROWS
        ):
            before = x.expand(len(tokens), *x.shape[1:]).clone()
            after = before.clone()
            rows = torch.arange(len(tokens))
            after[rows, tokens] = other[0, tokens]
            form = way if way in subject.forms else None
            y = subject.run(before, training=mode == "train", form=form)
            z = subject.run(after, training=mode == "train", form=form)
            yield from _rows(y, z, tokens)


def _cut(subject: Subject, case: Case) -> Iterator[Comparison]:
    """The first s tokens alone: a layer that reads how long the sequence is reads its future."""
    x = subject.inputs(replace(case, B=1))
    some = {1, case.T // 2, case.T - 1, *(C for C in subject.blocks if C < case.T)} - {0}
    with torch.no_grad():
        whole = subject.run(x)
        for s in [case.at] if case.at is not None and 0 < case.at < case.T else sorted(some):
            remark = f"without the tokens from {s} on, an earlier output is another"
            limit = equal(subject.precision, case.T)
            yield Comparison("y", whole[:, :s], subject.run(x[:, :s]), limit, at=s, remark=remark)


def _rows(y: Tensor, z: Tensor, tokens: Tensor) -> Iterator[Comparison]:
    for row, s in enumerate(tokens.tolist()):
        if s > 0 and not torch.equal(y[row, :s], z[row, :s]):
            remark = f"changing token {s} moved an earlier output"
            yield Comparison("y", y[row : row + 1, :s], z[row : row + 1, :s], BITS, at=s, remark=remark)
            return


@contextmanager
def _backend(way: str) -> Iterator[None]:
    """One attention backend of torch's, if it takes this layer's shapes; else Declined."""
    if way not in BACKENDS:
        yield
        return
    with sdpa_kernel(BACKENDS[way]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the reasons why a backend declines
        try:
            yield
        except RuntimeError as error:
            if "No available kernel" in str(error):
                raise Declined(f"torch's {way} attention does not take these shapes") from None
            raise


LAW = Law(
    name="causal",
    says="change a token, and every earlier output keeps its bits",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "at", "feature", "seed"),
)
