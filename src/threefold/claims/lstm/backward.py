"""Each printed derivative of the LSTM, as printed, on the library's own signals, against autograd at every step."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from threefold.claims.attend import error
from threefold.claims.claim import Claim, Evidence, Outcome, above, at_most, claim, equals
from threefold.claims.lstm.problem import Named, Problem, cases, closed, derived, problem

Formula = Callable[[Named, Problem], Tensor]
EQUAL = at_most(1e-12)


def formula(
    id: str, says: str, target: str, as_printed: Formula, corrected: str = "", recorded: Outcome = Outcome.TRUE
) -> Claim:
    """A claim that `as_printed` is the signal `target`; the library's own signal stands for the corrected statement."""

    def collect(e: Evidence) -> None:
        for name, p in cases().items():
            signals, truth = closed(p)[1], derived(p)[1]
            e.said(f"{name}: relative error as printed", error(as_printed(signals, p), truth[target]), EQUAL)
            if target in signals:
                e.truth(f"{name}: relative error of the library", error(signals[target], truth[target]), EQUAL)

    return claim(id, says, corrected, recorded=recorded, subject="lstm")(collect)


def _sech(x: Tensor) -> Tensor:
    return 1 - x.tanh() ** 2


def _slope(s: Named, g: str) -> Tensor:
    return s[f"Gamma_{g}"] * (1 - s[f"Gamma_{g}"])


DA = "`da = ∂L^t/∂a + da_next`"
FORMULAS_000 = (
    formula(
        "000-1.4-dLda",
        DA,
        "da",
        lambda s, p: s["dz"] @ p.W_y + s["da_next"],
        "da_next = 0 at t = T, which is not stated",
    ),
    formula("000-1.4-dGo", "`∂L/∂Γ_o = da * tanh c`", "dGamma_o", lambda s, p: s["da"] * s["c"].tanh()),
    formula("000-1.4-dgo", "`dγ_o = dΓ_o * Γ_o * (1−Γ_o)`", "dgamma_o", lambda s, p: s["dGamma_o"] * _slope(s, "o")),
    formula(
        "000-1.4-dc",
        "`dc = da * Γ_o * (1 − tanh²c) + dc_next`",
        "dc",
        lambda s, p: s["da"] * s["Gamma_o"] * _sech(s["c"]) + s["dc_next"],
        "da is the total ∂L/∂a, da_next included; dc_next = 0 at t = T",
    ),
    formula("000-1.4-dct", "`dc̃ = dc * Γ_u`", "dc_tilde", lambda s, p: s["dc"] * s["Gamma_u"]),
    formula("000-1.4-dGu", "`dΓ_u = dc * c̃`", "dGamma_u", lambda s, p: s["dc"] * s["c_tilde"]),
    formula("000-1.4-dgu", "`dγ_u = dΓ_u * Γ_u * (1−Γ_u)`", "dgamma_u", lambda s, p: s["dGamma_u"] * _slope(s, "u")),
    formula("000-1.4-dGf", "`dΓ_f = dc * c^{t−1}`", "dGamma_f", lambda s, p: s["dc"] * s["c_prev"]),
    formula("000-1.4-dgf", "`dγ_f = dΓ_f * Γ_f * (1−Γ_f)`", "dgamma_f", lambda s, p: s["dGamma_f"] * _slope(s, "f")),
)

FORMULAS_003 = (
    formula(
        "003-1.3-da",
        "`da = W_y^T (ŷ−y) + da_next`",
        "da",
        lambda s, p: s["dz"] @ p.W_y + s["da_next"],
        "da_next = 0 at t = T",
    ),
    formula(
        "003-1.3-dc",
        "`dc = dc_next + da * Γ_o * (1 − tanh²c)`",
        "dc",
        lambda s, p: s["dc_next"] + s["da"] * s["Gamma_o"] * _sech(s["c"]),
    ),
    formula("003-1.3-dct", "`dc̃ = dc * Γ_u`", "dc_tilde", lambda s, p: s["dc"] * s["Gamma_u"]),
    formula("003-1.3-dpc", "`dp̃_c = dc̃ * (1 − c̃²)`", "dp", lambda s, p: s["dc_tilde"] * (1 - s["c_tilde"] ** 2)),
    formula(
        "003-1.3-dgu", "`dγ_u = dc * c̃ * Γ_u(1−Γ_u)`", "dgamma_u", lambda s, p: s["dc"] * s["c_tilde"] * _slope(s, "u")
    ),
    formula(
        "003-1.3-dgo",
        "`dγ_o = da * tanh c * Γ_o(1−Γ_o)`",
        "dgamma_o",
        lambda s, p: s["da"] * s["c"].tanh() * _slope(s, "o"),
    ),
)


def contamination(e: Evidence, cell: str, clean: tuple[str, ...], spoiled: tuple[str, ...]) -> None:
    """Run a whole backward with one of the named mistakes in it: which gradients does it spoil?"""
    from threefold.claims.lstm.mutations import MUTATIONS
    from threefold.claims.lstm.problem import differences

    off = differences(problem(), MUTATIONS[cell])
    for name in spoiled:
        e.truth(f"with the mistake, error of d{name}", off[name], above(1e-2))
    for name in clean:
        e.truth(f"with the mistake, error of d{name}", off[name], EQUAL)


