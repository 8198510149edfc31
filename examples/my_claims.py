"""A derivation handed in by a student, graded line by line: backward through one GRU layer (reset before the product).

threefold claims examples/my_claims.py
"""

import torch

from threefold.claims import Evidence, at_most, claim
from threefold.ops.cells import Weights
from threefold.ops.gru import ResetBefore
from threefold.ops.recurrence import derivation

EQUAL = at_most(1e-12)


def exercise(steps: int = 6, rows: int = 3) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The signals of a random case by name, (B, T, N), and the true gradients by autograd. Nothing starts at zero."""
    torch.manual_seed(0)
    x, h0 = torch.randn(rows, steps, 3).double(), torch.randn(rows, 4).double()
    sizes = ((12, 3), (12, 4), (12,))
    w = Weights(*(torch.randn(size).double().requires_grad_() for size in sizes))
    cell, h, outputs = ResetBefore(), (h0,), []
    for x_t in x.unbind(1):
        h = cell.step(x_t, h, w)
        outputs.append(h[0])
    upstream = torch.randn(rows, steps, 4).double()
    (torch.stack(outputs, 1) * upstream).sum().backward()
    signals, _ = derivation(cell, x, (h0,), Weights(*(t if t is None else t.detach() for t in w)), (upstream,))
    before = torch.cat([h0[:, None], signals["h"][:, :-1]], 1)
    return signals | {"h_prev": before, "x": x}, {"W_x": w.x.grad, "b": w.bias.grad}


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative distance of a from b."""
    return float((a - b).norm() / b.norm())


@claim("line-1", "`dγ_u = dh * (c̃ − h_{t−1}) * Γ_u(1−Γ_u)`", subject="GRU, handed in by A. Student")
def update_gate(e: Evidence) -> None:
    s, _ = exercise()
    printed = s["dh"] * (s["c_tilde"] - s["h_prev"]) * s["Gamma_u"] * (1 - s["Gamma_u"])
    e.said("relative error against the library's dγ_u", distance(printed, s["dgamma_u"]), EQUAL)


@claim("line-2", "`dp = dh * Γ_u * (1 − c̃)`", "`dh * Γ_u * (1 − c̃²)`", subject="GRU, handed in by A. Student")
def candidate(e: Evidence) -> None:
    s, _ = exercise()
    e.said("relative error as handed in", distance(s["dh"] * s["Gamma_u"] * (1 - s["c_tilde"]), s["dp"]), EQUAL)
    e.truth("relative error with c̃²", distance(s["dh"] * s["Gamma_u"] * (1 - s["c_tilde"] ** 2), s["dp"]), EQUAL)
    e.counter_example("c̃ = ½: the slope of tanh is 1 − ¼ = ¾, the line has ½.")


@claim("line-3", "`db_u = dγ_u`", "Σ over time and rows", subject="GRU, handed in by A. Student")
def bias(e: Evidence) -> None:
    for steps, add in ((1, e.when), (6, e.otherwise)):
        s, truth = exercise(steps, rows=1)
        add(f"{steps} steps of one row: error of the last dγ_u", distance(s["dgamma_u"][0, -1], truth["b"][4:8]), EQUAL)
        e.truth(f"{steps} steps: error of the sum", distance(s["dgamma_u"].sum((0, 1)), truth["b"][4:8]), EQUAL)
