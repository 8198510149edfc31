"""Verdicts follow from numbers, and from nothing else."""

from __future__ import annotations

from math import nan

import pytest
import torch

from threefold.claims import (
    Claim,
    Evidence,
    Outcome,
    Verdict,
    above,
    at_most,
    below,
    claim,
    claims_in,
    equals,
    near,
    printed,
)
from threefold.claims.claim import find, stated
from threefold.errors import InputError

TRUE, FALSE = (0.0, at_most(1.0)), (2.0, at_most(1.0))


def weighed(**sides: list[tuple[float, object]]) -> Outcome:
    evidence = Evidence()
    for side, numbers in sides.items():
        for value, need in numbers:
            getattr(evidence, side)("x", value, need)
    return evidence.verdict().outcome


def test_each_side_has_its_effect() -> None:
    assert weighed(said=[TRUE]) is Outcome.TRUE
    assert weighed(said=[TRUE, FALSE], truth=[TRUE]) is Outcome.FALSE
    assert weighed(when=[TRUE], otherwise=[FALSE]) is Outcome.CONDITIONAL
    assert weighed(when=[TRUE], otherwise=[TRUE]) is Outcome.TRUE
    assert weighed(when=[FALSE], otherwise=[FALSE]) is Outcome.FALSE
    assert weighed(truth=[TRUE]) is Outcome.BLANK
    assert weighed(said=[FALSE], truth=[FALSE]) is Outcome.UNDECIDED
    assert weighed(said=[TRUE], truth=[FALSE]) is Outcome.UNDECIDED


def test_no_numbers_is_no_evidence() -> None:
    with pytest.raises(InputError, match="holds no numbers"):
        Evidence().verdict()


def test_needs() -> None:
    assert at_most(1).test(1)
    assert not at_most(1).test(nan)
    assert not above(1).test(1)
    assert not below(1).test(nan)
    assert equals(3).test(3)
    assert near(1.0, 0.1).test(1.05)
    assert not near(1.0, 0.1).test(1.2)
    assert equals(1_000_000).says == "= 1,000,000"


@pytest.mark.parametrize(
    ("digits", "right", "wrong"),
    [
        ("0.576117", 0.5761168, 0.576118),
        ("1.52e-8", 1.5228e-8, 1.53e-8),
        ("32.5", 32.46, 32.6),
        ("-0.05", -0.0501, -0.06),
    ],
)
def test_printed_digits(digits: str, right: float, wrong: float) -> None:
    assert printed(digits).test(right)
    assert not printed(digits).test(wrong)


def test_a_false_verdict_names_the_number_when_no_counter_example_is_given() -> None:
    evidence = Evidence()
    evidence.said("2 + 2", torch.tensor(4.0), equals(5.0))
    assert evidence.verdict().counter_example == "2 + 2 = 4 (not = 5)"


def test_a_correction_that_fails_is_told() -> None:
    evidence = Evidence()
    evidence.said("x", 2, equals(1))
    evidence.truth("x", 2, equals(3))
    verdict = evidence.verdict()
    assert verdict.outcome is Outcome.UNDECIDED
    assert "correction itself fails" in verdict.limits


def test_decorator_makes_a_claim() -> None:
    @claim("homework-1", "1 = 1", subject="sums")
    def one(e: Evidence) -> None:
        e.said("1", 1, equals(1))

    assert isinstance(one, Claim)
    assert (one.sources, one.subject, one.recorded) == (("homework",), "sums", None)
    assert one.evidence().outcome is Outcome.TRUE
    assert not one.moved(one.evidence())
    assert __file__ in one.where()
    assert claims_in({"one": one, "many": (one, one), "other": 3, "CLAIMS": (one,)}) == (one, one, one)


def test_moved_only_against_a_record() -> None:
    verdict = Verdict(Outcome.FALSE)
    assert Claim("a", "b", recorded=Outcome.TRUE).moved(verdict)
    assert not Claim("a", "b", recorded=Outcome.FALSE).moved(verdict)
    assert not Claim("a", "b").moved(verdict)


def test_only_definitions_and_blanks_may_be_stated() -> None:
    assert stated("000-x", "a", "", Outcome.BLANK, "lstm").evidence().outcome is Outcome.BLANK
    with pytest.raises(InputError, match="give it an evidence function"):
        stated("000-x", "a", "", Outcome.TRUE, "lstm")


def test_find_suggests() -> None:
    known = (Claim("C5", "x"), Claim("000-1.4-dpc", "y"))
    assert find("c5", known).says == "x"
    with pytest.raises(InputError, match=r"did you mean '000-1\.4-dpc'"):
        find("000-1.4-dcp", known)
