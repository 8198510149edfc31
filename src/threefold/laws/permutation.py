"""Where order means nothing outputs follow the tokens; where a position or a mask gives it meaning they must not."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from threefold.laws.case import Case, lengths
from threefold.laws.compare import Comparison, fact
from threefold.laws.influence import reordered, tokens_matter
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import Subject


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes or not subject.per_token:
        return does_not_apply("there is no output per token to follow a reordering")
    if subject.claims.permutes is None:
        return does_not_apply("nobody declared what a reordering should do (a causal layer follows none)")
    return None


def witness(subject: Subject) -> str | Absent:
    return tokens_matter(subject) or does_not_apply(
        "no token reaches another's output: reordering is trivially followed"
    )


def cases(subject: Subject) -> Iterator[Case]:
    if subject.claims.permutes:
        yield from (Case(T=T, seed=seed, how="follows") for T in lengths(subject.blocks) for seed in (0, 1))
    else:
        yield from (Case(T=T, seed=seed, how="does not follow") for T in (5, 17) for seed in (0, 1))


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    followed = reordered(subject, case)
    if case.how == "follows":
        yield followed
    elif case.T > 2:  # of two tokens the one reordering is a shift, which a cyclic layer follows by right
        came = 0.0 if followed.finding().broken else inf
        yield fact(
            "order felt",
            0.0,
            came,
            "order should matter (a position or a causal mask), and a reordering changed nothing",
        )


LAW = Law(
    name="permutation",
    says="outputs follow a reordering of the tokens exactly where the layer declares it, and nowhere else",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "B", "seed"),
)
