"""Numbers are written as a person writes them."""

import math

import pytest

from threefold.report.numbers import counted, ends, number, signed
from threefold.train.metrics import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (12000.0, "12,000"),
        (0.91234, "0.912"),
        (0.0006667, "0.000667"),
        (0.00001234, "1.2e-05"),
        (5.817, "5.82"),
        (123.456, "123"),
        (1234567.8, "1,234,568"),
        (-0.25, "-0.250"),
        (math.inf, "inf"),
    ],
)
def test_three_digits_count(value: float, text: str) -> None:
    assert number(value) == text


def test_a_difference_has_its_sign() -> None:
    assert [signed(v) for v in (0.0072021, -0.5, 0.0)] == ["+0.00720", "-0.500", "0"]


def test_the_ends_of_an_interval_have_the_same_places() -> None:
    assert ends(Interval(0.0006667, 0.0, 0.01267)) == ("+0.0007", "0", "+0.0127")
    assert ends(Interval(-12.3456, -20.1, -2.0)) == ("-12.3", "-20.1", "-2.0")
    assert ends(Interval(0.5, 0.5, 0.5)) == ("+0.500", "+0.500", "+0.500")


def test_one_is_not_many() -> None:
    assert [counted(n, "seed") for n in (0, 1, 1000)] == ["0 seeds", "1 seed", "1,000 seeds"]
