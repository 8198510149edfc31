"""A softmax head on a recurrent state, with its derivatives by name: the part of a derivation above the cell.

z_t = W_y a_t + b_y,   y^_t = softmax(z_t),   L = sum_t sum_batch -y_t . log y^_t
dz = y^ * sum_i y_i - y      (y^ - y only where the targets sum to 1)
da = W_y^T dz,   dW_y = sum_t dz a_t^T,   db_y = sum_t dz
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def readout(
    a: Float[Tensor, "b t n"], w_y: Float[Tensor, "k n"], b_y: Float[Tensor, " k"], y: Float[Tensor, "b t k"]
) -> dict[str, Tensor]:
    """z, y_hat, loss, dz, da, dW_y and db_y. `da` is the head's part of dL/da: the `upstream` of `derivation`."""
    z = a @ w_y.T + b_y
    logs = torch.log_softmax(z, -1)
    dz = logs.exp() * y.sum(-1, keepdim=True) - y
    return {
        "z": z,
        "y_hat": logs.exp(),
        "loss": -(y * logs).sum(),
        "dz": dz,
        "da": dz @ w_y,
        "dW_y": dz.flatten(0, 1).T @ a.flatten(0, 1),
        "db_y": dz.sum((0, 1)),
    }
