"""Which token reaches which output: the evidence behind inferred claims, and the witness that a law could fail."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.subject import Subject
from threefold.laws.tolerance import equal


def moved(subject: Subject, case: Case, s: int) -> Tensor:
    """(T,): by how much each output moves when token s of one row becomes another."""
    x = subject.inputs(case, B=1)
    other = x.clone()
    other[:, s] = subject.differing(x, case, 7)[:, s]
    with torch.no_grad():
        before, after = subject.run(x), subject.run(other)
    change = (after - before).abs().nan_to_num(nan=float("inf"))
    return change.flatten(2).amax((0, 2)) if change.ndim > 2 else change.amax(0)


def past_matters(subject: Subject) -> str:
    """A sentence that shows an earlier token reaching a later output, or nothing."""
    for T in (2, 5, 17):
        change = moved(subject, Case(T=T, B=1), 0)[-1]
        if change > 0:
            return f"token 0 moves y[{T - 1}] by {float(change):.1e}"
    return ""


def tokens_matter(subject: Subject) -> str:
    """A sentence that shows one token reaching another's output, in any direction, or nothing."""
    if not subject.per_token:
        return "every token reaches the one output"
    for T in (2, 5):
        for s in (0, T - 1):
            change = moved(subject, Case(T=T, B=1), s)
            change[s] = 0
            if change.max() > 0:
                return f"token {s} moves y[{int(change.argmax())}] by {float(change.max()):.1e}"
    return ""


def looks_causal(subject: Subject) -> tuple[bool, str]:
    """A token that reaches nearly as many earlier outputs as later ones does so by intention; a few are a mistake."""
    reached, onward, asked, first = 0, 0, 0, ""
    for T, columns in ((9, range(1, 9)), (129, (1, 31, 63, 64, 100, 127, 128))):
        for s in columns:
            try:
                change = moved(subject, Case(T=T, B=1), s) > 0
            except Exception:
                break
            early, asked = change[:s], asked + s
            reached, onward = reached + int(early.sum()), onward + int(change[s + 1 :].sum())
            if bool(early.any()) and not first:
                first = f"T={T}: token {s} moves y[{int(early.float().argmax())}]"
    if not asked:
        return False, "could not be probed for causality: judged as not causal"
    if not reached:
        return True, "looks causal: judged as causal"
    if reached >= 0.75 * onward:
        return False, "sees the future: judged as not causal"
    return (
        True,
        f"looks causal except that it sees some later tokens ({first}): judged as causal (--not-causal if it is meant)",
    )


def reordered(subject: Subject, case: Case) -> Comparison:
    """Outputs of a reordered sequence beside the reordered outputs."""
    x = subject.inputs(case)
    order = torch.randperm(case.T, generator=torch.Generator().manual_seed(case.seed + 1))
    if case.T > 1 and bool((order == torch.arange(case.T)).all()):
        order = order.flip(0)
    with torch.no_grad():
        y, z = subject.run(x), subject.run(x[:, order])
    limit = equal(subject.precision, case.T)
    return Comparison(
        "y", y[:, order], z, limit, remark=f"tokens reordered to {order.tolist()[:12]}, outputs did not follow"
    )


def looks_permuting(subject: Subject) -> tuple[bool, str]:
    """Whether outputs follow a reordering of the tokens."""
    found = reordered(subject, Case(T=5)).finding()
    if found.broken:
        return False, f"order matters (reordering moves outputs by {found.error:.1e}): judged as not permuting"
    return True, "outputs follow a reordering of the tokens: judged as permuting"
