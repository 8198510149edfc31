"""The LSTM's forward equations and its loss."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals
from threefold.claims.lstm.problem import Problem, cases, closed, derived, equations, problem

EQUAL = at_most(1e-12)


def _equations(p: Problem) -> tuple[Tensor, dict[str, Tensor]]:
    loss, kept = equations(p, p.leaves)
    return loss, {name: torch.stack(steps) for name, steps in kept.items()}


def _against_library(e: Evidence, names: str) -> None:
    """The printed equations, written out, against the library's own values."""
    for case, p in cases().items():
        written, mine = _equations(p)[1], closed(p)[1]
        for name in names.split():
            symbol = name.replace("Gamma", "Γ").replace("c_tilde", "c̃")
            e.said(f"{case}: {symbol}, relative difference from the library", error(written[name], mine[name]), EQUAL)


def _output(e: Evidence) -> None:
    for case, p in cases().items():
        z, mine = _equations(p)[1]["z"], closed(p)[1]
        e.said(f"{case}: softmax(W_y a + b_y), relative difference", error(z.softmax(-1), mine["dz"] + p.y), EQUAL)


@claim(
    "000-1.3-c",
    "`c = c_prev * σ(W_f[a;x]+b_f) + tanh(W_c[a;x]+b_c) * σ(W_u[a;x]+b_u)`",
    recorded=Outcome.TRUE,
)
def cell_state(e: Evidence) -> None:
    _against_library(e, "c")


@claim("000-1.3-a", "`a = tanh(c) * σ(W_o[a;x]+b_o)`", recorded=Outcome.TRUE)
def hidden_state(e: Evidence) -> None:
    _against_library(e, "a")


@claim("000-1.3-y", "`ŷ = softmax(W_y a + b_y)` (C is printed for c)", recorded=Outcome.TRUE)
def output_000(e: Evidence) -> None:
    _output(e)


@claim(
    "003-1.3-γ",
    "`γ_g = W_g[a_{t−1};x_t]+b_g`, `Γ = σ(γ)`, `c̃ = tanh(p̃_c)`, `W = [W_a W_x]`",
    "the fraction bar in the output gate's `a/x` means stacking",
    recorded=Outcome.TRUE,
)
def gates(e: Evidence) -> None:
    _against_library(e, "Gamma_u Gamma_f Gamma_o c_tilde")


@claim(
    "003-1.3-c/a/z",
    "`c = Γ_u*c̃ + Γ_f*c_prev`; `a = Γ_o*tanh c`; `z = W_y a + b_y`; `ŷ = softmax z`",
    "the same function as torch.nn.LSTM with i = Γ_u, f = Γ_f, g = c̃, o = Γ_o",
    recorded=Outcome.TRUE,
)
def all_equations(e: Evidence) -> None:
    _against_library(e, "c a")
    _output(e)
    p = problem(7, 3)
    e.truth("relative difference of a and c_T from torch.nn.LSTM", _torch_difference(p), EQUAL)


def _torch_difference(p: Problem) -> float:
    n = p.a0.shape[1]
    layer = torch.nn.LSTM(p.x.shape[2], n, dtype=p.x.dtype)
    assert p.w.bias is not None
    weights = {"weight_ih_l0": p.w.x, "weight_hh_l0": p.w.h, "bias_ih_l0": p.w.bias}
    with torch.no_grad():
        layer.load_state_dict(weights | {"bias_hh_l0": torch.zeros_like(p.w.bias)})
        outputs, (_, c_last) = layer(p.x, (p.a0[None], p.c0[None]))
    mine = closed(p)[1]
    return max(error(mine["a"], outputs), error(mine["c"][-1], c_last[0]))


@claim(
    "003-1.3-L",
    "`L^t = −Σ_i y_i log ŷ_i`; `L = Σ_t^{T_x}`, whose summand is missing",
    "`L = Σ_t L^t`",
    recorded=Outcome.TRUE,
)
def loss(e: Evidence) -> None:
    for case, p in cases().items():
        total = _equations(p)[0]
        mine = closed(p)[1]
        e.said(
            f"{case}: −Σ_t Σ_i y_i log ŷ_i, relative difference",
            error(-(p.y * (mine["dz"] + p.y).log()).sum(), total),
            EQUAL,
        )


@claim("003-1.3-dz", "`dz = ŷ − y`", "needs Σ_i y_i = 1; in general `ŷ·Σ_i y_i − y`", recorded=Outcome.CONDITIONAL)
def softmax_gradient(e: Evidence) -> None:
    for case, p in cases().items():
        e.when(f"{case}: relative error of the library's ŷ − y", error(closed(p)[1]["dz"], derived(p)[1]["dz"]), EQUAL)
    z = random(4, 3, seed=2).requires_grad_()
    y = random(4, 3, seed=3).abs()
    (truth,) = torch.autograd.grad(-(y * z.log_softmax(-1)).sum(), z)
    probability = z.detach().softmax(-1)
    e.otherwise("targets that do not sum to 1: relative error of ŷ − y", error(probability - y, truth), EQUAL)
    e.truth(
        "the same targets: relative error of ŷ Σy − y", error(probability * y.sum(-1, keepdim=True) - y, truth), EQUAL
    )
    e.counter_example("y = (2, 0), ŷ = (½, ½): the gradient is (−1, 1), and ŷ − y is (−1.5, 0.5).")


