"""Native recurrent sequences: the CPU kernel of `threefold::recurrent` and of its backward.

The native code runs what is serial: the product with the state, the gates, and their derivatives, each block of rows on
its own through all of time. The products with the input and the weight gradients are large and stay torch's. Where the
native library is not there, or the numbers are neither float32 nor float64, the torch form runs.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from threefold.kernels.native import LONG, POINTER, available, native
from threefold.ops.recurrent_op import CELLS, Given, Later, none_like, recurrent, recurrent_backward, run, run_backward

KINDS = {name: number for number, name in enumerate(("tanh", "identity", "lstm", "gru_before", "gru_after"))}
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


class Call(ctypes.Structure):
    """`RecurrentCall` of recurrent_core.h, field by field."""

    _fields_ = [
        *((name, LONG) for name in ("kind", "T", "B", "N", "threads")),
        *((name, POINTER) for name in ("wh", "bias", "inner", "h0", "c0", "valid", "kept", "h", "c", "dh", "dc")),
        *((name, LONG) for name in ("dh_t", "dh_b", "dc_t", "dc_b")),
        *((name, POINTER) for name in ("drive", "extra", "dbias", "dinner", "dh0", "dc0")),
    ]


def why_not(x: Tensor, wh: Tensor) -> str:
    """Empty when the native code runs a sequence like x, else the reason why not."""
    if reason := available():
        return reason
    if x.device.type != "cpu":
        return f"the input is on {x.device.type}"
    if wh.dtype not in SUFFIX:
        return f"it computes in float32 and float64, this is {wh.dtype}"
    return ""


def _addresses(*tensors: Tensor | None) -> list[int | None]:
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def _dense(given: Given) -> list[Tensor | None]:
    """wh, bias, inner, h0, c0 and the mask (time first), as the native code reads them."""
    tensors = (given.wh, given.bias, given.inner, given.h0, given.c0, given.mask)
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _in_rows(gradient: Tensor) -> Tensor:
    return gradient if gradient.stride(2) == 1 else gradient.contiguous()


def _rows(x: Tensor) -> Tensor:
    """(B, T, D) as T B rows, time first."""
    return x.transpose(0, 1).reshape(-1, x.shape[2])


def _call(name: str, dtype: torch.dtype, call: Call) -> None:
    native().function(f"{name}_{SUFFIX[dtype]}", (ctypes.POINTER(Call),))(ctypes.byref(call))


@recurrent.register_kernel("cpu")
def _forward(cell: str, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    given = Given(*inputs)
    if why_not(given.x, given.wh):
        return run(cell, given)
    (t, b, n), rows, x = given.sizes, len(given.wx), given.x
    h, kept = x.new_empty(t, b, n), x.new_empty(t, b, CELLS[cell].kept * n)
    c = None if given.c0 is None else torch.empty_like(h)
    drive = kept if CELLS[cell].kept else h
    with torch.autocast("cpu", enabled=False):
        torch.mm(_rows(x), given.wx.T, out=drive.view(t * b, -1)[:, :rows])
    dense = _dense(given)
    call = Call(KINDS[cell], t, b, n, torch.get_num_threads(), *_addresses(*dense, kept, h, c))
    _call("tf_recurrent_forward", x.dtype, call)
    return h.transpose(0, 1), none_like(x) if c is None else c.transpose(0, 1), kept


@recurrent_backward.register_kernel("cpu")
def _backward(cell: str, *inputs: Any) -> tuple[Tensor, ...]:
    given, later = Given(*inputs[:8]), Later(*inputs[8:])
    if why_not(given.x, given.wh):
        return run_backward(cell, given, later)
    (t, b, n), rows, x = given.sizes, len(given.wx), given.x
    dh, dc = _in_rows(later.dh), None if later.dc is None else _in_rows(later.dc)
    h = later.h.transpose(0, 1).contiguous()
    c = None if given.c0 is None else later.c.transpose(0, 1).contiguous()
    drive, extra = x.new_empty(t, b, rows), x.new_empty(t, b, n if cell.startswith("gru") else 0)
    dbias, dinner, dh0 = x.new_empty(rows), x.new_empty(n), x.new_empty(b, n)
    dc0 = none_like(x) if given.c0 is None else torch.empty_like(dh0)
    dense = _dense(given)
    strides = (dh.stride(1), dh.stride(0), *((0, 0) if dc is None else (dc.stride(1), dc.stride(0))))
    pointers = _addresses(*dense, later.kept.contiguous(), h, c, dh, dc)
    found = _addresses(drive, extra, dbias, dinner, dh0, dc0)
    _call(
        "tf_recurrent_backward",
        x.dtype,
        Call(KINDS[cell], t, b, n, torch.get_num_threads(), *pointers, *strides, *found),
    )
    with torch.autocast("cpu", enabled=False):
        flat = drive.view(t * b, rows)
        dwx = flat.T @ _rows(x)
        dx = (flat @ given.wx).view(t, b, -1).transpose(0, 1) if later.need_x else none_like(x)
        dwh = _recurrent_gradient(cell, drive, extra, given.h0, h)
    dbias, dinner = (none_like(x) if w is None else d for w, d in ((given.bias, dbias), (given.inner, dinner)))
    return dx, dh0, dc0, dwx, dwh, dbias, dinner


def _recurrent_gradient(cell: str, drive: Tensor, extra: Tensor, h0: Tensor, h: Tensor) -> Tensor:
    """dW_h: gradients times the states before, without a shifted copy of the states."""
    n = h0.shape[1]
    dwh = drive.new_empty(drive.shape[2], n)
    if cell == "gru_after":
        _outer(drive[..., : 2 * n], h0, h, dwh[: 2 * n])
        _outer(extra, h0, h, dwh[2 * n :])
    elif cell == "gru_before":
        _outer(drive[..., : 2 * n], h0, h, dwh[: 2 * n])
        torch.mm(drive[..., 2 * n :].flatten(0, 1).T, extra.flatten(0, 1), out=dwh[2 * n :])
    else:
        _outer(drive, h0, h, dwh)
    return dwh


def _outer(left: Tensor, h0: Tensor, h: Tensor, out: Tensor) -> None:
    """out = sum_t left_t^T h_{t-1}, where the first h is h0."""
    t, b, rows = left.shape
    torch.mm(left[0].T, h0, out=out)
    if t > 1:
        flat = left.as_strided((t * b, rows), (left.stride(1), 1), left.storage_offset())
        out.addmm_(flat[b:].T, h[:-1].view(-1, h.shape[2]))
