"""Crossovers, largest fits and amounts of memory, against search by hand; the advice on Taylor degrees."""

from math import comb, exp, factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threefold.errors import InputError
from threefold.plan.conventions import Conventions, Dtype, Optimiser
from threefold.plan.memory import inference, memory_law, training
from threefold.plan.solve import FURTHEST, crossover, in_units, largest, size_in_bytes
from threefold.plan.taylor import Degree, advice, largest_key
from threefold.specs.base import MixerSpec
from threefold.specs.words import read


@given(st.integers(1, 50), st.integers(1, 10**6), st.integers(0, 10**9))
def test_the_largest_that_fits(slope: int, start: int, budget: int) -> None:
    size = largest(lambda t: start + slope * t * t, budget)
    assert size == 0 or start + slope * size**2 <= budget
    assert start + slope * (size + 1) ** 2 > budget


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_the_crossover(linear: int, square: int) -> None:
    found = crossover(lambda t: linear * t, lambda t: square * t * t)
    by_hand = linear // square + 1  # from here on the square is larger
    assert found == ((by_hand, -1) if by_hand > 1 else None)


def test_no_crossover() -> None:
    assert crossover(lambda t: t, lambda t: 2 * t) is None
    assert crossover(lambda t: t, lambda t: t) is None
    assert largest(lambda t: 1, 5) == FURTHEST


def test_amounts() -> None:
    assert size_in_bytes("24GiB") == 24 * 2**30 and size_in_bytes("800 MB") == 8 * 10**8
    assert size_in_bytes("1.5gib") == 3 * 2**29 and size_in_bytes("12") == 12
    for wrong in ("24GBB", "much", "-3GiB", ""):
        with pytest.raises(InputError, match="no amount of memory"):
            size_in_bytes(wrong)
    assert in_units(3 * 2**29) == "1.50 GiB" and in_units(12) == "12 B"


@pytest.mark.parametrize(("optimiser", "numbers"), [("adamw", 2), ("momentum", 1), ("sgd", 0)])
def test_training_memory_by_purpose(optimiser: str, numbers: int) -> None:
    cost = read("lstm", MixerSpec).plan(8).total
    kept = training(cost, Conventions(optimiser=Optimiser(optimiser)))
    sizes, params = {"B": 2, "T": 5}, int(cost.params())
    whole = params * 4 * (2 + numbers) + int(cost.saved.placed(sizes)) + int(cost.temporary.placed(sizes)())
    assert kept(sizes) == whole == memory_law(kept, {"B": 2}, "T")(5)
    assert inference(cost, Conventions())(sizes) == params * 4 + 2 * 2 * 8 * 4 + int(cost.temporary.placed(sizes)())


def test_half_precision_keeps_a_copy_and_wide_moments() -> None:
    chosen = Conventions(dtype=Dtype.BFLOAT16)
    cost = read("softmax", MixerSpec).plan(16, None, chosen).total
    parts = training(cost, chosen).parts
    params = int(cost.params())
    assert [int(parts[name]) for name in list(parts)[:4]] == [2 * params, 2 * params, 4 * params, 8 * params]


@pytest.mark.parametrize(
    ("reach", "error"), [(0.1, 1.8e-4), (0.25, 3.1e-3), (0.5, 3.0e-2), (1, 0.359), (2, 6.39), (3, 49.2)]
)
def test_the_error_of_degree_two(reach: float, error: float) -> None:
    assert Degree(2, 64, reach).error == pytest.approx(error, rel=0.02)


@given(st.integers(0, 12), st.floats(0.01, 6))
def test_the_error_is_the_largest_and_below_its_bound(degree: int, reach: float) -> None:
    each = Degree(degree, 4, reach)

    def at(t: float) -> float:
        return abs(sum(t**n / factorial(n) for n in range(degree + 1)) * exp(-t) - 1)

    grid = [at(reach * n / 50) for n in range(-50, 51)]
    assert max(grid) <= each.error * (1 + 1e-6) + 1e-9 and each.error <= each.bound * (1 + 1e-9)
    assert each.error <= max(grid) * (1 + 1e-6) + 2e-9


@pytest.mark.parametrize(("key", "exact"), [(16, 157.8), (32, 569.8), (64, 2161.8), (100, 5176.8), (200, 20351.8)])
def test_where_degree_two_pays(key: int, exact: float) -> None:
    each = Degree(2, key, 0.5)
    assert each.features == comb(key + 2, 2)
    assert each.pays_from == int(exact) + 1 and largest_key(2, each.pays_from) == key
    t = each.pays_from
    cost = [4 * n * each.features * key + 2 * n * each.features for n in (t - 1, t)]
    assert cost[0] >= 4 * (t - 1) ** 2 * key and cost[1] < 4 * t**2 * key


def test_advice() -> None:
    good = advice(16, 0.5, 0.05)
    assert good and good.degree == 2 and good.positive and good.variation <= 0.05
    assert Degree(0, 16, 0.5).variation > 0.05
    far = advice(64, 4.8, 0.05)
    assert far and far.degree == 18 and far.pays_from > 10**15
    assert not Degree(3, 16, 0.5).positive
    assert Degree(2, 64, 0.5).smaller_from(4) == 1090
    for key, reach, tolerance in ((0, 1, 0.1), (4, -1, 0.1), (4, 50, 0.1), (4, 1, 2), (4, float("nan"), 0.1)):
        with pytest.raises(InputError):
            advice(key, reach, tolerance)
