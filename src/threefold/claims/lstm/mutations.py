"""The documents' wrong formulas, kept by name, each a cell whose backward has just that mistake."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.ops.cells import Named, State
from threefold.ops.lstm import LSTMCell


class CandidateNotSquared(LSTMCell):
    """000: dp = dc~ * (1 - p)."""

    def local(self, upstream: State, before: State, after: State, kept: Tensor) -> Named:
        s = super().local(upstream, before, after, kept)
        p = torch.atanh(kept.chunk(4, -1)[2])
        return s | {"dp": s["dc_tilde"] * (1 - p)}


class CandidateInForget(LSTMCell):
    """003: dgamma_f = dc * c~ * Gamma_f (1 - Gamma_f)."""

    def local(self, upstream: State, before: State, after: State, kept: Tensor) -> Named:
        s = super().local(upstream, before, after, kept)
        _, f, candidate, _ = kept.chunk(4, -1)
        return s | {"dGamma_f": s["dc"] * candidate, "dgamma_f": s["dc"] * candidate * f * (1 - f)}


MUTATIONS: dict[str, LSTMCell] = {
    "dp with 1 - p": CandidateNotSquared(),
    "c~ for c_prev in dgamma_f": CandidateInForget(),
}
