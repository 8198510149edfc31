"""Recurrent sequences for any cell: whole, by the step, and taken apart signal by signal."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from threefold.ops import cells
from threefold.ops.cells import Cell, Gradients, Named, State, Weights
from threefold.ops.recurrent_op import CELLS, recurrent
from threefold.ops.scan import accumulator, cleared, transformed

__all__ = ["CELLS", "derivation", "sequence", "step"]


def sequence(
    cell: Cell,
    x: Float[Tensor, "b t d"],
    state: State,
    w: Weights,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[State, State]:
    """Every state after every token, each (B, T, N), and the last: resumable at any token.

    Runs in float32 or wider. An invalid token leaves the state bitwise as it was and its content is not read.
    """
    if x.shape[1] == 0:
        return tuple(part[:, None][:, :0] for part in state), state
    dtype = accumulator(torch.promote_types(x.dtype, w.x.dtype))
    x, w, state = cleared(x, valid).to(dtype), w.to(dtype), tuple(part.to(dtype) for part in state)
    if transformed():
        mask = None if valid is None else valid.T
        stacked, _ = cells.forward(cell, x.transpose(0, 1), state, w, mask)
        states = tuple(part.transpose(0, 1) for part in stacked)
        return states, tuple(part[:, -1] for part in states)
    c0 = state[1] if len(state) == 2 else None
    h, c, _ = recurrent(cell.name, x, state[0], c0, *w, valid)
    states = (h,) if c0 is None else (h, c)
    return states, tuple(part[:, -1] for part in states)


def step(
    cell: Cell, x: Float[Tensor, "b d"], state: State, w: Weights, valid: Bool[Tensor, " b"] | None = None
) -> State:
    """The definition: one token, in differentiable torch operations."""
    dtype = accumulator(torch.promote_types(x.dtype, w.x.dtype))
    state = tuple(part.to(dtype) for part in state)
    new = cell.step(x.to(dtype), state, w.to(dtype))
    return new if valid is None else cells.choose(valid[:, None], new, state)


def derivation(
    cell: Cell,
    x: Float[Tensor, "b t d"],
    state: State,
    w: Weights,
    upstream: State,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[Named, Gradients]:
    """Every forward and backward signal of the cell's equations by name, and all gradients: to check a derivation.

    `upstream` is dL/d(states) from outside the recurrence, each (B, T, N): for an LSTM whose loss reads a alone,
    (W_y^T dz, 0). Signals come back as (B, T, N), in the names of the cell's module: for an LSTM `Gamma_u`,
    `c_tilde`, `da`, `dc`, `dgamma_f`, `dp`, ...; `dx` is (B, T, D). T >= 1.
    """
    x, mask = cleared(x, valid).transpose(0, 1), None if valid is None else valid.T
    states, kept = cells.forward(cell, x, state, w, mask)
    ups = tuple(part.transpose(0, 1) for part in upstream)
    gradients, named = cells.backward(cell, ups, x, state, w, mask, states, kept)
    named = cell.forward_signals(kept, states) | named | {"dx": gradients.x}
    named = {name: signal.transpose(0, 1) for name, signal in named.items()}
    return named, gradients._replace(x=named["dx"])