@claim(
    "000-1.4-dpc",
    "`dp̃_c = dc̃ * (1 − p̃_c)`",
    "`dc̃ * (1 − c̃²) = dc̃ * (1 − tanh²p̃_c)`",
    recorded=Outcome.FALSE,
)
def candidate_not_squared(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[1]["dp"]
    e.said("relative error as printed", error(s["dc_tilde"] * (1 - s["p"]), truth), EQUAL)
    e.truth("relative error of dc̃ (1 − c̃²)", error(s["dc_tilde"] * (1 - s["c_tilde"] ** 2), truth), EQUAL)
    e.truth("relative error of the library's dp", error(s["dp"], truth), EQUAL)
    contamination(e, "dp with 1 - p", ("W_y", "b_y"), ("W_c", "b_c", "W_u", "W_f", "W_o", "x", "a0"))
    e.counter_example("p̃_c = 1: the slope of tanh is 1 − tanh²1 = 0.42; 1 − p̃_c is 0. They meet at p̃_c = 0 only.")


@claim(
    "003-1.3-dgf",
    "`dγ_f = dc * c̃ * Γ_f(1−Γ_f)`",
    "`dc * c_{t−1} * Γ_f(1−Γ_f)`",
    recorded=Outcome.FALSE,
)
def candidate_in_forget(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[1]["dgamma_f"]
    e.said("relative error as printed", error(s["dc"] * s["c_tilde"] * _slope(s, "f"), truth), EQUAL)
    e.truth("relative error with c_{t−1}", error(s["dc"] * s["c_prev"] * _slope(s, "f"), truth), EQUAL)
    e.truth("relative error of the library's dγ_f", error(s["dgamma_f"], truth), EQUAL)
    contamination(e, "c~ for c_prev in dgamma_f", ("W_y", "b_y"), ("W_f", "b_f", "W_u", "W_c", "W_o", "x", "a0"))
    e.counter_example(
        "T = 1, c_0 = 0: the forget gate multiplies 0, so dγ_f = 0; the printed formula gives dc * c̃ * Γ_f(1−Γ_f)."
    )


@claim(
    "000-1.4-dLda-loc",
    "`∂L^t/∂a^t = (ŷ−y)^T W_y^T`",
    "`W_y^T (ŷ−y)` for columns, `(ŷ−y)^T W_y` for rows",
    recorded=Outcome.FALSE,
)
def output_gradient(e: Evidence) -> None:
    p = problem(1, 1)
    s, truth = closed(p)[1], derived(p)[1]["da"]
    e.said("inner sizes of (1 × n_y)(n_a × n_y) differ by", abs(p.W_y.shape[0] - p.W_y.T.shape[0]), equals(0))
    e.truth("(ŷ−y)^T W_y: relative error", error(s["dz"] @ p.W_y, truth), EQUAL)
    square = problem(1, 1, n_y=4, n_a=4)
    s, truth = closed(square)[1], derived(square)[1]["da"]
    e.said("n_y = n_a = 4, where it conforms: relative error", error(s["dz"] @ square.W_y.T, truth), EQUAL)
    e.counter_example("n_y = 4, n_a = 5: (1 × 4)·(5 × 4) cannot be multiplied.")


@claim("003-1.3-dcprev", "`dc_prev = dc * Γ_f`", recorded=Outcome.TRUE)
def cell_carry(e: Evidence) -> None:
    for name, p in cases().items():
        s, truth = closed(p)[1], derived(p)[0]["c0"]
        e.said(f"{name}: relative error at c_0", error((s["dc"] * s["Gamma_f"])[0], truth), EQUAL)


@claim(
    "003-1.3-daprev",
    "`da_prev = Σ_g W_ga^T dγ_g`, g = c, u, f, o",
    "the recurrent part only: step t−1 adds its own `W_y^T(ŷ−y)`, as the document does through da_next",
    recorded=Outcome.TRUE,
)
def state_carry(e: Evidence) -> None:
    for name, p in cases().items():
        s, truth = closed(p)[1], derived(p)[0]["a0"]
        e.said(f"{name}: relative error at a_0", error(_through(s, p, recurrent=True)[0], truth), EQUAL)


@claim("003-1.3-dx", "`dx = Σ_g W_gx^T dγ_g`", recorded=Outcome.TRUE)
def input_gradient(e: Evidence) -> None:
    for name, p in cases().items():
        s, truth = closed(p)[1], derived(p)[0]["x"]
        e.said(f"{name}: relative error", error(_through(s, p, recurrent=False), truth), EQUAL)


def _through(s: Named, p: Problem, *, recurrent: bool) -> Tensor:
    """Sum over gates of dgamma_g W_g, on the columns of a or of x."""
    n = p.a0.shape[1]
    columns = slice(None, n) if recurrent else slice(n, None)
    gates = {"u": "dgamma_u", "f": "dgamma_f", "c": "dp", "o": "dgamma_o"}
    terms = [s[signal] @ p.leaves[f"W_{g}"][:, columns] for g, signal in gates.items()]
    return terms[0] + terms[1] + terms[2] + terms[3]


@claim(
    "003-1.3-dgu-chain",
    "the chain is printed `∂c/∂γ_u · ∂γ_u/∂γ_u`",
    "`∂c/∂Γ_u · ∂Γ_u/∂γ_u`",
    recorded=Outcome.FALSE,
)
def chain_misprint(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[1]["dgamma_u"]
    e.said("∂c/∂Γ_u · 1: relative error", error(s["dc"] * s["c_tilde"], truth), EQUAL)
    e.truth("∂c/∂Γ_u · ∂Γ_u/∂γ_u: relative error", error(s["dc"] * s["c_tilde"] * _slope(s, "u"), truth), EQUAL)
    e.counter_example("γ_u = 0: ∂γ_u/∂γ_u = 1, but ∂Γ_u/∂γ_u = 1/4. A misprint: the formula below it is right.")
