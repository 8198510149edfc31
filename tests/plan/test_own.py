"""The law behind a module's counts: exact, held against sizes that it never saw, and honest where there is none."""

from collections.abc import Mapping

import pytest

from tests.plan import own_modules as mine
from threefold.cost import B, S, T, chunks
from threefold.errors import InputError
from threefold.plan.conventions import Conventions, Scores
from threefold.plan.interpolate import laws
from threefold.plan.memory import training
from threefold.plan.own import Found, Input, Own, built, planned


def law(thing, *inputs: str, sizes: Mapping[str, int], scores: Scores = Scores.FUSED) -> Found:
    given = tuple(map(Input.parse, inputs))
    module = built(thing, {}, given)
    name = getattr(thing, "__name__", "it")
    return planned(Own(name, module, given, Conventions(scores=scores)), sizes)


@pytest.mark.parametrize(
    "truth",
    [7 + 3 * B * T + 2 * B * T**2, B * T * S + T**2 / 2 + T / 2, T**4, 5 * B],
    ids=repr,
)
def test_polynomials_come_back(truth) -> None:
    found = laws(lambda sizes: {"cost": int(truth.placed(sizes)())}, ("B", "T", "S"))
    assert found.of["cost"] == truth and found.every == 1 and len(found.verified) == 3


def test_work_in_chunks_is_a_law_at_their_multiples() -> None:
    found = laws(lambda sizes: {"cost": int((10 * chunks("T", 16)).placed(sizes)())}, ("T",))
    assert found.of["cost"] == 10 * T / 16 and found.every == 16
    small = laws(lambda sizes: {"cost": int((10 * chunks("T", 4)).placed(sizes)())}, ("T",))
    assert small.of["cost"] == 10 * T / 4 and small.every == 4  # between the multiples it does not hold


def test_what_is_no_polynomial_is_said() -> None:
    found = laws(lambda sizes: {"power": 2 ** sizes["T"], "line": sizes["T"]}, ("T",))
    assert found.missing == ("power",) and found.of["line"] == T


def test_a_law_that_breaks_later_is_not_believed() -> None:
    found = laws(lambda sizes: {"cost": sizes["T"] ** 2 if sizes["T"] < 30 else 0}, ("T",))
    assert "cost" not in found.of or found.of["cost"] == 0


def test_a_tagger_of_two_inputs() -> None:
    found = law(mine.Tagger, "B,T:int", "B,T:data", sizes={"B": 3, "T": 40})
    total = found.plan.total
    first, second = (2 * 4 * 16 * (16 + 8 + 8 * 8 // 64 * 0) for _ in range(2))
    gates = (
        2 * 2 * (4 * 16 * (16 + 8) + 16 * 8)
    )  # two directions: gates of input and projected state, and the projection
    assert first == second
    assert total.forward == (2 * gates + 2 * 16 * 50) * B * T
    assert not found.unknown and not found.lost
    assert total.params == 50 * 16 + 2 * 2 * (4 * 16 * (16 + 8) + 16 * 8 + 2 * 4 * 16)


def test_two_lengths() -> None:
    found = law(mine.Reader, "B,T,8", "B,S,8", sizes={"B": 2, "T": 30, "S": 50})
    assert found.plan.total.forward == 2 * (2 * 64 * B * T + 2 * 64 * B * S + 2 * 8 * B * T * S)
    assert found.laws.every == 1


def test_the_backend_changes_what_is_saved() -> None:
    fused = law(mine.Reader, "B,T,8", "B,S,8", sizes={"B": 2, "T": 30, "S": 50})
    stored = law(mine.Reader, "B,T,8", "B,S,8", sizes={"B": 2, "T": 30, "S": 50}, scores=Scores.MATERIALISED)
    assert stored.plan.total.forward == fused.plan.total.forward
    assert fused.plan.total.saved.coefficient("T", 1).degree("S") == 0
    assert stored.plan.total.saved.coefficient("T", 1).coefficient("S", 1) == 2 * 4 * B


def test_blocks_hold_at_multiples() -> None:
    found = law(mine.Blocks, "B,T,8", sizes={"B": 2, "T": 64})
    assert found.laws.every == 16
    assert found.plan.total.forward == 2 * (2 * 16 * 8 + 8 * 8) * B * T
    ragged = law(mine.Blocks, "B,T,8", sizes={"B": 2, "T": 65})
    assert "forward" in ragged.lost and ragged.plan.total.forward == 2 * (2 * 16 * 8 + 8 * 8) * 2 * 80


def test_one_block_is_not_taken_for_the_law() -> None:
    found = law(mine.Wide, "B,T,8", sizes={"B": 2, "T": 1000})
    assert found.laws.every == 64 and "forward" in found.lost
    found = law(mine.Wide, "B,T,8", sizes={"B": 2, "T": 1024})
    assert found.plan.total.forward == 2 * (2 * 64 * 8 + 8 * 8) * B * T and not found.lost


def test_recomputation_is_counted_in_the_backward_pass() -> None:
    found = law(mine.Twice, "B,T,8", sizes={"B": 2, "T": 9})
    assert found.plan.total.forward == 2 * 64 * B * T
    assert found.plan.total.backward == 3 * found.plan.total.forward
    assert found.plan.total.saved == 4 * 8 * B * T


def test_frozen_weights_have_neither_gradients_nor_moments() -> None:
    total = law(mine.Adapted, "B,T,8", sizes={"B": 2, "T": 9}).plan.total
    assert (total.params, total.frozen) == (64 + 18, 64)
    parts = training(total, Conventions()).parts
    assert parts["weights"] == 4 * 82 and parts["gradients"] == 4 * 18
    assert [poly for name, poly in parts.items() if name.startswith("adamw")] == [2 * 4 * 18]


def test_a_function() -> None:
    found = law(mine.scores, "B,T,8", "B,S,8", sizes={"B": 2, "T": 9, "S": 3})
    assert found.plan.total.forward == 2 * 8 * B * T * S and found.plan.total.params == 0


def test_the_old_recomputation() -> None:
    found = law(mine.Again, "B,T,8", sizes={"B": 2, "T": 9})
    assert found.plan.total.backward == 3 * found.plan.total.forward == 6 * 64 * B * T


def test_an_unknown_op_is_named() -> None:
    assert "linalg_inv_ex" in law(mine.Odd, "B,T,8", sizes={"B": 2, "T": 9}).unknown


def test_wrong_inputs_get_one_sentence() -> None:
    with pytest.raises(InputError, match=r"cannot be run on --input B,T,9:float .*give what its forward takes"):
        law(mine.Twice, "B,T,9", sizes={"B": 2, "T": 9})
    for wrong in ("b,T", "B,T:text", "B,,T", "B,0"):
        with pytest.raises(InputError, match="write axes"):
            Input.parse(wrong)
