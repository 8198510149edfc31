"""Recurrences run by the library's cells, for statements about them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from threefold.ops import cells, recurrence, rnn


def scalar_rnn(x: Float[Tensor, "b t"], h0: Float[Tensor, " b"], *, carry: float) -> Float[Tensor, "b t"]:
    """h_t = x_t + carry h_{t-1} for every row, every step."""
    weights = cells.Weights(x.new_ones(1, 1), x.new_full((1, 1), carry))
    (states,), _ = recurrence.sequence(rnn.IdentityCell(), x[..., None], (h0[:, None],), weights)
    return states[..., 0]
