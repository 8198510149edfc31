"""Weight and bias gradients: what is summed over time and batch, and which shapes cannot be right."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from threefold.claims.attend import error
from threefold.claims.claim import Claim, Evidence, Outcome, above, at_most, claim, equals
from threefold.claims.lstm.problem import Named, cases, closed, derived, differences, problem

EQUAL = at_most(1e-12)
SIGNAL = {"u": "dgamma_u", "f": "dgamma_f", "c": "dp", "o": "dgamma_o", "y": "dz"}


def last_step(signals: Named, g: str) -> Tensor:
    """The printed product, for one step: dgamma_g [a; x]^T, or dz a^T; the batch is summed by the product."""
    into = signals["a"] if g == "y" else signals["v"]
    return signals[SIGNAL[g]][-1].T @ into[-1]


def all_steps(signals: Named, g: str) -> Tensor:
    """The same, summed over t."""
    into = signals["a"] if g == "y" else signals["v"]
    return torch.einsum("tbg,tbv->gv", signals[SIGNAL[g]], into)


def no_sum(id: str, says: str, gates: str) -> Claim:
    """A weight gradient printed without its sum over t: right for one step only."""

    def collect(e: Evidence) -> None:
        for T, add in ((1, e.when), (6, e.otherwise)):
            p = problem(T)
            signals, truth = closed(p)[1], derived(p)[0]
            for g in gates:
                add(
                    f"T = {T}: relative error of dW_{g} without Σ_t",
                    error(last_step(signals, g), truth[f"W_{g}"]),
                    EQUAL,
                )
                e.truth(
                    f"T = {T}: relative error of dW_{g} with Σ_t", error(all_steps(signals, g), truth[f"W_{g}"]), EQUAL
                )
        library = max(off for name, off in differences(problem()).items() if name[0] == "W")
        e.truth("T = 6: worst relative error of the library's weight gradients", library, EQUAL)
        e.counter_example(
            "T = 2: the step t = 1 contributes a product of its own, and the printed line has one product."
        )

    return claim(id, says, "Σ_t of the same product", recorded=Outcome.CONDITIONAL, subject="lstm")(collect)


SUMS = (
    no_sum("000-1.4-dWy", "`∂L/∂W_y = (ŷ−y) a^T` (and equal to `∂L^t/∂W_y`)", "y"),
    no_sum("000-1.4-dWu", "`∂L/∂W_u = dγ_u [a;x]^T`", "u"),
    no_sum("000-1.4-dWf", "`∂L/∂W_f = dγ_f [a;x]^T`", "f"),
    no_sum("003-1.3-dW", "`dW_g = dγ_g [a;x]^T`, `dW_y = dz a^T`", "ufcoy"),
)


def wrong_shape(id: str, says: str, corrected: str, name: str, as_printed: Callable[[Named], Tensor]) -> Claim:
    """A gradient printed with a shape that its parameter lacks, read kindly: one row, one step."""

    def collect(e: Evidence) -> None:
        p = problem(1, 1)
        need, got = tuple(p.leaves[name].reshape(len(p.leaves[name]), -1).shape), tuple(as_printed(closed(p)[1]).shape)
        e.said(
            f"shape, n_y = 4, n_a = 5, n_x = 3 ({name} is {need[0]}×{need[1]})",
            "×".join(map(str, got)),
            equals("×".join(map(str, need))),
        )
        e.truth(f"relative error of the corrected d{name}, T = 6", differences(problem())[name], EQUAL)

    return claim(id, says, corrected, recorded=Outcome.FALSE, subject="lstm")(collect)


SHAPES = (
    wrong_shape("000-1.4-dby", "`∂L/∂b_y = (ŷ−y) a^T`", "Σ_t Σ_batch (ŷ−y)", "b_y", lambda s: s["dz"][0].T @ s["a"][0]),
    wrong_shape("000-1.4-dWc", "`∂L/∂W_c = dp̃_c`", "Σ_t `dp̃_c [a;x]^T`", "W_c", lambda s: s["dp"][0].T),
)


def one_step(id: str, says: str, corrected: str, g: str) -> Claim:
    """A bias gradient printed without sums: right for one step of one row only."""

    def collect(e: Evidence) -> None:
        for T, m, add in ((1, 1, e.when), (6, 1, e.otherwise), (1, 4, e.otherwise)):
            p = problem(T, m)
            signal, truth = closed(p)[1][SIGNAL[g]], derived(p)[0][f"b_{g}"]
            add(f"T = {T}, {m} rows: relative error of the last row alone", error(signal[-1, -1], truth), EQUAL)
            e.truth(f"T = {T}, {m} rows: relative error with both sums", error(signal.sum((0, 1)), truth), EQUAL)
        e.truth("T = 6: relative error of the library", differences(problem())[f"b_{g}"], EQUAL)

    return claim(id, says, corrected, recorded=Outcome.CONDITIONAL, subject="lstm")(collect)


BIASES = (
    one_step("000-1.4-dbc", "`∂L/∂b_c = dp̃_c`", "Σ_t Σ_batch dp̃_c (given a right dp̃_c)", "c"),
    one_step("000-1.4-dbf", "`∂L/∂b_f = dγ_f * ∂γ_f/∂γ_f`", "Σ_t Σ_batch dγ_f; the printed factor is 1", "f"),
)


@claim(
    "000-1.4-dbu",
    "`∂L/∂b_u = dγ_u * ∂Γ_u/∂γ_u`",
    "Σ_t Σ_batch dγ_u: dγ_u holds that factor already",
    recorded=Outcome.FALSE,
)
def factor_twice(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[0]["b_u"]
    slope = s["Gamma_u"] * (1 - s["Gamma_u"])
    e.said("relative error as printed, both sums granted", error((s["dgamma_u"] * slope).sum((0, 1)), truth), EQUAL)
    e.truth("relative error without the second factor", error(s["dgamma_u"].sum((0, 1)), truth), EQUAL)
    e.counter_example("γ_u = 0: the slope 1/4 would be counted twice, 1/16.")


def filled(id: str, says: str, corrected: str, names: tuple[str, ...]) -> Claim:
    """A place left empty: what belongs there, as the library computes it."""

    def collect(e: Evidence) -> None:
        for case, p in cases().items():
            off = differences(p)
            e.truth(
                f"{case}: worst relative error of {', '.join('d' + n for n in names)}",
                max(off[n] for n in names),
                EQUAL,
            )

    return claim(id, says, corrected, recorded=Outcome.BLANK, subject="lstm")(collect)


BLANKS = (
    filled("000-1.4-dWo", "the line repeats itself and is cut off", "Σ_t `dγ_o [a_{t−1};x_t]^T`", ("W_o",)),
    filled("000-1.4-dbo", "absent", "Σ_t Σ_batch dγ_o", ("b_o",)),
    filled(
        "000-1.4-miss",
        "da_prev, dc_prev, dx, the conditions at t = T and the sums are absent",
        "`[da_prev; dx] = Σ_g W_g^T dγ_g`, `dc_prev = dc * Γ_f`, `da_next = dc_next = 0` at t = T",
        ("x", "a0", "c0"),
    ),
)


@claim(
    "003-1.3-db",
    "`∂L/∂W_c = Σ dp̃_c`; db_u, db_f, db_o, db_y = Σ(…), the index of Σ not given",
    "the first line is db_c; Σ runs over t and over the batch",
    recorded=Outcome.FALSE,
)
def labelled_wrong(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[0]
    e.said("entries of Σ dp̃_c against those of W_c", s["dp"].sum((0, 1)).numel(), equals(truth["W_c"].numel()))
    for g in "cufoy":
        e.truth(
            f"Σ over t and batch: relative error of db_{g}", error(s[SIGNAL[g]].sum((0, 1)), truth[f"b_{g}"]), EQUAL
        )
        e.truth(
            f"Σ over the batch only: relative error of db_{g}",
            error(s[SIGNAL[g]][-1].sum(0), truth[f"b_{g}"]),
            above(1e-2),
        )
    e.counter_example("Σ dp̃_c has n_a entries, W_c has n_a (n_a + n_x).")