@claim("003-1.3-tanh", "`tanh′ = 1 − tanh²`; `σ′ = σ(1−σ)`", recorded=Outcome.TRUE)
def slopes(e: Evidence) -> None:
    x = torch.linspace(-8, 8, 401, dtype=torch.float64).requires_grad_()
    for name, f in (("tanh", torch.tanh), ("σ", torch.sigmoid)):
        value = f(x)
        (truth,) = torch.autograd.grad(value.sum(), x)
        v = value.detach()
        slope = 1 - v * v if name == "tanh" else v * (1 - v)
        e.said(f"{name}: relative error of the printed slope on [−8, 8]", error(slope, truth), EQUAL)


@claim(
    "C1",
    "∂L/∂γ_f: 000 has `dc * c^{t−1} * Γ_f(1−Γ_f)`, 003 has `dc * c̃^t * Γ_f(1−Γ_f)`. Adjudicated: 000 is right",
    "with c⁰ = 0 and T = 1 the truth is exactly 0",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def forget_gate(e: Evidence) -> None:
    from threefold.claims.lstm.mutations import MUTATIONS
    from threefold.claims.lstm.problem import differences

    e.said("000, by the library: error of dW_f", differences(problem())["W_f"], EQUAL)
    off = differences(problem(), MUTATIONS["c~ for c_prev in dgamma_f"])
    e.said("003: error of dW_f", off["W_f"], above(1e-2))
    e.said("003: error of dW_y", off["W_y"], EQUAL)
    p = problem(1)
    start = Problem(p.x, p.y, p.a0, torch.zeros_like(p.c0), p.w, p.W_y, p.b_y)
    e.said("c_0 = 0, T = 1: ‖dW_f‖ by 000", closed(start)[0]["W_f"].norm(), equals(0.0))
    e.said(
        "c_0 = 0, T = 1: ‖dW_f‖ by 003",
        closed(start, MUTATIONS["c~ for c_prev in dgamma_f"])[0]["W_f"].norm(),
        above(1e-2),
    )


@claim(
    "C2",
    "∂L/∂p̃_c: 000 has `dc̃ * (1−p̃_c)`, 003 has `dc̃ * (1−c̃²)`. Adjudicated: 003 is right",
    "they meet only at p̃_c = 0, so that a check at zero weights W_c, b_c does not see the mistake",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def candidate(e: Evidence) -> None:
    from dataclasses import replace

    from threefold.claims.lstm.mutations import MUTATIONS
    from threefold.claims.lstm.problem import differences

    wrong, p = MUTATIONS["dp with 1 - p"], problem()
    e.said("003, by the library: error of dW_c", differences(p)["W_c"], EQUAL)
    off = differences(p, wrong)
    e.said("000: error of dW_c", off["W_c"], above(1e-2))
    e.said("000: error of dW_y", off["W_y"], EQUAL)
    n, w = p.a0.shape[1], p.w
    assert w.bias is not None
    keep = torch.ones(4 * n, 1, dtype=p.x.dtype)
    keep[2 * n : 3 * n] = 0
    zeroed = replace(p, w=w._replace(x=w.x * keep, h=w.h * keep, bias=w.bias * keep[:, 0]))
    e.said("000 at W_c = 0, b_c = 0, where the mistake hides: error of dW_c", differences(zeroed, wrong)["W_c"], EQUAL)


@claim(
    "C3",
    "∂L/∂a from the output: 000 has `(ŷ−y)^T W_y^T`, 003 `W_y^T(ŷ−y)`. Adjudicated: 003 is right",
    "000's product does not conform (1×n_y · n_a×n_y); its row form would be `(ŷ−y)^T W_y`",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def output_side(e: Evidence) -> None:
    p = problem(1, 1)
    column = p.W_y.T @ closed(p)[1]["dz"][0, 0]
    e.said("003: relative error", error(column, derived(p)[1]["da"][0, 0]), EQUAL)
    square = problem(1, 1, n_y=4, n_a=4)
    mine, truth = closed(square)[1], derived(square)[1]["da"]
    e.said("000 at n_y = n_a = 4: relative error", error(mine["dz"] @ square.W_y.T, truth), above(1e-2))
    e.said("000: inner sizes differ by", abs(p.W_y.shape[0] - p.W_y.shape[1]), equals(1))


@claim(
    "C4",
    "bias gradients: 000 has `db_y = (ŷ−y)a^T`, `db_u = dγ_u·Γ_u(1−Γ_u)`, no sums; 003 sums. Adjudicated: 003 is right",
    "Σ read as over all t and the batch",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def bias_sums(e: Evidence) -> None:
    p = problem()
    s, truth = closed(p)[1], derived(p)[0]
    for g, signal in {"u": "dgamma_u", "f": "dgamma_f", "c": "dp", "o": "dgamma_o", "y": "dz"}.items():
        e.said(f"003: relative error of db_{g}", error(s[signal].sum((0, 1)), truth[f"b_{g}"]), EQUAL)
    twice = (s["dgamma_u"] * s["Gamma_u"] * (1 - s["Gamma_u"])).sum((0, 1))
    e.said("000: relative error of db_u", error(twice, truth["b_u"]), above(1e-2))
