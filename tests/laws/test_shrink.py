"""A failure is lowered to its smallest numbers, within the time that a person waits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.laws.mutants import TWELVE, Mutant
from threefold.laws import LAWS, Case
from threefold.laws.compare import Finding
from threefold.laws.shrink import SECONDS, shrink

BY_NAME = {law.name: law for law in LAWS}


def finding(at: int | None = None) -> Finding:
    return Finding("y", 1.0, 0.0, (0,), 0.0, 1.0, at)


@pytest.mark.parametrize("least", [1, 2, 5, 63, 64, 65, 200])
def test_the_smallest_length_is_found(least: int) -> None:
    case, found = shrink(lambda c: finding() if least <= c.T else None, Case(T=257, B=3), finding(), ("T", "B", "seed"))
    assert (case.T, case.B, found.broken) == (least, 1, True)


def test_numbers_are_lowered_only_while_it_still_fails() -> None:
    def fails(case: Case) -> Finding | None:
        sound = case.T < 4 or case.B < 2 or case.seed % 3 != 2 or case.scale < 10 or (case.n or 0) < 3
        return None if sound else finding()

    case, _ = shrink(fails, Case(T=100, B=5, seed=8, scale=100.0, n=9), finding(), ("T", "B", "n", "seed", "scale"))
    assert case == Case(T=4, B=2, seed=2, scale=10.0, n=3)


def test_one_position_and_one_feature_are_singled_out() -> None:
    def fails(case: Case) -> Finding | None:
        if case.T < 7 or case.at not in (None, 5) or case.feature not in (None, 2):
            return None
        return finding(at=5)

    case, _ = shrink(fails, Case(T=129, B=1, at=5), finding(5), ("T", "at", "feature"))
    assert (case.T, case.at, case.feature) == (7, 5, 2)


def test_a_slow_subject_is_shrunk_for_so_long_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("threefold.laws.shrink.time", SimpleNamespace(monotonic=lambda: now[0]))

    def fails(case: Case) -> Finding | None:
        now[0] += 0.3  # seconds that one look takes
        return finding() if case.T >= 300 or case.seed else None

    case, found = shrink(fails, Case(T=500, seed=400), finding(), ("T", "seed"))
    assert now[0] < 2, "a person waits"
    assert found.broken and fails(case)
    assert SECONDS < 2


@pytest.mark.parametrize("mutant", TWELVE, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_fault_replays_from_its_smallest_case(mutant: Mutant) -> None:
    law, subject = BY_NAME[mutant.law], mutant.broken()
    verdict = law.check(subject)
    assert verdict.where is not None
    case = verdict.where.case
    again = law.check(subject, Case.parse(str(case)))
    assert again.broken and again.where is not None
    assert str(again.where) == str(verdict.where), "NaN included"
    if "T" in law.shrinks and case.T > 1:
        shorter = law.check(subject, replace(case, T=case.T - 1, at=None, feature=None))
        assert not shorter.broken, "a shorter one fails as well"
