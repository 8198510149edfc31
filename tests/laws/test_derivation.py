"""Every mistake of the source documents is named, with its cause, and nothing that is right is called wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.laws.handed_in import of_cell
from threefold.claims.lstm.mutations import MUTATIONS
from threefold.errors import InputError
from threefold.laws.derivation import Grade, Mark, Report, grade, names_of
from threefold.laws.equations import CELLS, Problem, Sizes, forward_loss, gradients
from threefold.laws.target import load
from threefold.laws.template import template
from threefold.ops.gru import ResetAfter, ResetBefore
from threefold.ops.lstm import LSTMCell
from threefold.ops.rnn import TanhCell

REPOSITORY = Path(__file__).parents[2]
OWN = {"rnn": TanhCell(), "lstm": LSTMCell(), "gru-before": ResetBefore(), "gru-after": ResetAfter()}
LIKE = sorted(OWN)


def wrong(report: Report) -> dict[str, Grade]:
    return {g.name: g for g in report.grades if g.mark in (Mark.WRONG, Mark.SHAPE)}


def marked(report: Report, mark: Mark) -> set[str]:
    return {g.name for g in report.grades if g.mark is mark}


def changed(**made: Callable[..., Any]) -> Report:
    """The LSTM's grade when these signals are made another way."""

    def change(d: Any, s: Any) -> Any:
        return d | {name: f(d, s) for name, f in made.items()}

    return grade(of_cell("lstm", LSTMCell(), change), "lstm")


@pytest.mark.parametrize("like", LIKE)
def test_the_librarys_own_derivation_is_right_in_every_signal(like: str) -> None:
    report = grade(of_cell(like, OWN[like]), like)
    assert report.right
    assert marked(report, Mark.RIGHT) == set(names_of(CELLS[like]))


