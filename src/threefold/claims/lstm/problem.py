"""One LSTM with a softmax output, differentiated twice: by the library's closed form, and by autograd on the equations.

n_y differs from n_a so that a wrong shape shows; nothing starts at zero, where mistakes hide.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims.attend import error, random
from threefold.ops import cells, lstm, recurrence

GATES = ("u", "f", "c", "o")
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Problem:
    """Inputs x (T, B, n_x), targets y (T, B, n_y), initial states and weights."""

    x: Float[Tensor, "t b x"]
    y: Float[Tensor, "t b y"]
    a0: Float[Tensor, "b a"]
    c0: Float[Tensor, "b a"]
    w: cells.Weights
    W_y: Float[Tensor, "y a"]
    b_y: Float[Tensor, " y"]

    @property
    def leaves(self) -> Named:
        """What gradients are asked for, by name; W_g acts on [a; x]."""
        assert self.w.bias is not None
        n = self.a0.shape[1]
        parts = {}
        for i, g in enumerate(GATES):
            rows = slice(i * n, (i + 1) * n)
            parts[f"W_{g}"] = torch.cat((self.w.h[rows], self.w.x[rows]), 1)
            parts[f"b_{g}"] = self.w.bias[rows]
        return parts | {"W_y": self.W_y, "b_y": self.b_y, "x": self.x, "a0": self.a0, "c0": self.c0}


def problem(T: int = 6, m: int = 4, *, soft: bool = False, seed: int = 0, n_y: int = 4, n_a: int = 5) -> Problem:
    """Weights N(0, 0.6²), states N(0, 0.5²); targets one-hot, or a softmax where `soft`."""
    n_x = 3
    drawn = random(T, m, n_y, seed=seed + 1)
    y = drawn.softmax(-1) if soft else torch.nn.functional.one_hot(drawn.argmax(-1), n_y).to(drawn.dtype)
    w = cells.Weights(
        random(4 * n_a, n_x, seed=seed + 2, scale=0.6),
        random(4 * n_a, n_a, seed=seed + 3, scale=0.6),
        random(4 * n_a, seed=seed + 4, scale=0.6),
    )
    states = random(2, m, n_a, seed=seed + 5, scale=0.5)
    W_y, b_y = random(n_y, n_a, seed=seed + 6, scale=0.6), random(n_y, seed=seed + 7, scale=0.6)
    return Problem(random(T, m, n_x, seed=seed), y, states[0], states[1], w, W_y, b_y)


def closed(p: Problem, cell: cells.Cell | None = None) -> tuple[Named, Named]:
    """Gradients and every signal (T, B, .) by the library's backward through time, or by a mutant's."""
    cell, start, x = cell or lstm.LSTMCell(), (p.a0, p.c0), p.x.transpose(0, 1)
    outputs = recurrence.sequence(lstm.LSTMCell(), x, start, p.w)[0]
    states = tuple(part.transpose(0, 1) for part in outputs)
    dz = (states[0] @ p.W_y.T + p.b_y).softmax(-1) - p.y
    upstream = ((dz @ p.W_y).transpose(0, 1), torch.zeros_like(outputs[1]))
    named, back = recurrence.derivation(cell, x, start, p.w, upstream)
    signals = {name: signal.transpose(0, 1) for name, signal in named.items()}
    assert back.weights.bias is not None
    gradients = {"W_y": torch.einsum("tby,tba->ya", dz, states[0]), "b_y": dz.sum((0, 1)), "x": signals["dx"]}
    gradients |= {"a0": back.state[0], "c0": back.state[1]}
    for i, g in enumerate(GATES):
        rows = slice(i * p.a0.shape[1], (i + 1) * p.a0.shape[1])
        gradients[f"W_{g}"] = torch.cat((back.weights.h[rows], back.weights.x[rows]), 1)
        gradients[f"b_{g}"] = back.weights.bias[rows]
    a_prev, c_prev = (torch.cat((first[None], part[:-1])) for first, part in zip(start, states, strict=True))
    values = {"c_prev": c_prev, "v": torch.cat((a_prev, p.x), -1), "dz": dz, "p": torch.atanh(signals["c_tilde"])}
    values |= {"a": states[0], "c": states[1]}
    values |= {f"d{s}_next": _earlier(signals[f"d{s}_prev"]) for s in "ac"}
    return gradients, signals | values


def _earlier(signal: Float[Tensor, "t b a"]) -> Float[Tensor, "t b a"]:
    """What step t receives from step t + 1: zero at t = T."""
    return torch.cat((signal[1:], torch.zeros_like(signal[:1])))


def equations(p: Problem, leaves: Named) -> tuple[Tensor, dict[str, list[Tensor]]]:
    """The loss and every intermediate value, step by step, written out as the documents print the equations."""
    kept: dict[str, list[Tensor]] = {}
    a, c, loss = leaves["a0"], leaves["c0"], p.x.new_zeros(())
    for x, y in zip(leaves["x"], p.y, strict=True):
        v = torch.cat((a, x), 1)
        gamma = {g: v @ leaves[f"W_{g}"].T + leaves[f"b_{g}"] for g in GATES}
        u, f, o = (torch.sigmoid(gamma[g]) for g in "ufo")
        candidate = torch.tanh(gamma["c"])
        c = u * candidate + f * c
        a = o * torch.tanh(c)
        z = a @ leaves["W_y"].T + leaves["b_y"]
        loss = loss - (y * torch.log_softmax(z, -1)).sum()
        named = {
            "Gamma_u": u,
            "Gamma_f": f,
            "Gamma_o": o,
            "c_tilde": candidate,
            "p": gamma["c"],
            "c": c,
            "a": a,
            "z": z,
        }
        for name, value in (named | {f"gamma_{g}": gamma[g] for g in "ufo"}).items():
            kept.setdefault(name, []).append(value)
    return loss, kept


def derived(p: Problem) -> tuple[Named, Named]:
    """The same gradients, and those of every intermediate value (T, B, .), by autograd on `equations`."""
    leaves = {name: leaf.detach().clone().requires_grad_() for name, leaf in p.leaves.items()}
    loss, kept = equations(p, leaves)
    steps = [(name, value) for name, values in kept.items() for value in values]
    found = torch.autograd.grad(loss, [*leaves.values(), *(value for _, value in steps)])
    signals: dict[str, list[Tensor]] = {}
    for (name, _), gradient in zip(steps, found[len(leaves) :], strict=True):
        signals.setdefault(f"d{name}", []).append(gradient)
    gradients = dict(zip(leaves, found, strict=False))
    return gradients, {name: torch.stack(steps) for name, steps in signals.items()}


def differences(p: Problem, cell: cells.Cell | None = None) -> dict[str, float]:
    """Relative error of each closed-form gradient against autograd."""
    mine, truth = closed(p, cell)[0], derived(p)[0]
    return {name: error(mine[name], truth[name]) for name in truth}


CASES = {"T = 1, one row": (1, 1, False), "T = 6, four rows": (6, 4, False), "T = 12, seven rows, soft": (12, 7, True)}


def cases() -> dict[str, Problem]:
    """The three problems on which a formula is tried."""
    return {name: problem(T, m, soft=soft) for name, (T, m, soft) in CASES.items()}
