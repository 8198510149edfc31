"""Cases are written and read back, and cover every block's edges."""

from __future__ import annotations

import pytest

from threefold.errors import InputError
from threefold.laws import Case
from threefold.laws.case import lengths


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(T=64, B=1, at=1, feature=0, how="eval math"),
        Case(T=0, B=3, seed=7, scale=0.5, n=5, how="right nan"),
        Case(T=3, at=0, how="scores:turn"),
    ],
)
def test_what_is_written_is_read_back(case: Case) -> None:
    assert Case.parse(str(case)) == case


def test_defaults_are_left_out() -> None:
    assert str(Case(T=2, B=1, at=1)) == "T=2,B=1,at=1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("T=2,seeed=1", "did you mean 'seed'"),
        ("T=two", "'two' is not a number"),
        ("T", "cannot read 'T'"),
        ("T=", "cannot read 'T='"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Case.parse(text)


def test_lengths_go_around_every_block_and_past_the_largest() -> None:
    found = lengths((16, 100))
    assert {1, 2, 3, 15, 16, 17, 33, 99, 100, 101, 201, 257} == set(found)
    assert max(lengths(())) == 257
    assert all(T >= 1 for T in lengths((1,)))