@pytest.mark.parametrize("like", LIKE)
def test_the_truth_is_that_of_central_differences(like: str) -> None:
    p = Problem.drawn(CELLS[like], Sizes(T=3, m=2))
    truth, step = gradients(p), 1e-6
    for name, leaf in p.leaves.items():
        where = tuple(size // 2 for size in leaf.shape)
        sides = []
        for sign in (1, -1):
            leaf[where] += sign * step
            sides.append(forward_loss(p))
            leaf[where] -= sign * step
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(float(truth[f"d{name}"][where]), rel=1e-6, abs=1e-9)


def test_the_candidates_slope_is_named_and_the_rest_follows() -> None:
    report = grade(of_cell("lstm", MUTATIONS["dp with 1 - p"]), "lstm")
    assert set(wrong(report)) == {"dp"}
    assert wrong(report)["dp"].remark == "(1 - p) stands where (1 - c_tilde^2) belongs"
    assert {"dz", "da_out", "dW_y", "db_y"} <= marked(report, Mark.RIGHT)
    assert {"dW_c", "db_c", "dW_o", "dW_u", "dW_f", "dx", "da0"} <= marked(report, Mark.FOLLOWS)
    assert "dp" in next(g.remark for g in report.grades if g.name == "dW_c")


def test_the_candidate_in_the_forget_gate_is_named_where_it_enters() -> None:
    report = grade(of_cell("lstm", MUTATIONS["c~ for c_prev in dgamma_f"]), "lstm")
    assert set(wrong(report)) == {"dGamma_f"}
    assert wrong(report)["dGamma_f"].remark == "these are the numbers of dGamma_u"
    whole = load(f"{REPOSITORY}/examples/my_lstm.py:backward")
    alone = wrong(grade(whole, "lstm"))
    assert set(alone) == {"dgamma_f"}
    assert alone["dgamma_f"].remark == "c_tilde stands where c_prev belongs"
    least = alone["dgamma_f"].smallest
    assert least is not None and (least.sizes.T, least.sizes.m, least.sizes.n) == (1, 1, 1)
    there = dict(least.around)
    slope = there["Gamma_f"] * (1 - there["Gamma_f"])
    assert least.got == pytest.approx(there["dc"] * there["c_tilde"] * slope, rel=1e-9)
    assert least.expected == pytest.approx(there["dc"] * there["c_prev"] * slope, rel=1e-9)


def test_a_factor_too_many_in_a_bias() -> None:
    report = changed(db_u=lambda d, s: (d["dgamma_u"] * s.Gamma_u * (1 - s.Gamma_u)).sum((0, 2)))
    assert set(wrong(report)) == {"db_u"} and not marked(report, Mark.FOLLOWS)
    assert wrong(report)["db_u"].remark == "there is a factor Gamma_u (1 - Gamma_u) too many"


@pytest.mark.parametrize(("t", "said"), [(-1, "last"), (0, "first")])
def test_a_sum_over_time_left_out(t: int, said: str) -> None:
    report = changed(
        dW_u=lambda d, s: d["dgamma_u"][t] @ torch.cat((s.a_prev[t], s.x[t])).T, db_y=lambda d, s: d["dz"][t].sum(1)
    )
    assert set(wrong(report)) == {"dW_u", "db_y"} and not marked(report, Mark.FOLLOWS)
    assert {g.remark for g in wrong(report).values()} == {f"it holds the {said} step only: sum over t"}
    least = wrong(report)["dW_u"].smallest
    assert least is not None and least.sizes.T == 2, "one step hides a missing sum"


def test_wrong_shapes_are_told_with_what_would_mend_them() -> None:
    report = changed(
        db_y=lambda d, s: d["dW_y"],
        dW_c=lambda d, s: d["dp"][-1],
        dW_o=lambda d, s: d["dW_o"].T,
        db_o=lambda d, s: d["dgamma_o"].sum(0),
    )
    found = wrong(report)
    assert set(found) == {"db_y", "dW_c", "dW_o", "db_o"}
    assert all(g.mark is Mark.SHAPE for g in found.values())
    assert found["db_y"].remark == "got (2, 5), needed (2, 1): these are the numbers of dW_y"
    assert found["dW_c"].remark == "got (5, 4), needed (5, 8): these are the numbers of dp at one step"
    assert found["dW_o"].remark.endswith("transpose it")
    assert found["db_o"].remark.endswith("sum it over axis 1")


def test_a_product_that_does_not_conform_is_judged_where_it_does() -> None:
    report = changed(da_out=lambda d, s: torch.stack([(dz.T @ s.W_y.T).T for dz in d["dz"]]))
    assert "cannot be multiplied" in report.raised and "dz.T @ s.W_y.T" in report.raised
    assert set(wrong(report)) == {"da_out"}
    assert not report.right
    assert report.sizes.n == report.sizes.n_y


def test_what_the_next_step_sends_back_left_out() -> None:
    report = changed(da=lambda d, s: d["da_out"])
    assert set(wrong(report)) == {"da"}
    assert wrong(report)["da"].remark == "these are the numbers of da_out"
    report = changed(dc=lambda d, s: d["da"] * s.Gamma_o * (1 - torch.tanh(s.c) ** 2))
    assert wrong(report)["dc"].remark.startswith("it is right at t = T only")


def test_constant_factors_and_signs() -> None:
    report = changed(dW_f=lambda d, s: d["dW_f"] / 4, dx=lambda d, s: -d["dx"], da0=lambda d, s: d["da0"] * np.nan)
    remarks = {name: g.remark for name, g in wrong(report).items()}
    assert remarks == {
        "dW_f": "it is 0.25 times what it should be",
        "dx": "its sign is flipped",
        "da0": "it is not finite",
    }


def test_what_is_missing_counts_only_where_it_is_owed() -> None:
    steps = {"dc_tilde", "dGamma_o", "dGamma_u", "dGamma_f", "da_out"}
    fewer = grade(of_cell("lstm", LSTMCell(), lambda d, s: {k: v for k, v in d.items() if k not in steps}), "lstm")
    assert fewer.right and marked(fewer, Mark.MISSING) == steps
    without = grade(of_cell("lstm", LSTMCell(), lambda d, s: {k: v for k, v in d.items() if k != "db_c"}), "lstm")
    assert not without.right and marked(without, Mark.MISSING) == {"db_c"}


@pytest.mark.parametrize("like", LIKE)
def test_the_template_runs_and_is_right_so_far(like: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(template(like), encoding="utf-8")
    report = grade(load(f"{path}:backward"), like)
    said = CELLS[like].parts[0]
    assert marked(report, Mark.RIGHT) == {"dz", f"d{said}_out"}
    assert not wrong(report) and not report.right
    for name in names_of(CELLS[like]):
        assert f" {name} " in template(like)


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(InputError, match="did you mean 'Gamma_f'"):
        grade(lambda s: {"dz": s.Gama_f}, "lstm")
    with pytest.raises(InputError, match="return a dict"):
        grade(lambda s: s.y_hat, "lstm")
    with pytest.raises(InputError, match="dz is not a tensor of numbers"):
        grade(lambda s: {"dz": "large"}, "lstm")
    with pytest.raises(InputError, match="gru-before"):
        grade(lambda s: {}, "gru")
    assert grade(lambda s: {"dZ": s.y}, "rnn").unknown == ("dZ",)


def test_the_authors_function_cannot_change_the_truth() -> None:
    def spoiling(s: dict) -> dict:
        d = of_cell("rnn", TanhCell())(s)
        s["y_hat"] *= 0
        s["W_p"] *= 0
        return d

    assert grade(spoiling, "rnn").right
