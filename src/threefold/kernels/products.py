"""Large matrix products natively, where their sizes fill whole registers; torch's for any others.

torch's own run at half of what this machine's vectors give where its library chooses narrower ones for the processor.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from threefold.kernels.native import LONG, POINTER, native

SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


class Product(ctypes.Structure):
    """`Product` of products.h, field by field."""

    _fields_ = [
        *((name, LONG) for name in ("M", "K", "N", "lda", "ldb", "ldo", "turned", "threads")),
        *((name, POINTER) for name in ("a", "b", "out")),
    ]


@cache
def _unit(isa: str, suffix: str, which: int, size: int) -> int:
    """What a size must be a multiple of, for this instruction set."""
    found = LONG()
    ask = native().function(f"tf_product_unit_{suffix}", (LONG, LONG, ctypes.POINTER(LONG)))
    ask(which, size, ctypes.byref(found))
    return found.value


def _fits(x: Tensor, which: int, size: int) -> bool:
    return size > 0 and size % _unit(native().isa, SUFFIX[x.dtype], which, size) == 0


def _run(name: str, a: Tensor, b: Tensor, out: Tensor, sizes: tuple[int, int, int], *, turned: bool = False) -> None:
    distances = (a.stride(0), b.stride(0), out.stride(0))
    addresses = (a.data_ptr(), b.data_ptr(), out.data_ptr())
    call = Product(*sizes, *distances, turned, torch.get_num_threads(), *addresses)
    native().function(f"tf_product_{name}_{SUFFIX[a.dtype]}", (ctypes.POINTER(Product),))(ctypes.byref(call))


def rows_times(a: Tensor, b: Tensor, out: Tensor, *, turned: bool = False) -> None:
    """out = a b, or a b^T where b is turned. Rows are dense in all three."""
    count = out.shape[1]
    if _fits(a, 0, count) and a.stride(1) == b.stride(1) == out.stride(1) == 1:
        _run("rows", a, b, out, (len(a), a.shape[1], count), turned=turned)
    else:
        torch.mm(a, b.T if turned else b, out=out)


def add_outer(out: Tensor, a: Tensor, b: Tensor) -> None:
    """out += a^T b."""
    if _fits(a, 1, a.shape[1]) and _fits(a, 2, b.shape[1]) and a.stride(1) == b.stride(1) == out.stride(1) == 1:
        _run("outer", a, b, out, (len(a), a.shape[1], b.shape[1]))
    else:
        out.addmm_(a.T, b)
