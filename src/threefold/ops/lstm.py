"""The long short-term memory cell, gates stacked as u, f, c, o (torch's i, f, g, o).

    gamma_g = W_g [a_{t-1}; x_t] + b_g (g = u, f, o),   p = W_c [a_{t-1}; x_t] + b_c
    Gamma_g = sigma(gamma_g),   c~ = tanh(p)
    c_t = Gamma_u * c~ + Gamma_f * c_{t-1},   a_t = Gamma_o * tanh(c_t)

Backward, with da, dc the total gradients (da_next = dc_next = 0 at t = T):

    dc      = da * Gamma_o * (1 - tanh^2 c_t) + dc_next
    dgamma_o = da * tanh(c_t) * Gamma_o * (1 - Gamma_o)
    dgamma_u = dc * c~        * Gamma_u * (1 - Gamma_u)
    dgamma_f = dc * c_{t-1}   * Gamma_f * (1 - Gamma_f)
    dp       = dc * Gamma_u * (1 - c~^2)
    [da_prev; dx] = W_u^T dgamma_u + W_f^T dgamma_f + W_o^T dgamma_o + W_c^T dp,   dc_prev = dc * Gamma_f
    dW_g = sum_t dgamma_g [a_{t-1}; x_t]^T,   db_g = sum_t dgamma_g   (g = u, f, o, and c with dp)
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.ops.cells import Cell, Named, Retreat, State, Weights


class LSTMCell(Cell):
    """c_t = Gamma_u * c~ + Gamma_f * c_{t-1}, a_t = Gamma_o * tanh(c_t)."""

    name = "lstm"
    gates = ("u", "f", "c", "o")
    kept = 4
    parts = ("a", "c")

    def advance(self, drive: Float[Tensor, "b gn"], state: State, w: Weights) -> tuple[State, Tensor]:
        a, c = state
        u, f, p, o = torch.addmm(drive, a, w.h.T).chunk(4, -1)
        u, f, candidate, o = torch.sigmoid(u), torch.sigmoid(f), torch.tanh(p), torch.sigmoid(o)
        c = u * candidate + f * c
        return (o * torch.tanh(c), c), torch.cat((u, f, candidate, o), -1)

    def local(self, upstream: State, before: State, after: State, kept: Tensor) -> Named:
        """Every signal of one step that needs no matrix product, in the order of the equations."""
        (da, dc_next), (_, c_prev) = upstream, before
        u, f, candidate, o = kept.chunk(4, -1)
        tanh_c = torch.tanh(after[1])
        dc = da * o * (1 - tanh_c**2) + dc_next
        dG_o, dG_u, dG_f, dcandidate = da * tanh_c, dc * candidate, dc * c_prev, dc * u
        return {
            "da": da,
            "dc": dc,
            "dGamma_o": dG_o,
            "dGamma_u": dG_u,
            "dGamma_f": dG_f,
            "dc_tilde": dcandidate,
            "dgamma_o": dG_o * o * (1 - o),
            "dgamma_u": dG_u * u * (1 - u),
            "dgamma_f": dG_f * f * (1 - f),
            "dp": dcandidate * (1 - candidate**2),
            "dc_prev": dc * f,
        }

    def retreat(self, upstream: State, before: State, after: State, kept: Tensor, w: Weights) -> Retreat:
        s = self.local(upstream, before, after, kept)
        drive = torch.cat((s["dgamma_u"], s["dgamma_f"], s["dp"], s["dgamma_o"]), -1)
        s["da_prev"] = drive @ w.h
        return Retreat(s, drive, drive, (s["da_prev"], s["dc_prev"]))

    def forward_signals(self, kept: Tensor, after: State) -> Named:
        u, f, candidate, o = kept.chunk(4, -1)
        return {"Gamma_u": u, "Gamma_f": f, "Gamma_o": o, "c_tilde": candidate, "c": after[1], "a": after[0]}
