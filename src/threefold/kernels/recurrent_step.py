"""One token of a recurrent cell, natively: every weight is read once, where it lies, so nothing is packed.

Where no gradient is asked for and nobody watches, the library is called at once: of a small cell's step, a dispatcher
that only passes it on would take half. Otherwise the step is `threefold::recurrent` over one token.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from threefold.kernels.native import BYTES, available, native, watched
from threefold.ops.cells import State, Weights
from threefold.ops.recurrent_op import recurrent
from threefold.ops.scan import transformed

KINDS = {name: number for number, name in enumerate(("tanh", "identity", "lstm", "gru_before", "gru_after"))}
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
CALL = struct.Struct("=17q")  # `RecurrentStep` of recurrent_step.h
SMALL = 1 << 16  # multiply-adds below which a second thread costs more than it brings
FUNCTION = {dtype: f"tf_recurrent_step_{suffix}" for dtype, suffix in SUFFIX.items()}
ARGUMENTS = (BYTES,)


def why_not(x: Tensor, wh: Tensor) -> str:
    """Empty when the native code runs a sequence like x, of one token or many, else the reason why not."""
    if reason := available():
        return reason
    if x.device.type != "cpu":
        return f"the input is on {x.device.type}"
    if x.numel() == 0:
        return "there is nothing to compute"
    if wh.dtype not in SUFFIX:
        return f"it computes in float32 and float64, this is {wh.dtype}"
    return ""


def supports(x: Tensor, state: State, w: Weights) -> bool:
    """Whether the native step computes this call. x is (B, 1, D)."""
    dtype = x.dtype
    if not (dtype == w.h.dtype == w.x.dtype == state[0].dtype == state[-1].dtype) or why_not(x, w.h):
        return False
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not (torch._C._len_torch_dispatch_stack() or transformed())


def step(cell: str, x: Tensor, state: State, w: Weights, valid: Tensor | None) -> State:
    """The state after one token. x is (B, 1, D), valid (B, 1)."""
    if watched(x, *state, *w):
        h, c, _ = recurrent(cell, x, state[0], state[1] if len(state) == 2 else None, *w, valid)
        return (h[:, 0],) if len(state) == 1 else (h[:, 0], c[:, 0])
    return one_token(cell, x, state, w, valid)


def one_token(
    cell: str, x: Tensor, state: State, w: Weights, valid: Tensor | None, kept: Tensor | None = None
) -> State:
    """The native code; what the backward pass needs goes into `kept` where there is one."""
    batch, _, width = x.shape
    wx, wh, bias, inner = w.x.contiguous(), w.h.contiguous(), _whole(w.bias), _whole(w.inner)
    valid = _whole(valid)
    rows, n = wh.shape
    threads = 1 if batch * rows * (width + n) < SMALL else torch.get_num_threads()
    if x.stride(2) != 1:
        x = x.contiguous()
    h0 = state[0].contiguous()
    h, c0, c = torch.empty_like(h0), None, None
    if len(state) == 2:
        c0 = state[1].contiguous()
        c = torch.empty_like(c0)
    packed = CALL.pack(
        *(KINDS[cell], batch, width, n, threads, x.stride(0), x.data_ptr(), wx.data_ptr(), wh.data_ptr()),
        *(_address(bias), _address(inner), h0.data_ptr(), _address(c0), _address(valid)),
        *(h.data_ptr(), _address(c), _address(kept)),
    )
    native().function(FUNCTION[x.dtype], ARGUMENTS)(packed)
    return (h,) if c is None else (h, c)


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()
