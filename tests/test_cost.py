"""Polynomials are exact, print as people write them, and know their growth."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threefold.cost import B, Cost, Most, Plan, Poly, S, T, as_poly, beyond, chunks
from threefold.errors import InputError

DOCUMENTS = 8_945_401_856 * T + 2_752_512 * T**2  # the 12/8 encoder-decoder at B = 32

polys = st.dictionaries(
    st.sampled_from([(), (("B", 1),), (("T", 2),), (("B", 1), ("T", 1)), (("⌈T/8⌉", 1),)]),
    st.integers(-99, 99) | st.fractions(max_denominator=9),
    max_size=4,
).map(Poly)


@given(polys, polys, polys, st.integers(0, 50), st.integers(0, 50))
def test_polynomials_form_a_ring_and_evaluation_respects_it(p: Poly, q: Poly, r: Poly, b: int, t: int) -> None:
    assert p + q == q + p and p * (q + r) == p * q + p * r and p - p == 0
    assert (p * q)(B=b, T=t) == p(B=b, T=t) * q(B=b, T=t)
    assert (p + q).at(B=b)(T=t) == p(B=b, T=t) + q(B=b, T=t)


def test_printing() -> None:
    assert repr(DOCUMENTS) == "8,945,401,856·T + 2,752,512·T²"
    assert repr(B * T * (T + 1) / 2) == "1/2·B·T + 1/2·B·T²"
    assert repr(3 - T + chunks("T", 64)) == "3 − T + ⌈T/64⌉"
    assert repr(as_poly(0)) == "0" and repr(-T) == "−T" and repr(S * T * B) == "B·T·S"


def test_the_documents_exponents_and_crossover() -> None:
    exponents = [round(DOCUMENTS.exponent("T", T=t), 2) for t in (128, 512, 2048, 8192, 32768)]
    assert exponents == [1.04, 1.14, 1.39, 1.72, 1.91]
    assert round(DOCUMENTS.balance("T") or 0) == 3250
    assert DOCUMENTS(T=2048) == 29_865_055_092_736
    assert (7 * T).balance("T") is None


def test_chunks_read_their_value_from_the_axis() -> None:
    padded = 64 * chunks("T", 64)
    assert [padded(T=t) for t in (0, 1, 64, 65)] == [0, 64, 64, 128]
    assert padded.smooth() == T and padded.degree("T") == 1 and padded.axes == ("T",)
    assert chunks("T", 1) == T


def test_what_is_done_only_beyond_a_length() -> None:
    law = 3 * T + 5 * beyond("T", 64) * T**2
    assert [law(T=t) for t in (64, 65)] == [192, 195 + 5 * 65**2]
    assert law.settled({"T": 64}) == 3 * T and law.settled({"T": 65}) == law.smooth() == 3 * T + 5 * T**2
    assert beyond("T", 64) ** 2 == beyond("T", 64) and beyond("T", 64) * (1 - beyond("T", 64)) == 0
    assert repr(law) == "3·T + 5·T²·[T>64]" and law.axes == ("T",)


def test_an_axis_read_as_another() -> None:
    law = (S * T + 2 * chunks("S", 8) + S).renamed("S", "T")
    assert law == T**2 + 2 * chunks("T", 8) + T and law(T=9) == 94
    assert (T + B).renamed("S", "T") == T + B


def test_a_way_that_is_not_taken_is_left_out() -> None:
    often, rare = (
        Plan(name, Cost(forward=T), when=when) for name, when in (("a", beyond("T", 8)), ("b", 1 - beyond("T", 8)))
    )
    tree = Plan("tree", parts=(often, rare))
    assert [part.name for part in tree.at(T=9).parts] == ["a"] and [part.name for part in tree.at(T=8).parts] == ["b"]
    assert len(tree.at(B=1).parts) == 2


def test_derivative_and_coefficients() -> None:
    law = 5 + 3 * B * T + 2 * T**3
    assert law.derivative("T") == 3 * B + 6 * T**2
    assert law.coefficient("T", 1) == 3 * B and law.degree("T") == 3 and law.degree("S") == 0


def test_a_missing_size_is_named() -> None:
    with pytest.raises(InputError, match="needs a size for B"):
        (B * T)(T=3)
    with pytest.raises(InputError, match="not a whole number"):
        int(as_poly(Fraction(1, 2)))
    with pytest.raises(InputError, match="no growth exponent"):
        as_poly(0).exponent("T", T=3)


def test_most_decides_late() -> None:
    largest = Most([100 * T]) | Most([T**2])
    assert (
        largest(T=10) == 1000 and largest(T=1000) == 1_000_000 and largest.at(T=2) == Most([as_poly(200), as_poly(4)])
    )


def test_a_plan_is_the_sum_of_its_parts() -> None:
    leaf = Plan("leaf", Cost(params=as_poly(3), forward=2 * B * T, saved=4 * B))
    tree = Plan("tree", Cost(params=as_poly(1)), (leaf, Plan("twin", leaf.own, shape=(B, T, 7))))
    assert tree.total.params == 7 and tree.total.forward == 4 * B * T
    assert [path for path, _ in tree.walk()] == ["tree", "tree.leaf", "tree.twin"]
    assert tree.at(B=2, T=3).total.forward == 24 and tree.at(B=2, T=3).parts[1].shape == (2, 3, 7)
