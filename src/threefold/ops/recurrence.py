"""A recurrent sequence as one opaque op with one autograd node, whatever the cell.

`threefold::recurrent` runs a cell over (B, T, D); `threefold::recurrent_backward` is its closed-form backward through
time. Both are torch custom ops: a compiled graph holds them as one node each. Second derivatives are those of the
composite form, the plain loop of differentiable steps, which is run again when they are asked for.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from threefold.ops import cells
from threefold.ops.cells import Cell, Gradients, Named, State, Weights
from threefold.ops.gru import ResetAfter, ResetBefore
from threefold.ops.lstm import LSTMCell
from threefold.ops.rnn import IdentityCell, TanhCell
from threefold.ops.scan import accumulator, cleared

CELLS: dict[str, Cell] = {
    cell.name: cell for cell in (TanhCell(), IdentityCell(), LSTMCell(), ResetBefore(), ResetAfter())
}
WEIGHTS = "Tensor wx, Tensor wh, Tensor? bias, Tensor? inner"
INPUTS = f"str cell, Tensor x, Tensor h0, Tensor? c0, {WEIGHTS}, Tensor? valid"


def sequence(
    cell: Cell,
    x: Float[Tensor, "b t d"],
    state: State,
    w: Weights,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[State, State]:
    """Every state after every token, each (B, T, N), and the last: resumable at any token.

    Runs in float32 or wider. An invalid token leaves the state bitwise as it was and its content is not read.
    """
    if x.shape[1] == 0:
        return tuple(part[:, None][:, :0] for part in state), state
    dtype = accumulator(torch.promote_types(x.dtype, w.x.dtype))
    x, w, state = cleared(x, valid).to(dtype), w.to(dtype), tuple(part.to(dtype) for part in state)
    c0 = state[1] if len(state) == 2 else None
    h, c, _ = torch.ops.threefold.recurrent(cell.name, x, state[0], c0, *w, valid)
    states = (h,) if c0 is None else (h, c)
    return states, tuple(part[:, -1] for part in states)


def step(
    cell: Cell, x: Float[Tensor, "b d"], state: State, w: Weights, valid: Bool[Tensor, " b"] | None = None
) -> State:
    """The definition: one token, in differentiable torch operations."""
    dtype = accumulator(torch.promote_types(x.dtype, w.x.dtype))
    state = tuple(part.to(dtype) for part in state)
    new = cell.step(x.to(dtype), state, w.to(dtype))
    return new if valid is None else cells.choose(valid[:, None], new, state)


def path(cell: Cell, x: Float[Tensor, "b t d"], w: Weights) -> str:
    """Which code runs a sequence like x."""
    return "torch"


def derivation(
    cell: Cell,
    x: Float[Tensor, "b t d"],
    state: State,
    w: Weights,
    upstream: State,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[Named, Gradients]:
    """Every forward and backward signal of the cell's equations by name, and all gradients: to check a derivation.

    `upstream` is dL/d(states) from outside the recurrence, each (B, T, N): for an LSTM whose loss reads a alone,
    (W_y^T dz, 0). Signals come back as (B, T, N), in the names of the cell's module: for an LSTM `Gamma_u`,
    `c_tilde`, `da`, `dc`, `dgamma_f`, `dp`, ...; `dx` is (B, T, D). T >= 1.
    """
    x, mask = cleared(x, valid).transpose(0, 1), None if valid is None else valid.T
    states, kept = cells.forward(cell, x, state, w, mask)
    ups = tuple(part.transpose(0, 1) for part in upstream)
    gradients, named = cells.backward(cell, ups, x, state, w, mask, states, kept)
    named = cell.forward_signals(kept, states) | named | {"dx": gradients.x}
    named = {name: signal.transpose(0, 1) for name, signal in named.items()}
    return named, gradients._replace(x=named["dx"])


def _some(tensor: Tensor | None, like: Tensor) -> Tensor:
    return like.new_empty(0) if tensor is None else tensor.contiguous()


def _state(h: Tensor, c: Tensor | None) -> State:
    return (h,) if c is None else (h, c)


@torch.library.custom_op("threefold::recurrent", mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor, Tensor)")
def _recurrent(
    cell: str,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    wx: Tensor,
    wh: Tensor,
    bias: Tensor | None,
    inner: Tensor | None,
    valid: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    with torch.autocast(x.device.type, enabled=False):
        mask = None if valid is None else valid.T
        w = Weights(wx, wh, bias, inner)
        states, kept = cells.forward(CELLS[cell], x.transpose(0, 1), _state(h0, c0), w, mask)
    return states[0].transpose(0, 1), states[1].transpose(0, 1) if c0 is not None else x.new_empty(0), kept


@_recurrent.register_fake
def _(
    cell: str,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    wx: Tensor,
    wh: Tensor,
    bias: Tensor | None,
    inner: Tensor | None,
    valid: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    (b, t, _), n = x.shape, wh.shape[1]
    h = x.new_empty(t, b, n).transpose(0, 1)
    return h, torch.empty_like(h) if c0 is not None else x.new_empty(0), x.new_empty(t, b, CELLS[cell].kept * n)


@torch.library.custom_op(
    "threefold::recurrent_backward",
    mutates_args=(),
    schema=f"({INPUTS}, Tensor dh, Tensor? dc, Tensor h, Tensor c, Tensor kept, bool need_x) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _recurrent_backward(
    cell: str,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    wx: Tensor,
    wh: Tensor,
    bias: Tensor | None,
    inner: Tensor | None,
    valid: Tensor | None,
    dh: Tensor,
    dc: Tensor | None,
    h: Tensor,
    c: Tensor,
    kept: Tensor,
    need_x: bool,
) -> tuple[Tensor, ...]:
    if c0 is not None and dc is None:
        dc = torch.zeros_like(dh)
    with torch.autocast(x.device.type, enabled=False):
        gradients, _ = cells.backward(
            CELLS[cell],
            tuple(up.transpose(0, 1) for up in _state(dh, dc)),
            x.transpose(0, 1),
            _state(h0, c0),
            Weights(wx, wh, bias, inner),
            None if valid is None else valid.T,
            tuple(part.transpose(0, 1) for part in _state(h, None if c0 is None else c)),
            kept,
        )
    dh0, dc0 = (*gradients.state, None)[:2]
    dw = gradients.weights
    dx = _some(gradients.x.transpose(0, 1) if need_x else None, x)
    return dx, _some(dh0, x), _some(dc0, x), dw.x, dw.h, _some(dw.bias, x), _some(dw.inner, x)


@_recurrent_backward.register_fake
def _(
    cell: str,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    wx: Tensor,
    wh: Tensor,
    bias: Tensor | None,
    inner: Tensor | None,
    valid: Tensor | None,
    dh: Tensor,
    dc: Tensor | None,
    h: Tensor,
    c: Tensor,
    kept: Tensor,
    need_x: bool,
) -> tuple[Tensor, ...]:
    def like(tensor: Tensor | None) -> Tensor:
        return x.new_empty(0 if tensor is None else tensor.shape)

    return like(x if need_x else None), like(h0), like(c0), like(wx), like(wh), like(bias), like(inner)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.cell, *tensors = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, *output)


def _first(ctx: Any, dh: Tensor | None, dc: Tensor | None, _: Tensor | None) -> tuple:
    *inputs, h, c, kept = ctx.saved_tensors
    if dh is None:
        dh = torch.zeros_like(h)
    found = torch.ops.threefold.recurrent_backward(
        ctx.cell, *inputs, dh, dc if inputs[2] is not None else None, h, c, kept, ctx.needs_input_grad[1]
    )
    wanted = zip(found, inputs, ctx.needs_input_grad[1:], strict=False)
    return None, *(grad if tensor is not None and need else None for grad, tensor, need in wanted), None


def _keep_inputs(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    ctx.cell, *tensors = inputs[:-4]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _second(ctx: Any, *upstream: Tensor | None) -> tuple:
    """Gradients of the first gradients, through the composite form; h, c, kept follow from the inputs and get none."""
    create = torch.is_grad_enabled()
    *saved, valid, dh, dc = ctx.saved_tensors
    with torch.enable_grad():
        primals = [_fresh(tensor) for tensor in saved]
        x, h0, c0, *w = cast(list[Tensor], primals)
        outside = [_fresh(dh), _fresh(dc)]
        mask = None if valid is None else valid.T
        states, _ = cells.forward(CELLS[ctx.cell], x.transpose(0, 1), _state(h0, c0), Weights(*w), mask)
        outputs = [(part.transpose(0, 1), up) for part, up in zip(states, outside, strict=False) if up is not None]
        firsts = _gradients(outputs, primals, create=True)
        reached = [(g, up) for g, up in zip(firsts, upstream, strict=True) if g is not None and up is not None]
        *wanted, ddh, ddc = _gradients(reached, [*primals, *outside], create=create)
    return None, *wanted, None, ddh, ddc, None, None, None, None


def _gradients(pairs: list, sources: list[Tensor | None], *, create: bool) -> list[Tensor | None]:
    if not pairs:
        return [None] * len(sources)
    given = [source for source in sources if source is not None]
    heads, upstream = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(heads, given, upstream, create_graph=create, allow_unused=True))
    return [None if source is None else next(found) for source in sources]


def _fresh(tensor: Tensor | None) -> Tensor | None:
    """A node of its own, so that no gradient is counted again through what the tensor was made of."""
    if tensor is None:
        return None
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()


_recurrent.register_autograd(_first, setup_context=_keep)
_recurrent_backward.register_autograd(_second, setup_context=_keep_inputs)
