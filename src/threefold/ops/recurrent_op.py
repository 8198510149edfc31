"""A recurrent sequence as one opaque op with one autograd node, whatever the cell.

`threefold::recurrent` runs a cell over (B, T, D) and `threefold::recurrent_backward` is its closed-form backward
through time; a compiled graph holds each as one node. What is registered here runs on any device; `kernels.recurrent`
adds native code for the CPU. Second derivatives are those of the composite form, the plain loop of differentiable
steps, which is run again when they are asked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from threefold.ops import cells
from threefold.ops.cells import Cell, State, Weights
from threefold.ops.gru import ResetAfter, ResetBefore
from threefold.ops.lstm import LSTMCell
from threefold.ops.rnn import IdentityCell, TanhCell

CELLS: dict[str, Cell] = {
    cell.name: cell for cell in (TanhCell(), IdentityCell(), LSTMCell(), ResetBefore(), ResetAfter())
}
INPUTS = "str cell, Tensor x, Tensor h0, Tensor? c0, Tensor wx, Tensor wh, Tensor? bias, Tensor? inner, Tensor? valid"
SAVED = "Tensor dh, Tensor? dc, Tensor h, Tensor c, Tensor kept, bool need_x"


class Given(NamedTuple):
    """The op's tensors. x is (B, T, D) with T >= 1 and nothing but numbers in it; valid is (B, T)."""

    x: Tensor
    h0: Tensor
    c0: Tensor | None
    wx: Tensor
    wh: Tensor
    bias: Tensor | None
    inner: Tensor | None
    valid: Tensor | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """T, B, N."""
        return self.x.shape[1], self.x.shape[0], self.wh.shape[1]

    @property
    def state(self) -> State:
        return _state(self.h0, self.c0)

    @property
    def weights(self) -> Weights:
        return Weights(self.wx, self.wh, self.bias, self.inner)

    @property
    def mask(self) -> Tensor | None:
        """`valid`, time first."""
        return None if self.valid is None else self.valid.T


class Later(NamedTuple):
    """What the backward is given besides: gradients from outside, and what the forward left."""

    dh: Tensor  # this and the next three are (B, T, N)
    dc: Tensor | None
    h: Tensor
    c: Tensor
    kept: Tensor  # (T, B, K N)
    need_x: bool


def _state(h: Tensor, c: Tensor | None) -> State:
    return (h,) if c is None else (h, c)


def none_like(tensor: Tensor) -> Tensor:
    """Stands for no tensor among an op's results. One for each: results must not share memory."""
    return tensor.new_empty(0)


def run(cell: str, given: Given) -> tuple[Tensor, Tensor, Tensor]:
    """h and c after every token, and what the backward needs of the gates; in torch."""
    with torch.autocast(given.x.device.type, enabled=False):
        states, kept = cells.forward(CELLS[cell], given.x.transpose(0, 1), given.state, given.weights, given.mask)
    return states[0].transpose(0, 1), states[-1].transpose(0, 1) if given.c0 is not None else none_like(kept), kept


def run_backward(cell: str, given: Given, later: Later) -> tuple[Tensor, ...]:
    """The gradients of x, h0, c0, wx, wh, bias, inner; in torch."""
    dh, dc = later.dh, later.dc
    if given.c0 is not None and dc is None:
        dc = torch.zeros_like(dh)
    ups = tuple(part.transpose(0, 1) for part in _state(dh, dc))
    states = tuple(part.transpose(0, 1) for part in _state(later.h, None if given.c0 is None else later.c))
    with torch.autocast(dh.device.type, enabled=False):
        x = given.x.transpose(0, 1)
        found, _ = cells.backward(CELLS[cell], ups, x, given.state, given.weights, given.mask, states, later.kept)
    dx = found.x.transpose(0, 1) if later.need_x else none_like(dh)
    rest = (*found.state, *((None,) if given.c0 is None else ()), *found.weights)
    return dx, *(none_like(dh) if gradient is None else gradient.contiguous() for gradient in rest)


@torch.library.custom_op("threefold::recurrent", mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor, Tensor)")
def recurrent(cell: str, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The op for any device."""
    return run(cell, Given(*inputs))


@recurrent.register_fake
def _(cell: str, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    given = Given(*inputs)
    t, b, n = given.sizes
    h = given.x.new_empty(t, b, n).transpose(0, 1)
    c = none_like(h) if given.c0 is None else torch.empty_like(h)
    return h, c, given.x.new_empty(t, b, CELLS[cell].kept * n)


@torch.library.custom_op(
    "threefold::recurrent_backward",
    mutates_args=(),
    schema=f"({INPUTS}, {SAVED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def recurrent_backward(cell: str, *inputs: Any) -> tuple[Tensor, ...]:
    """Its backward, for any device."""
    return run_backward(cell, Given(*inputs[:8]), Later(*inputs[8:]))


@recurrent_backward.register_fake
def _(cell: str, *inputs: Any) -> tuple[Tensor, ...]:
    given, later = Given(*inputs[:8]), Later(*inputs[8:])
    x, *rest, _ = given
    b, t, d = x.shape
    dx = x.new_empty(t, b, d).transpose(0, 1) if later.need_x else none_like(x)
    return dx, *(none_like(x) if tensor is None else x.new_empty(tensor.shape) for tensor in rest)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.cell, *tensors = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, *output)


def _first(ctx: Any, dh: Tensor | None, dc: Tensor | None, _: Tensor | None) -> tuple:
    *inputs, h, c, kept = ctx.saved_tensors
    given = Given(*inputs)
    later = Later(
        torch.zeros_like(h) if dh is None else dh, None if given.c0 is None else dc, h, c, kept, ctx.needs_input_grad[1]
    )
    found = recurrent_backward(ctx.cell, *given, *later)
    needed = zip(found, given, ctx.needs_input_grad[1:], strict=False)
    return None, *(gradient if tensor is not None and need else None for gradient, tensor, need in needed), None


def _keep_inputs(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    ctx.cell, *tensors = inputs[:11]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _second(ctx: Any, *upstream: Tensor | None) -> tuple:
    """Gradients of the first gradients, through the composite form; h, c, kept follow from the inputs and get none."""
    create = torch.is_grad_enabled()
    *saved, valid, dh, dc = ctx.saved_tensors
    with torch.enable_grad():
        primals, outside = [_fresh(tensor) for tensor in saved], [_fresh(dh), _fresh(dc)]
        given = Given(*cast(Any, (*primals, valid)))
        states, _ = cells.forward(CELLS[ctx.cell], given.x.transpose(0, 1), given.state, given.weights, given.mask)
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


recurrent.register_autograd(_first, setup_context=_keep)
recurrent_backward.register_autograd(_second, setup_context=_keep_inputs)
