"""What every recurrent cell is, and the two loops that run one: forward through time, and closed-form backward.

A cell's weights act on the input and on the hidden state, gates stacked by rows: W_g [h; x] = W_gh h + W_gx x. The
input products of a whole sequence are one matrix product (`drive`), and so is each weight gradient; only what truly
depends on the step before stays in the loop. Everything inside is time first: (T, B, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

State = tuple[Tensor, ...]
Named = dict[str, Tensor]


class Weights(NamedTuple):
    """One cell's weights. G gates of N rows each; `inner` is the bias inside a reset product (GRU, reset after)."""

    x: Float[Tensor, "gn d"]
    h: Float[Tensor, "gn n"]
    bias: Float[Tensor, " gn"] | None = None
    inner: Float[Tensor, " n"] | None = None

    def to(self, dtype: torch.dtype) -> Weights:
        """The same weights in another dtype."""
        bias, inner = (w if w is None else w.to(dtype) for w in (self.bias, self.inner))
        return Weights(self.x.to(dtype), self.h.to(dtype), bias, inner)

    def drive(self, x: Float[Tensor, "*t b d"]) -> Float[Tensor, "*t b gn"]:
        """W_x x + b for every token at once."""
        return torch.nn.functional.linear(x, self.x, self.bias)


class Retreat(NamedTuple):
    """One step backward: gradients of the pre-activations, and of the state before."""

    signals: Named
    drive: Float[Tensor, "b gn"]  # dL/d(W_x x + b)
    pull: Float[Tensor, "b gn"]  # dL/d(W_h h [+ inner]): the same, unless a reset gate stands between
    before: State


class Gradients(NamedTuple):
    """What a sequence gives back: one gradient per input."""

    x: Float[Tensor, "t b d"]
    state: State
    weights: Weights


class Cell(ABC):
    """One recurrent cell: its step, its local derivatives. Objects without state; mutants of them live in tests."""

    name: str
    gates: tuple[str, ...]
    kept: int  # widths of N that `advance` keeps for `retreat`
    parts: tuple[str, ...] = ("h",)

    @abstractmethod
    def advance(self, drive: Float[Tensor, "b gn"], state: State, w: Weights) -> tuple[State, Tensor]:
        """The state after one token, and what `retreat` needs of the gates (B, kept). Differentiable."""

    @abstractmethod
    def retreat(self, upstream: State, before: State, after: State, kept: Tensor, w: Weights) -> Retreat:
        """One step of backward through time. `upstream` is dL/d(after), the part through later steps included."""

    @abstractmethod
    def forward_signals(self, kept: Float[Tensor, "t b k"], after: State) -> Named:
        """The forward values by the names that the equations use."""

    def recurrent_gradient(self, pull: Tensor, h_before: Tensor, kept: Tensor) -> Float[Tensor, "gn n"]:
        """dW_h = sum over t and batch of pull h_{t-1}^T, one product."""
        return _outer(pull, h_before)

    def step(self, x: Float[Tensor, "b d"], state: State, w: Weights) -> State:
        """The definition: the state after one token."""
        return self.advance(w.drive(x), state, w)[0]


def _outer(left: Float[Tensor, "t b m"], right: Float[Tensor, "t b n"]) -> Float[Tensor, "m n"]:
    return left.flatten(0, 1).T @ right.flatten(0, 1)


def choose(valid: Bool[Tensor, "b 1"] | None, yes: State, no: State) -> State:
    """`yes` where valid, else `no`: a selection, so that no NaN crosses."""
    return yes if valid is None else tuple(torch.where(valid, y, n) for y, n in zip(yes, no, strict=True))


def forward(
    cell: Cell, x: Float[Tensor, "t b d"], state: State, w: Weights, valid: Bool[Tensor, "t b"] | None = None
) -> tuple[State, Float[Tensor, "t b k"]]:
    """Every state after every token, and what the backward needs. T >= 1. Made of differentiable steps.

    An invalid token leaves the state bitwise as it was.
    """
    states, kepts = [], []
    masks = [None] * len(x) if valid is None else valid[..., None].unbind(0)
    for drive, mask in zip(w.drive(x).unbind(0), masks, strict=True):
        new, kept = cell.advance(drive, state, w)
        state = choose(mask, new, state)
        states.append(state)
        kepts.append(kept)
    return tuple(torch.stack(part) for part in zip(*states, strict=True)), torch.stack(kepts)


def shifted(states: State, state: State) -> State:
    """The state before each token."""
    return tuple(torch.cat((first[None], part[:-1])) for part, first in zip(states, state, strict=True))


def backward(
    cell: Cell,
    upstream: State,
    x: Float[Tensor, "t b d"],
    state: State,
    w: Weights,
    valid: Bool[Tensor, "t b"] | None,
    states: State,
    kept: Float[Tensor, "t b k"],
) -> tuple[Gradients, Named]:
    """Closed-form backward through time: all gradients, and every intermediate signal by name, each (T, B, N).

    da_next = dc_next = 0 at t = T. Weight gradients are sums over t and batch, each one matrix product.
    """
    befores = shifted(states, state)
    carry: State = tuple(torch.zeros_like(part) for part in state)
    steps: list[Retreat] = []
    for t in reversed(range(len(x))):
        total = tuple(up[t] + later for up, later in zip(upstream, carry, strict=True))
        back = cell.retreat(total, tuple(b[t] for b in befores), tuple(s[t] for s in states), kept[t], w)
        if valid is not None:
            back = _masked(back, total, valid[t, :, None])
        carry = back.before
        steps.append(back)
    steps.reverse()
    drive = torch.stack([s.drive for s in steps])
    pull = drive if steps[0].pull is steps[0].drive else torch.stack([s.pull for s in steps])
    weights = Weights(
        _outer(drive, x),
        cell.recurrent_gradient(pull, befores[0], kept),
        None if w.bias is None else drive.sum((0, 1)),
        None if w.inner is None else pull.sum((0, 1))[-len(w.inner) :],
    )
    signals = {name: torch.stack([s.signals[name] for s in steps]) for name in steps[0].signals}
    return Gradients(drive @ w.x, carry, weights), signals


def _masked(back: Retreat, total: State, valid: Bool[Tensor, "b 1"]) -> Retreat:
    """Through an invalid token the gradient passes unchanged, and none reaches its gates."""
    zero = torch.zeros((), dtype=back.drive.dtype, device=back.drive.device)
    drive = torch.where(valid, back.drive, zero)
    return Retreat(
        {name: torch.where(valid, signal, zero) for name, signal in back.signals.items()},
        drive,
        drive if back.pull is back.drive else torch.where(valid, back.pull, zero),
        choose(valid, back.before, total),
    )
