"""The recurrent cells' equations as they are printed, every value by its name: what a derivation is derived from.

Column vectors: a value is (size, m) for a batch of m columns, and W_g acts on [a_{t-1}; x_t]. Autograd on these lines
is what closed forms and hand-written gradients are held against; central differences hold it in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from threefold.ops.cells import Weights

Named = dict[str, Tensor]
WIDE = torch.float64


@dataclass
class Trace:
    """Every value by name, step after step. For a name in `cut`, what follows sees a copy: gradients stop there."""

    cut: Collection[str] = ()
    made: dict[str, list[Tensor]] = field(default_factory=dict)
    used: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Name a value, and go on with it."""
        value = value.clone()  # a name of its own, though two names may stand for one number
        copy = value.detach().requires_grad_() if name in self.cut else value
        self.made.setdefault(name, []).append(value)
        self.used.setdefault(name, []).append(copy)
        return copy

    def values(self) -> Named:
        """(T, size, m) by name."""
        return {name: torch.stack(steps).detach() for name, steps in self.used.items()}


State = tuple[Tensor, ...]
Equations = Callable[[Trace, Named, Tensor, State], State]


def lstm(at: Trace, w: Named, x: Tensor, state: State) -> State:
    """c = Gamma_u * c~ + Gamma_f * c_prev, a = Gamma_o * tanh(c)."""
    a, c = at("a_prev", state[0]), at("c_prev", state[1])
    v = torch.cat((a, x))
    u, f, o = (
        at(f"Gamma_{g}", torch.sigmoid(at(f"gamma_{g}", w[f"W_{g}"] @ v + w[f"b_{g}"]))) for g in ("u", "f", "o")
    )
    candidate = at("c_tilde", torch.tanh(at("p", w["W_c"] @ v + w["b_c"])))
    c = at("c", u * candidate + f * c)
    return at("a", o * torch.tanh(c)), c


def _gates(at: Trace, w: Named, v: Tensor) -> tuple[Tensor, Tensor]:
    r, u = (at(f"Gamma_{g}", torch.sigmoid(at(f"gamma_{g}", w[f"W_{g}"] @ v + w[f"b_{g}"]))) for g in ("r", "u"))
    return r, u


def gru_before(at: Trace, w: Named, x: Tensor, state: State) -> State:
    """p = W_c [Gamma_r * h_prev; x] + b_c: the reset gate acts before the product, as published."""
    h = at("h_prev", state[0])
    r, u = _gates(at, w, torch.cat((h, x)))
    candidate = at("c_tilde", torch.tanh(at("p", w["W_c"] @ torch.cat((r * h, x)) + w["b_c"])))
    return (at("h", u * candidate + (1 - u) * h),)


def gru_after(at: Trace, w: Named, x: Tensor, state: State) -> State:
    """p = W_cx x + b_c + Gamma_r * m, m = W_ch h_prev + b_h: the reset gate acts after the product, as torch."""
    h = at("h_prev", state[0])
    r, u = _gates(at, w, torch.cat((h, x)))
    m = at("m", w["W_ch"] @ h + w["b_h"])
    candidate = at("c_tilde", torch.tanh(at("p", w["W_cx"] @ x + w["b_c"] + r * m)))
    return (at("h", u * candidate + (1 - u) * h),)


def rnn(at: Trace, w: Named, x: Tensor, state: State) -> State:
    """h = tanh(p), p = W_p [h_prev; x] + b_p."""
    h = at("h_prev", state[0])
    return (at("h", torch.tanh(at("p", w["W_p"] @ torch.cat((h, x)) + w["b_p"]))),)


@dataclass(frozen=True)
class Written:
    """One cell's equations. `gates` are in the order in which the library stacks them; `parts` are its states."""

    name: str
    step: Equations
    gates: tuple[str, ...]
    parts: tuple[str, ...] = ("h",)
    lines: tuple[str, ...] = ()  # for a person

    def shapes(self, n: int, n_x: int) -> dict[str, tuple[int, ...]]:
        """The weights' shapes by name."""
        found: dict[str, tuple[int, ...]] = {}
        for g in self.gates:
            if self.name == "gru-after" and g == "c":
                found |= {"W_cx": (n, n_x), "b_c": (n, 1), "W_ch": (n, n), "b_h": (n, 1)}
            else:
                found |= {f"W_{g}": (n, n + n_x), f"b_{g}": (n, 1)}
        return found

    def unpacked(self, w: Weights) -> Named:
        """The library's stacked weights (or their gradients) by the names of the equations."""
        n = w.h.shape[1]
        found: Named = {}
        for i, g in enumerate(self.gates):
            rows = slice(i * n, (i + 1) * n)
            bias = w.h.new_zeros(n) if w.bias is None else w.bias[rows]
            if self.name == "gru-after" and g == "c":
                inner = w.h.new_zeros(n) if w.inner is None else w.inner
                found |= {"W_cx": w.x[rows], "b_c": bias[:, None], "W_ch": w.h[rows], "b_h": inner[:, None]}
            else:
                found |= {f"W_{g}": torch.cat((w.h[rows], w.x[rows]), 1), f"b_{g}": bias[:, None]}
        return found


