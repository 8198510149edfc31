"""Native causal linear attention, as torch operators that compile, autocast and autograd see.

`threefold::linear` and `threefold::linear_backward` are plain C underneath (cpp/linear_isa.cpp). Backward recomputes
states, so that what is saved grows with T (K + V) and not with T F. A second derivative takes the torch path.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.kernels.native import BYTES, LARGE, available, fresh, native, watched
from threefold.ops import linear
from threefold.ops.linear import LinearState
from threefold.ops.scan import transformed
from threefold.specs.features import Elu1, FeatureMap, Identity, Relu, Taylor

SUFFIX = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64"}
WIDE = {torch.float32: torch.float32, torch.bfloat16: torch.float32, torch.float64: torch.float64}
ACTIVATIONS = {Identity: 0, Relu: 1, Elu1: 2, Taylor: 0}  # as in linear_block.h
CALL = struct.Struct("=13qd29q")  # `Call` of linear_block.h
SMALL = 1 << 19  # multiply-adds below which a second thread costs more than it brings
Outputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]

LIBRARY = torch.library.Library("threefold", "FRAGMENT")
LIBRARY.define(
    "linear(Tensor q, Tensor k, Tensor v, Tensor memory, Tensor mass, Tensor? valid, Tensor? rates, int activation, "
    "int degree, float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
LIBRARY.define(
    "linear_backward(Tensor dy, Tensor? dmemory, Tensor? dmass, Tensor q, Tensor k, Tensor v, Tensor memory, "
    "Tensor mass, Tensor y, Tensor n, Tensor? valid, Tensor? rates, int activation, int degree, float scale) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def supports(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: LinearState,
    features: FeatureMap,
    valid: Tensor | None = None,
    rates: Tensor | None = None,
) -> str:
    """Empty when the native operator computes this call, else the reason why not."""
    if reason := available() or unsupported(features, q.dtype):
        return reason
    if not (q.dtype == k.dtype == v.dtype):
        return f"q, k and v differ in dtype ({q.dtype}, {k.dtype}, {v.dtype})"
    if not (q.is_cpu and state.memory.is_cpu):
        return f"the tensors are on {q.device.type}"
    if state.memory.dtype != WIDE[q.dtype]:
        return f"the state is {state.memory.dtype}, native {q.dtype} accumulates in {WIDE[q.dtype]}"
    if not (q.numel() and v.numel()):
        return "there is nothing to compute"
    if rates is not None and rates.requires_grad:
        return "the decay is being learned"
    if torch.compiler.is_exporting():
        return "a program is being exported"
    return "forward-mode derivatives and vmap take the torch path" if transformed() else ""


def unsupported(features: FeatureMap, dtype: torch.dtype) -> str:
    """Why these features or this dtype have no native form; empty when they have."""
    if type(features) not in ACTIVATIONS or getattr(features, "degree", 0) > 2:
        degree = f" of degree {features.degree}" if hasattr(features, "degree") else ""
        name = type(features).__name__  # a dataclass's repr would break a compiled graph
        return f"{name}{degree} has no native form (Taylor of degree 1 and 2, Elu1, Relu and Identity have)"
    return "" if dtype in SUFFIX else f"{dtype} has no native form (float32, bfloat16 and float64 have)"


def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: LinearState,
    features: FeatureMap,
    valid: Tensor | None = None,
    rates: Tensor | None = None,
) -> tuple[Tensor, LinearState]:
    """`ops.linear.chunked` (and, for one token, `step`), natively."""
    rates = rates if rates is None else rates.double()
    given = (q, k, v, state.memory, state.mass)
    rest = (valid, rates, *_numbers(features, q.shape[-1]))
    if watched(*given):
        y, _, memory, mass, bad = torch.ops.threefold.linear.default(*given, *rest)
    else:
        y, _, memory, mass, bad = _forward(*given, *rest, learning=False)
    tokens = state.tokens + (q.shape[1] if valid is None else valid.sum(1))
    return y, LinearState(memory, mass, tokens, state.nonpositive + bad)


def _numbers(features: FeatureMap, key_dim: int) -> tuple[int, int, float]:
    return ACTIVATIONS[type(features)], getattr(features, "degree", 0), features.scale(key_dim)


@lru_cache(maxsize=256)
def shares(batch: int, heads: int, registers: int, work: int, threads: int) -> tuple[int, int, int]:
    """Threads, slices of the values and heads per task.

    A task takes several heads where that leaves the threads equally busy, for neighbouring heads share pages of memory;
    where rows and heads are too few, the values are cut.
    """
    if work < SMALL:
        return 1, 1, heads
    if batch * heads < threads:
        return threads, min(registers, -(-threads // (batch * heads))), 1

    def busy(group: int) -> float:
        tasks = batch * -(-heads // group)
        return batch * heads / (group * -(-tasks // threads) * threads)

    return threads, 1, max(range(1, min(heads, 8) + 1), key=lambda group: (round(busy(group), 2), group))


def _rows(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _call(name: str, given: tuple[Tensor, ...], options: tuple[Any, ...], written: Mapping[str, Tensor | None]) -> None:
    """Pack `Call` and run it. `given` is q, k, v, memory, mass; `written` the rest, by their names in `Call`."""
    q, k, v, memory, mass = given
    valid, rates, activation, degree, scale, slices, heads, threads, streams = options
    batch, length, count, key_dim = q.shape

    def address(x: Tensor | None) -> int:
        return 0 if x is None else x.data_ptr()

    packed = CALL.pack(
        *(batch, length, count, key_dim, v.shape[-1], memory.shape[2], activation, degree),
        *(mass.shape[-1] > 0, threads, slices, heads, streams, scale, address(rates), address(valid)),
        *(q.data_ptr(), k.data_ptr(), v.data_ptr(), *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        *(memory.data_ptr(), address(mass)),
        *map(address, map(written.get, ("y", "n", "S", "z", "bad", "dy", "dS", "dz", "dq", "dk", "dv", "dS0", "dz0"))),
    )
    native().function(f"tf_linear_{name}_{SUFFIX[q.dtype]}", (BYTES,))(packed)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, memory: Tensor, mass: Tensor, valid: Tensor | None, rates: Tensor | None,
    activation: int, degree: int, scale: float, *, learning: bool = True,
) -> Outputs:  # fmt: skip
    q, k, v, memory, mass = _rows(q), _rows(k), _rows(v), memory.contiguous(), mass.contiguous()
    valid = valid if valid is None else valid.contiguous()
    batch, length, heads = q.shape[:3]
    y = fresh(v.shape, v.dtype)
    n = mass.new_empty((batch, heads, length if mass.shape[-1] else 0))
    S, z, bad = torch.empty_like(memory), torch.empty_like(mass), torch.zeros(batch, dtype=torch.long)
    work = memory.numel() * length
    threads, slices, group = shares(batch, heads, -(-v.shape[-1] // 16), work, torch.get_num_threads())
    written = {"y": y, "n": n, "S": S, "z": z, "bad": bad}
    streams = not learning or y.nbytes >= LARGE  # backward reads y again; a projection is as fast either way
    options = (valid, rates, activation, degree, scale, slices, group, threads, streams)
    _call("step" if length == 1 else "forward", (q, k, v, memory, mass), options, written)
    return y, n, S, z, bad


def _backward(
    dy: Tensor, dmemory: Tensor | None, dmass: Tensor | None, q: Tensor, k: Tensor, v: Tensor, memory: Tensor,
    mass: Tensor, y: Tensor, n: Tensor, valid: Tensor | None, rates: Tensor | None,
    activation: int, degree: int, scale: float,
) -> Outputs:  # fmt: skip
    q, k, v, memory, mass, dy = _rows(q), _rows(k), _rows(v), memory.contiguous(), mass.contiguous(), dy.contiguous()
    valid, dmemory, dmass = (x if x is None else x.contiguous() for x in (valid, dmemory, dmass))
    batch, length, heads = q.shape[:3]
    work = memory.numel() * length
    threads, slices, group = shares(batch, heads, -(-v.shape[-1] // 16), work, torch.get_num_threads())
    dq, dk = (fresh(x.shape, x.dtype) if slices == 1 else memory.new_empty((slices, *x.shape)) for x in (q, k))
    dv, dS0, dz0 = fresh(v.shape, v.dtype), torch.empty_like(memory), torch.empty_like(mass)
    written = {
        "dy": dy,
        "dS": dmemory,
        "dz": dmass,
        "y": y,
        "n": n,
        "dq": dq,
        "dk": dk,
        "dv": dv,
        "dS0": dS0,
        "dz0": dz0,
    }
    options = (valid, rates, activation, degree, scale, slices, group, threads, dv.nbytes >= LARGE)
    _call("backward", (q, k, v, memory, mass), options, written)
    if slices > 1:
        dq, dk = dq.sum(0).to(q.dtype), dk.sum(0).to(k.dtype)
    return dq, dk, dv, dS0, dz0


LIBRARY.impl("linear", _forward, "CPU")
LIBRARY.impl("linear_backward", _backward, "CPU")


@torch.library.register_fake("threefold::linear", lib=LIBRARY)
def _(q: Tensor, k: Tensor, v: Tensor, memory: Tensor, mass: Tensor, *rest: Any) -> Outputs:
    n = mass.new_empty((q.shape[0], q.shape[2], q.shape[1] if mass.shape[-1] else 0))
    bad = q.new_empty((q.shape[0],), dtype=torch.long)
    return v.new_empty(v.shape), n, torch.empty_like(memory), torch.empty_like(mass), bad


@torch.library.register_fake("threefold::linear_backward", lib=LIBRARY)
def _(dy: Tensor, dmemory: Tensor | None, dmass: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in rest[:5])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:5], output[0], output[1], *inputs[5:7])
    ctx.numbers = inputs[7:]


def _pull(
    ctx: Any, dy: Tensor | None, dn: None, dmemory: Tensor | None, dmass: Tensor | None, dbad: None
) -> tuple[Any, ...]:
    saved = ctx.saved_tensors
    dy = torch.zeros_like(saved[5]) if dy is None else dy
    return (*torch.ops.threefold.linear_backward.default(dy, dmemory, dmass, *saved, *ctx.numbers), *(None,) * 5)


torch.library.register_autograd("threefold::linear", _pull, setup_context=_keep, lib=LIBRARY)


def _keep_backward(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:8], *inputs[10:12])
    ctx.numbers = inputs[12:]


def _pull_backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
    """The second derivative: that of the torch path, at the same point."""
    *tensors, valid, rates = ctx.saved_tensors
    with torch.enable_grad():
        leaves = [x if x is None else x.detach().requires_grad_() for x in tensors]
        first = _gradients(leaves, ctx.numbers, valid, rates)
        pairs = [(o, g) for o, g in zip(first, given, strict=True) if g is not None and o.requires_grad]
        wanted = [x for x in leaves if x is not None]
        second = iter(torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True))
    return (*(None if x is None else next(second) for x in leaves), *(None,) * 7)


def _gradients(leaves: list[Any], numbers: Any, valid: Tensor | None, rates: Tensor | None) -> tuple[Tensor, ...]:
    """`threefold::linear_backward` in differentiable torch operations."""
    dy, dmemory, dmass, q, k, v, memory, mass = leaves
    zero = torch.zeros(len(q), dtype=torch.long)
    y, after = inspect.unwrap(linear.chunked)(
        *(q, k, v, LinearState(memory, mass, zero, zero)), features=_features(*numbers), valid=valid, rates=rates
    )
    pairs = [(o, g) for o, g in ((y, dy), (after.memory, dmemory), (after.mass, dmass)) if g is not None]
    return torch.autograd.grad(
        *([o for o, _ in pairs], leaves[3:], [g for _, g in pairs]), create_graph=True, materialize_grads=True
    )


torch.library.register_autograd("threefold::linear_backward", _pull_backward, setup_context=_keep_backward, lib=LIBRARY)


def _features(activation: int, degree: int, scale: float) -> FeatureMap:
    if degree:
        return Taylor(degree, odd=True)
    for kind, number in ACTIVATIONS.items():
        if number == activation:
            return kind()
    raise InputError(f"activation {activation} is unknown: give 0, 1 or 2.")


ACCELERATOR = linear.Accelerator(supports, run)
