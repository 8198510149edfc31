"""The simple recurrent cell, tanh or identity.

    p_t = W_h h_{t-1} + W_x x_t + b,   h_t = act(p_t)
    dp_t = dh_t * act'(p_t)            tanh' = 1 - h_t^2,  identity' = 1
    dh_{t-1} += W_h^T dp_t,  dx_t = W_x^T dp_t,  dW = sum dp_t [h_{t-1}; x_t]^T,  db = sum dp_t

With the identity, W_x = 1 and W_h = -1, h_T is the alternating sum of the inputs.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.ops.cells import Cell, Named, Retreat, State, Weights


class TanhCell(Cell):
    """h_t = tanh(p_t)."""

    name = "tanh"
    gates = ("p",)
    kept = 0

    def act(self, p: Tensor) -> Tensor:
        """The activation."""
        return torch.tanh(p)

    def slope(self, h: Tensor) -> Tensor:
        """Its derivative, from its value."""
        return 1 - h * h

    def advance(self, drive: Float[Tensor, "b n"], state: State, w: Weights) -> tuple[State, Tensor]:
        h = self.act(torch.addmm(drive, state[0], w.h.T))
        return (h,), drive.new_empty(len(drive), 0)

    def retreat(self, upstream: State, before: State, after: State, kept: Tensor, w: Weights) -> Retreat:
        (dh,) = upstream
        dp = dh * self.slope(after[0])
        dh_prev = dp @ w.h
        return Retreat({"dh": dh, "dp": dp, "dh_prev": dh_prev}, dp, dp, (dh_prev,))

    def forward_signals(self, kept: Tensor, after: State) -> Named:
        return {"h": after[0]}


class IdentityCell(TanhCell):
    """h_t = p_t: linear, so that its state is a signed sum."""

    name = "identity"

    def act(self, p: Tensor) -> Tensor:
        return p

    def slope(self, h: Tensor) -> Tensor:
        return torch.ones_like(h)
