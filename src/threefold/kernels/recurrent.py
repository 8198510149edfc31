"""Native recurrent sequences: the CPU kernel of `threefold::recurrent` and of its backward.

The native code runs what is serial: the product with the state, the gates, and their derivatives, each block of rows on
its own through time. The products with the input and the weight gradients are large (products.py). Both take turns,
a piece of the sequence at a time, so that what one writes the other finds in the cache. Where the native library is not
there, or the numbers are neither float32 nor float64, the torch form runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from threefold.kernels.native import LONG, POINTER, fresh, native
from threefold.kernels.products import add_outer, rows_times
from threefold.kernels.recurrent_step import KINDS, SUFFIX, one_token, step, supports, why_not
from threefold.ops.recurrent_op import CELLS, Given, Later, none_like, recurrent, recurrent_backward, run, run_backward

__all__ = ["Call", "Sequence", "step", "supports", "why_not"]

PIECE = 2**20  # bytes of pre-activations per thread that a piece of the sequence may write


class Call(ctypes.Structure):
    """`RecurrentCall` of recurrent_core.h, field by field."""

    _fields_ = [
        *((name, LONG) for name in ("kind", "T", "B", "N", "threads", "start", "stop")),
        *(
            (name, POINTER)
            for name in ("shared", "wh", "bias", "inner", "h0", "c0", "valid", "kept", "h", "c", "dh", "dc")
        ),
        *((name, LONG) for name in ("dh_t", "dh_b", "dc_t", "dc_b")),
        *((name, POINTER) for name in ("drive", "extra", "dbias", "dinner", "dh0", "dc0")),
    ]


class Sequence:
    """What forward and backward share of one call: sizes, pointers, pieces."""

    def __init__(self, cell: str, given: Given) -> None:
        self.given = given
        self.t, self.b, self.n = given.sizes
        self.rows = len(given.wx)
        tensors = (given.wh, given.bias, given.inner, *given.state, given.mask)
        self.dense = [None if tensor is None else tensor.contiguous() for tensor in tensors]
        self.call = Call(kind=KINDS[cell], T=self.t, B=self.b, N=self.n, threads=torch.get_num_threads())
        names = ("wh", "bias", "inner", "h0", *(("c0",) if given.c0 is not None else ()), "valid")
        self.point(**dict(zip(names, self.dense, strict=True)))

    def point(self, **tensors: Tensor | None) -> None:
        """Point fields of the call at tensors, which the caller keeps alive."""
        for name, tensor in tensors.items():
            setattr(self.call, name, None if tensor is None else tensor.data_ptr())

    @contextmanager
    def opened(self, way: str) -> Iterator[None]:
        """The weights packed for one way through time."""
        self._ask(f"{way}_open")
        try:
            yield
        finally:
            self._ask(f"{way}_close")

    def pieces(self) -> list[tuple[int, int]]:
        """Steps [from, to) that are run together."""
        step_bytes = max(1, self.b * self.rows * self.given.wh.element_size())
        steps = max(1, PIECE * self.call.threads // step_bytes)
        return [(start, min(start + steps, self.t)) for start in range(0, self.t, steps)]

    def run(self, way: str, start: int, stop: int) -> None:
        """The native code, over one piece."""
        self.call.start, self.call.stop = start, stop
        self._ask(way)

    def inputs(self, start: int, stop: int) -> Tensor:
        """One piece of x as rows, time first."""
        return self.given.x[:, start:stop].transpose(0, 1).reshape(-1, self.given.x.shape[2])

    def _ask(self, name: str) -> None:
        suffix = SUFFIX[self.given.wh.dtype]
        native().function(f"tf_recurrent_{name}_{suffix}", (ctypes.POINTER(Call),))(ctypes.byref(self.call))


@recurrent.register_kernel("cpu")
def _forward(cell: str, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    given = Given(*inputs)
    if why_not(given.x, given.wh):
        return run(cell, given)
    t, b, n = given.sizes
    if t == 1:
        return _one(cell, given)
    seq, x = Sequence(cell, given), given.x
    h, kept = (fresh((t, b, size), x.dtype) for size in (n, CELLS[cell].kept * n))
    c = None if given.c0 is None else fresh(h.shape, h.dtype)
    seq.point(kept=kept, h=h, c=c)
    drive, wx = kept if CELLS[cell].kept else h, given.wx.contiguous()
    with seq.opened("forward"), torch.autocast("cpu", enabled=False):
        for start, stop in seq.pieces():
            out = drive[start:stop].view((stop - start) * b, -1)[:, : seq.rows]
            rows_times(seq.inputs(start, stop), wx, out, turned=True)
            seq.run("forward", start, stop)
    return h.transpose(0, 1), none_like(x) if c is None else c.transpose(0, 1), kept


def _one(cell: str, given: Given) -> tuple[Tensor, Tensor, Tensor]:
    """One token, by the native step."""
    kept = given.x.new_empty(1, given.sizes[1], CELLS[cell].kept * given.sizes[2])
    h, *c = one_token(cell, given.x, given.state, given.weights, given.valid, kept)
    return h[:, None], c[0][:, None] if c else none_like(kept), kept


@recurrent_backward.register_kernel("cpu")
def _backward(cell: str, *inputs: Any) -> tuple[Tensor, ...]:
    given, later = Given(*inputs[:8]), Later(*inputs[8:])
    if why_not(given.x, given.wh) or given.sizes[0] == 1:  # of one token nothing is serial, and packing would cost more
        return run_backward(cell, given, later)
    seq, x = Sequence(cell, given), given.x
    (t, b, n), d = given.sizes, x.shape[2]
    pieces = seq.pieces()
    dh, dc = _in_rows(later.dh), None if later.dc is None else _in_rows(later.dc)
    h, kept = later.h.transpose(0, 1).contiguous(), later.kept.contiguous()
    c = None if given.c0 is None else later.c.transpose(0, 1).contiguous()
    seq.call.dh_t, seq.call.dh_b = dh.stride(1), dh.stride(0)
    if dc is not None:
        seq.call.dc_t, seq.call.dc_b = dc.stride(1), dc.stride(0)
    steps = pieces[0][1]
    drive, extra = x.new_empty(steps * b, seq.rows), x.new_empty(steps * b, n if cell.startswith("gru") else 0)
    dbias, dinner, dh0 = x.new_zeros(seq.rows), x.new_zeros(n), x.new_zeros(b, n)
    dc0 = none_like(x) if given.c0 is None else torch.zeros_like(dh0)
    seq.point(kept=kept, h=h, c=c, dh=dh, dc=dc, drive=drive, extra=extra, dbias=dbias, dinner=dinner, dh0=dh0, dc0=dc0)
    dx = fresh((t, b, d), x.dtype) if later.need_x else none_like(x)
    dwx, dwh, wx = x.new_zeros(d, seq.rows), x.new_zeros(n, seq.rows), given.wx.contiguous()
    with seq.opened("backward"), torch.autocast("cpu", enabled=False):
        for start, stop in reversed(pieces):
            seq.run("backward", start, stop)
            now, more = drive[: (stop - start) * b], extra[: (stop - start) * b]
            add_outer(dwx, seq.inputs(start, stop), now)
            if later.need_x:
                rows_times(now, wx, dx[start:stop].view(-1, d))
            _recurrent_gradient(
                cell, now, more, h[start - 1 : stop - 1] if start else _before(given.h0, h[: stop - 1]), dwh
            )
    dbias, dinner = (none_like(x) if w is None else found for w, found in ((given.bias, dbias), (given.inner, dinner)))
    return (dx.transpose(0, 1) if later.need_x else dx), dh0, dc0, dwx.T.contiguous(), dwh.T.contiguous(), dbias, dinner


def _in_rows(gradient: Tensor) -> Tensor:
    return gradient if gradient.stride(2) == 1 else gradient.contiguous()


def _before(h0: Tensor, h: Tensor) -> Tensor:
    return torch.cat((h0[None], h))


def _recurrent_gradient(cell: str, drive: Tensor, extra: Tensor, before: Tensor, dwh: Tensor) -> None:
    """dW_h^T += sum over the piece of h_{t-1} (or what stands in its place) times the gradient of its product."""
    n = before.shape[2]
    rows = before.reshape(-1, n)
    if not cell.startswith("gru"):
        add_outer(dwh, rows, drive)
        return
    add_outer(dwh[:, : 2 * n], rows, drive[:, : 2 * n])
    if cell == "gru_after":
        add_outer(dwh[:, 2 * n :], rows, extra)
    else:
        add_outer(dwh[:, 2 * n :], extra, drive[:, 2 * n :])
