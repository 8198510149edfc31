"""The LSTM derivation, signal by signal, against autograd; and the published mistakes in it, each to be seen."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from threefold.claims.lstm.mutations import MUTATIONS
from threefold.ops import cells
from threefold.ops.cells import Weights
from threefold.ops.lstm import LSTMCell
from threefold.ops.readout import readout
from threefold.ops.recurrence import derivation, sequence

CASES = {"one step": (1, 1, False), "sums": (6, 4, False), "soft labels": (12, 7, True)}
GATES = "ufco"
NX, NA, NY = 3, 5, 4


def relative(found: Tensor, wanted: Tensor) -> float:
    return ((found - wanted).norm() / wanted.norm()).item()


@dataclass
class Problem:
    """An LSTM with a softmax read-out, everything drawn away from zero."""

    t: int
    m: int
    soft: bool = False
    draw: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(7))

    def __post_init__(self) -> None:
        self.x = self.normal(self.m, self.t, NX, scale=1.0)
        self.a0, self.c0 = self.normal(self.m, NA, scale=0.5), self.normal(self.m, NA, scale=0.5)
        self.W = {g: self.normal(NA, NA + NX) for g in GATES} | {"y": self.normal(NY, NA)}
        self.b = {g: self.normal(NA) for g in GATES} | {"y": self.normal(NY)}
        labels = torch.rand(self.m, self.t, NY, generator=self.draw, dtype=torch.float64)
        self.y = (
            labels / labels.sum(-1, keepdim=True)
            if self.soft
            else torch.eye(NY, dtype=torch.float64)[labels.argmax(-1)]
        )

    def normal(self, *shape: int, scale: float = 0.6) -> Tensor:
        return scale * torch.randn(*shape, generator=self.draw, dtype=torch.float64)

    @property
    def weights(self) -> Weights:
        stacked = torch.cat([self.W[g] for g in GATES])
        return Weights(stacked[:, NA:], stacked[:, :NA], torch.cat([self.b[g] for g in GATES]))

    def named(self) -> dict[str, Tensor]:
        return {f"W_{g}": w for g, w in self.W.items()} | {f"b_{g}": b for g, b in self.b.items()}


def by_autograd(p: Problem) -> tuple[dict[str, Tensor], dict[str, list[Tensor]], Tensor]:
    """The equations as they are printed, one step and one gate at a time; gradients of parameters, signals, and a."""
    leaves = {
        name: tensor.clone().requires_grad_() for name, tensor in (p.named() | {"a_0": p.a0, "c_0": p.c0}).items()
    }
    xs = [p.x[:, t].clone().requires_grad_() for t in range(p.t)]
    a, c, loss, watched, outputs = leaves["a_0"], leaves["c_0"], 0.0, {}, []
    for t, x in enumerate(xs):
        v = torch.cat((a, x), 1)
        gamma = {g: v @ leaves[f"W_{g}"].T + leaves[f"b_{g}"] for g in GATES}
        u, f, o = (torch.sigmoid(gamma[g]) for g in "ufo")
        p_c, candidate = gamma["c"], torch.tanh(gamma["c"])
        c = u * candidate + f * c
        a = o * torch.tanh(c)
        z = a @ leaves["W_y"].T + leaves["b_y"]
        loss = loss - (p.y[:, t] * torch.log_softmax(z, 1)).sum()
        outputs.append(a)
        signals = {
            "dGamma_u": u,
            "dGamma_f": f,
            "dGamma_o": o,
            "dc_tilde": candidate,
            "dp": p_c,
            "dc": c,
            "da": a,
            "dz": z,
        }
        signals |= {f"dgamma_{g}": gamma[g] for g in "ufo"}
        for name, tensor in signals.items():
            tensor.retain_grad()
            watched.setdefault(name, []).append(tensor)
    loss.backward()
    gradients = {f"d{name}": leaf.grad for name, leaf in leaves.items()} | {"dx": torch.stack([x.grad for x in xs], 1)}
    return (
        gradients,
        {n: torch.stack([s.grad for s in each], 1) for n, each in watched.items()},
        torch.stack(outputs, 1),
    )


def by_formula(p: Problem, cell: LSTMCell | None = None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """All gradients and all signals from the closed form, in the names of the equations."""
    cell, state = cell or LSTMCell(), (p.a0, p.c0)
    (a, _), _ = sequence(cell, p.x, state, p.weights)
    head = readout(a, p.W["y"], p.b["y"], p.y)
    named, found = derivation(cell, p.x, state, p.weights, (head["da"], torch.zeros_like(a)))
    dW = torch.cat((found.weights.h, found.weights.x), 1).chunk(4)
    db = found.weights.bias.chunk(4)
    gradients = {f"dW_{g}": dW[i] for i, g in enumerate(GATES)} | {f"db_{g}": db[i] for i, g in enumerate(GATES)}
    gradients |= {
        "dW_y": head["dW_y"],
        "db_y": head["db_y"],
        "da_0": found.state[0],
        "dc_0": found.state[1],
        "dx": named["dx"],
    }
    return gradients, named | {"dz": head["dz"]}


@pytest.mark.parametrize("case", CASES)
def test_every_gradient_is_autograds(case: str) -> None:
    """T-LSTM-1."""
    p = Problem(*CASES[case])
    wanted, _, _ = by_autograd(p)
    found, _ = by_formula(p)
    assert found.keys() == wanted.keys()
    assert {
        name: relative(found[name], wanted[name]) for name in wanted if relative(found[name], wanted[name]) > 1e-12
    } == {}


@pytest.mark.parametrize("case", CASES)
def test_every_signal_is_autograds_at_every_step(case: str) -> None:
    """T-LSTM-2."""
    p = Problem(*CASES[case])
    _, wanted, a = by_autograd(p)
    _, found = by_formula(p)
    assert relative(found["a"], a) <= 1e-12
    for name in wanted:
        for t in range(p.t):
            assert relative(found[name][:, t], wanted[name][:, t]) <= 1e-12, (name, t)


def test_gradients_are_central_differences() -> None:
    """T-LSTM-3."""
    p = Problem(6, 4)
    gradients, _ = by_formula(p)

    def loss() -> Tensor:
        (a, _), _ = sequence(LSTMCell(), p.x, (p.a0, p.c0), p.weights)
        return readout(a, p.W["y"], p.b["y"], p.y)["loss"]

    for name, tensor in p.named().items():
        entry = tuple(size // 2 for size in tensor.shape)
        kept, values = tensor[entry].item(), []
        for shift in (1e-6, -1e-6):
            tensor[entry] = kept + shift
            values.append(loss())
        tensor[entry] = kept
        numeric, exact = (values[0] - values[1]) / 2e-6, gradients[f"d{name}"][entry]
        assert abs(numeric - exact) <= 1e-6 * abs(exact), name


def extra_slope(p: Problem) -> dict[str, Tensor]:
    """db_u = dgamma_u * Gamma_u (1 - Gamma_u): a factor that dgamma_u contains already."""
    gradients, s = by_formula(p)
    return gradients | {"db_u": (s["dgamma_u"] * s["Gamma_u"] * (1 - s["Gamma_u"])).sum((0, 1))}


def one_step_only(p: Problem, t: int) -> dict[str, Tensor]:
    """dW_g = dgamma_g [a; x]^T and db_g = dgamma_g of one step: the sum over t left out."""
    gradients, s = by_formula(p)
    before = torch.cat((p.a0[:, None], s["a"][:, :-1]), 1)
    v = torch.cat((before, p.x), 2)[:, t]
    for g, name in zip(GATES, ("dgamma_u", "dgamma_f", "dp", "dgamma_o"), strict=True):
        gradients |= {f"dW_{g}": s[name][:, t].T @ v, f"db_{g}": s[name][:, t].sum(0)}
    return gradients


MUTANTS = {
    "slope without square": (lambda p: by_formula(p, MUTATIONS["dp with 1 - p"])[0], "dW_c db_c dW_o dW_u dW_f dx"),
    "extra slope in db_u": (extra_slope, "db_u"),
    "candidate for cell": (
        lambda p: by_formula(p, MUTATIONS["c~ for c_prev in dgamma_f"])[0],
        "dW_f db_f dW_c dW_u dW_o dx",
    ),
    "last step only": (lambda p: one_step_only(p, -1), "dW_u dW_f dW_c dW_o db_u db_f db_c db_o"),
    "first step only": (lambda p: one_step_only(p, 0), "dW_u dW_f dW_c dW_o db_u db_f db_c db_o"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_published_mistake_is_rejected(name: str) -> None:
    """T-LSTM-4."""
    mutant, wrong = MUTANTS[name]
    p = Problem(6, 4)
    wanted, _, _ = by_autograd(p)
    found = mutant(p)
    for gradient in wrong.split():
        assert relative(found[gradient], wanted[gradient]) > 1e-2, gradient


def test_the_extra_slope_is_seen_in_its_bias_only() -> None:
    p = Problem(6, 4)
    wanted, _, _ = by_autograd(p)
    off = {name for name, tensor in extra_slope(p).items() if relative(tensor, wanted[name]) > 1e-12}
    assert off == {"db_u"}


def test_traps_that_hide_the_mistakes() -> None:
    """T-LSTM-4: With W_c = b_c = 0 the missing square, and with one step the missing sum, cannot be seen."""
    p = Problem(1, 1)
    wanted, _, _ = by_autograd(p)
    assert all(relative(tensor, wanted[name]) <= 1e-12 for name, tensor in one_step_only(p, -1).items())
    flat = Problem(6, 4)
    flat.W["c"].zero_()
    flat.b["c"].zero_()
    right, wrong = by_formula(flat)[0], by_formula(flat, MUTATIONS["dp with 1 - p"])[0]
    assert all(torch.equal(right[name], wrong[name]) for name in right)


def test_shapes_that_the_printed_lines_get_wrong() -> None:
    """T-LSTM-6."""
    p = Problem(1, 2)
    _, s = by_formula(p)
    dz, a, dp = s["dz"][:, 0].T, s["a"][:, 0].T, s["dp"][:, 0].T  # columns, as printed
    assert (dz @ a.T).shape == (NY, NA) != (NY, 1)
    assert dp.shape == (NA, 2) != (NA, NA + NX)
    with pytest.raises(RuntimeError):
        dz.T @ p.W["y"].T
    square = p.normal(NY, NY)
    assert relative(dz.T @ square.T, dz.T @ square) > 1e-2


def test_dz_needs_targets_that_sum_to_one() -> None:
    """T-LSTM-7."""
    draw = torch.Generator().manual_seed(0)
    a, y = (torch.rand(3, 1, 4, generator=draw, dtype=torch.float64) for _ in range(2))
    w, b = torch.randn(4, 4, generator=draw, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    z = (a @ w.T + b).requires_grad_()
    (wanted,) = torch.autograd.grad(-(y * torch.log_softmax(z, -1)).sum(), z)
    head = readout(a, w, b, y)
    assert relative(head["dz"], wanted) <= 1e-14
    assert relative(head["y_hat"] - y, wanted) > 1e-2


def test_equals_torchs_lstm() -> None:
    """T-LSTM-5."""
    p = Problem(7, 3)
    lstm = torch.nn.LSTM(NX, NA, batch_first=True).double()
    x, h, bias, _ = p.weights
    lstm.load_state_dict(
        {"weight_ih_l0": x, "weight_hh_l0": h, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    )
    y, (a_T, c_T) = lstm(p.x, (p.a0[None], p.c0[None]))
    (a, c), last = sequence(LSTMCell(), p.x, (p.a0, p.c0), p.weights)
    for found, wanted in ((a, y), (last[0], a_T[0]), (last[1], c_T[0]), (c[:, -1], c_T[0])):
        assert relative(found, wanted) <= 1e-12


def test_derivation_and_backward_are_one_formula() -> None:
    """What people grade with is what trains."""
    p = Problem(6, 4)
    x = p.x.clone().requires_grad_()
    (a, _), _ = sequence(LSTMCell(), x, (p.a0, p.c0), p.weights)
    (dx,) = torch.autograd.grad(a.sum(), x)
    named, _ = derivation(LSTMCell(), p.x, (p.a0, p.c0), p.weights, (torch.ones_like(a), torch.zeros_like(a)))
    assert relative(dx, named["dx"]) <= 1e-12
    assert cells.backward.__doc__ and "da_next = dc_next = 0" in cells.backward.__doc__
