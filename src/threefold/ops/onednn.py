"""torch's own LSTM through oneDNN, where it computes the same function: near the machine's limit, but float32 only.

It knows no mask and gives no per-step c, so the cell's own op stands beside it for everything else.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.ops.cells import State, Weights
from threefold.ops.scan import transformed


def why_not(x: Float[Tensor, "b t d"], w: Weights, *, masked: bool) -> str:
    """Empty when oneDNN runs this LSTM, else the reason why not."""
    if torch.compiler.is_compiling():
        return "a compiled graph holds the sequence as one opaque op"
    if transformed():
        return "torch.func and forward-mode derivatives take the plain path"
    if masked:
        return "it knows no mask"
    if x.dtype != torch.float32 or w.x.dtype != torch.float32:
        return f"it computes in float32, this is {torch.promote_types(x.dtype, w.x.dtype)}"
    if x.device.type != "cpu":
        return f"the input is on {x.device.type}"
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return "this torch has no oneDNN, or it is switched off"
    return "the sequence is empty" if x.numel() == 0 else ""


def lstm(x: Float[Tensor, "b t d"], state: State, w: Weights) -> tuple[Float[Tensor, "b t n"], State]:
    """a_t for every token, and the last state. Gates u, f, c, o are torch's i, f, g, o; the second bias is zero."""
    flat = [w.x, w.h] if w.bias is None else [w.x, w.h, w.bias, torch.zeros_like(w.bias)]
    hidden = [part[None] for part in state]
    y, a, c = torch.lstm(x, hidden, flat, w.bias is not None, 1, 0.0, False, False, True)
    return y, (a[0], c[0])