GATES = "gamma_g = W_g [{0}_prev; x] + b_g,  Gamma_g = sigma(gamma_g)   for g = {1}"
UPDATE = ("c_tilde = tanh(p)", "h = Gamma_u * c_tilde + (1 - Gamma_u) * h_prev")
CELLS = {
    cell.name: cell
    for cell in (
        Written("rnn", rnn, ("p",), lines=("p = W_p [h_prev; x] + b_p", "h = tanh(p)")),
        Written(
            "lstm",
            lstm,
            ("u", "f", "c", "o"),
            ("a", "c"),
            (
                GATES.format("a", "u, f, o"),
                "p = W_c [a_prev; x] + b_c,  c_tilde = tanh(p)",
                "c = Gamma_u * c_tilde + Gamma_f * c_prev",
                "a = Gamma_o * tanh(c)",
            ),
        ),
        Written(
            "gru-before",
            gru_before,
            ("r", "u", "c"),
            lines=(GATES.format("h", "r, u"), "p = W_c [Gamma_r * h_prev; x] + b_c", *UPDATE),
        ),
        Written(
            "gru-after",
            gru_after,
            ("r", "u", "c"),
            lines=(
                GATES.format("h", "r, u"),
                "m = W_ch h_prev + b_h",
                "p = W_cx x + b_c + Gamma_r * m",
                *UPDATE,
            ),
        ),
    )
}


@dataclass(frozen=True)
class Sizes:
    """One problem's sizes. All differ, so that a wrong shape shows; nothing starts at zero, where mistakes hide."""

    T: int = 6
    m: int = 4
    n_x: int = 3
    n: int = 5
    n_y: int = 2
    seed: int = 0

    def __str__(self) -> str:
        return f"T={self.T}, m={self.m}, n_x={self.n_x}, n={self.n}, n_y={self.n_y}"


@dataclass(frozen=True)
class Problem:
    """x (T, n_x, m), one-hot y (T, n_y, m), first states (n, m), and weights: N(0, 0.6^2), states N(0, 0.5^2)."""

    cell: Written
    x: Tensor
    y: Tensor
    start: State
    weights: Named

    @classmethod
    def drawn(cls, cell: Written, size: Sizes) -> Problem:
        """Random numbers of these sizes."""
        source = torch.Generator().manual_seed(size.seed + 1)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return scale * torch.randn(*shape, generator=source, dtype=WIDE)

        x = normal(size.T, size.n_x, size.m)
        labels = torch.randint(size.n_y, (size.T, size.m), generator=source)
        start = tuple(normal(size.n, size.m, scale=0.5) for _ in cell.parts)
        shapes = cell.shapes(size.n, size.n_x) | {"W_y": (size.n_y, size.n), "b_y": (size.n_y, 1)}
        weights = {name: normal(*shape, scale=0.6) for name, shape in shapes.items()}
        return cls(cell, x, one_hot(labels, size.n_y).transpose(1, 2).to(WIDE), start, weights)

    @property
    def leaves(self) -> Named:
        """Everything that must get a gradient, by name."""
        starts = {f"{part}0": value for part, value in zip(self.cell.parts, self.start, strict=True)}
        return self.weights | starts | {"x": self.x}


def unrolled(p: Problem, cut: Collection[str] = ()) -> tuple[Tensor, Trace, Named]:
    """(the loss, every value, the leaves): L = sum over t and columns of -y . log softmax(W_y a + b_y).

    Weights are named at each step too, so that a step's own part of their gradients can be told.
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in p.leaves.items()}
    at, loss = Trace(cut), p.x.new_zeros(())
    state: State = tuple(leaves[f"{part}0"] for part in p.cell.parts)
    said = p.cell.parts[0]
    for x, y in zip(leaves["x"], p.y, strict=True):
        w = {name: at(name, leaves[name]) for name in p.weights}
        state = p.cell.step(at, w, x, state)
        z = at("z", w["W_y"] @ at(f"{said}_out", state[0]) + w["b_y"])
        loss = loss - (y * torch.log_softmax(z, 0)).sum()
    return loss, at, leaves


def gradients(p: Problem, given: Named | None = None) -> Named:
    """`d` + name of every value (T, size, m) and leaf. With `given`, each as it follows from those given after it."""
    given = {name: each for name, each in (given or {}).items() if name[1:] not in p.leaves}
    loss, at, leaves = unrolled(p, {name[1:] for name in given})
    pairs = [
        (value, gradient)
        for name, each in given.items()
        for value, gradient in zip(at.made[name[1:]], each, strict=True)
        if value.requires_grad
    ]
    outputs, weights = [loss, *(value for value, _ in pairs)], [torch.ones_like(loss), *(each for _, each in pairs)]
    named = _derived(outputs, weights, at.used)
    return {name: torch.stack(each) for name, each in named.items() if name[1:] not in p.leaves} | {
        name: each[0] for name, each in _derived(outputs, weights, {n: [leaf] for n, leaf in leaves.items()}).items()
    }


def forward_loss(p: Problem) -> float:
    """L alone."""
    return float(unrolled(p)[0].detach())


def parts(p: Problem) -> Named:
    """What each step adds to each weight's gradient: (T, *shape) by `d` + name."""
    loss, at, _ = unrolled(p)
    named = _derived([loss], [torch.ones_like(loss)], {name: at.used[name] for name in p.weights})
    return {name: torch.stack(each) for name, each in named.items()}


def _derived(outputs: list[Tensor], weights: list[Tensor], asked: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    steps = [(name, value) for name, values in asked.items() for value in values]
    values = [value for _, value in steps]
    found = torch.autograd.grad(outputs, values, weights, allow_unused=True, retain_graph=True)
    named: dict[str, list[Tensor]] = {}
    for (name, value), gradient in zip(steps, found, strict=True):
        named.setdefault(f"d{name}", []).append(torch.zeros_like(value) if gradient is None else gradient)
    return named
