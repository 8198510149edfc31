"""The gated recurrent unit in both published variants, gates stacked as r, u, c.

    Gamma_g = sigma(W_g [h_{t-1}; x_t] + b_g)   (g = r, u)
    before:  p = W_cx x_t + W_ch (Gamma_r * h_{t-1}) + b_c
    after:   p = W_cx x_t + b_c + Gamma_r * m,   m = W_ch h_{t-1} + b_h      (torch and cuDNN; torch's z is 1 - Gamma_u)
    c~ = tanh(p),   h_t = Gamma_u * c~ + (1 - Gamma_u) * h_{t-1}

Backward, with dh the total gradient:

    dc~ = dh * Gamma_u,   dGamma_u = dh * (c~ - h_{t-1}),   dp = dc~ * (1 - c~^2)
    before:  s = W_ch^T dp,       dGamma_r = s * h_{t-1},  through = s * Gamma_r
    after:   dm = dp * Gamma_r,   dGamma_r = dp * m,       through = W_ch^T dm
    dgamma_g = dGamma_g * Gamma_g * (1 - Gamma_g)   (g = r, u)
    dh_prev = dh * (1 - Gamma_u) + through + W_rh^T dgamma_r + W_uh^T dgamma_u
    dx = W_rx^T dgamma_r + W_ux^T dgamma_u + W_cx^T dp
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.ops.cells import Cell, Named, Retreat, State, Weights


class GRUCell(Cell):
    """h_t = Gamma_u * c~ + (1 - Gamma_u) * h_{t-1}; subclasses say where the reset gate acts."""

    gates = ("r", "u", "c")

    def local(self, upstream: State, before: State, kept: Tensor) -> Named:
        """The signals that both variants share."""
        (dh,), (h_prev,) = upstream, before
        _, u, candidate = kept.split(h_prev.shape[-1], -1)[:3]
        dG_u, dcandidate = dh * (candidate - h_prev), dh * u
        return {
            "dh": dh,
            "dGamma_u": dG_u,
            "dc_tilde": dcandidate,
            "dgamma_u": dG_u * u * (1 - u),
            "dp": dcandidate * (1 - candidate**2),
        }


class ResetBefore(GRUCell):
    """The reset gate acts on the state before the matrix product: the published cell."""

    name = "gru_before"
    kept = 3

    def advance(self, drive: Float[Tensor, "b gn"], state: State, w: Weights) -> tuple[State, Tensor]:
        (h,) = state
        n = h.shape[-1]
        r, u = torch.sigmoid(torch.addmm(drive[:, : 2 * n], h, w.h[: 2 * n].T)).chunk(2, -1)
        candidate = torch.tanh(torch.addmm(drive[:, 2 * n :], r * h, w.h[2 * n :].T))
        return (u * candidate + (1 - u) * h,), torch.cat((r, u, candidate), -1)

    def retreat(self, upstream: State, before: State, after: State, kept: Tensor, w: Weights) -> Retreat:
        (h_prev,) = before
        n = h_prev.shape[-1]
        r, u, _ = kept.chunk(3, -1)
        s = self.local(upstream, before, kept)
        through = s["dp"] @ w.h[2 * n :]
        s["dGamma_r"] = through * h_prev
        s["dgamma_r"] = s["dGamma_r"] * r * (1 - r)
        drive = torch.cat((s["dgamma_r"], s["dgamma_u"], s["dp"]), -1)
        s["dh_prev"] = s["dh"] * (1 - u) + through * r + drive[:, : 2 * n] @ w.h[: 2 * n]
        return Retreat(s, drive, drive, (s["dh_prev"],))

    def recurrent_gradient(self, pull: Tensor, h_before: Tensor, kept: Tensor) -> Float[Tensor, "gn n"]:
        n = h_before.shape[-1]
        gates = super().recurrent_gradient(pull[..., : 2 * n], h_before, kept)
        candidate = super().recurrent_gradient(pull[..., 2 * n :], kept[..., :n] * h_before, kept)
        return torch.cat((gates, candidate))

    def forward_signals(self, kept: Tensor, after: State) -> Named:
        r, u, candidate = kept.chunk(3, -1)
        return {"Gamma_r": r, "Gamma_u": u, "c_tilde": candidate, "h": after[0]}


class ResetAfter(GRUCell):
    """The reset gate acts on the matrix product: torch and cuDNN. One product per step, and a bias inside it."""

    name = "gru_after"
    kept = 4

    def advance(self, drive: Float[Tensor, "b gn"], state: State, w: Weights) -> tuple[State, Tensor]:
        (h,) = state
        n = h.shape[-1]
        pull = h @ w.h.T
        r, u = torch.sigmoid(drive[:, : 2 * n] + pull[:, : 2 * n]).chunk(2, -1)
        m = pull[:, 2 * n :] if w.inner is None else pull[:, 2 * n :] + w.inner
        candidate = torch.tanh(drive[:, 2 * n :] + r * m)
        return (u * candidate + (1 - u) * h,), torch.cat((r, u, candidate, m), -1)

    def retreat(self, upstream: State, before: State, after: State, kept: Tensor, w: Weights) -> Retreat:
        r, u, _, m = kept.chunk(4, -1)
        s = self.local(upstream, before, kept)
        s["dm"] = s["dp"] * r
        s["dGamma_r"] = s["dp"] * m
        s["dgamma_r"] = s["dGamma_r"] * r * (1 - r)
        drive = torch.cat((s["dgamma_r"], s["dgamma_u"], s["dp"]), -1)
        pull = torch.cat((s["dgamma_r"], s["dgamma_u"], s["dm"]), -1)
        s["dh_prev"] = s["dh"] * (1 - u) + pull @ w.h
        return Retreat(s, drive, pull, (s["dh_prev"],))

    def forward_signals(self, kept: Tensor, after: State) -> Named:
        r, u, candidate, m = kept.chunk(4, -1)
        return {"Gamma_r": r, "Gamma_u": u, "c_tilde": candidate, "m": m, "h": after[0]}
