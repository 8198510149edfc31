"""One opaque op for every cell: its derivatives, its masks, its promises to a compiled graph."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from threefold.ops.cells import State, Weights
from threefold.ops.recurrence import CELLS, sequence, step
from threefold.ops.scan import scan

NAMES = list(CELLS)
F64 = torch.float64


def drawn(
    name: str, b: int = 2, t: int = 3, d: int = 2, n: int = 3, bias: bool = True
) -> tuple[Tensor, State, Weights]:
    cell, draw = CELLS[name], torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return (0.7 * torch.randn(*shape, generator=draw, dtype=F64)).requires_grad_()

    g = len(cell.gates)
    inner = normal(n) if name == "gru_after" and bias else None
    w = Weights(normal(g * n, d), normal(g * n, n), normal(g * n) if bias else None, inner)
    return normal(b, t, d), tuple(normal(b, n) for _ in cell.parts), w


def flat_function(name: str, x: Tensor, state: State, w: Weights, valid: Tensor | None):
    """(tensors that need a gradient, a function of them that returns every state)."""
    present = [i for i, tensor in enumerate(w) if tensor is not None]

    def run(x: Tensor, *rest: Tensor) -> State:
        parts, given = rest[: len(state)], list(rest[len(state) :])
        filled = [given.pop(0) if i in present else None for i in range(4)]
        return sequence(CELLS[name], x, parts, Weights(*filled), valid)[0]

    return (x, *state, *(w[i] for i in present)), run


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("name", NAMES)
def test_first_and_second_derivatives(name: str, masked: bool, bias: bool) -> None:
    valid = torch.tensor([[True, False, True], [False, False, False]]) if masked else None
    inputs, run = flat_function(name, *drawn(name, bias=bias), valid)
    assert gradcheck(run, inputs, fast_mode=True)
    assert gradgradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_third_derivatives_are_those_of_the_steps(name: str) -> None:
    x, state, w = drawn(name)

    def third(states: State) -> Tensor:
        value = sum((part**3).sum() for part in states)
        for _ in range(2):
            (gradient,) = torch.autograd.grad(value, w.h, create_graph=True)
            value = gradient.sin().sum()
        return torch.autograd.grad(value, x)[0]

    def stepped() -> State:
        parts, trace = state, []
        for token in x.unbind(1):
            parts = step(CELLS[name], token, parts, w)
            trace.append(parts)
        return tuple(torch.stack(part, 1) for part in zip(*trace, strict=True))

    assert torch.allclose(third(sequence(CELLS[name], x, state, w)[0]), third(stepped()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_token_leaves_the_state_bitwise_and_its_content_unread(name: str) -> None:
    x, state, w = drawn(name, b=3, t=6)
    valid = torch.tensor([[1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 1, 1]], dtype=torch.bool)
    dirty = torch.where(valid[..., None], x, torch.nan)
    states, last = sequence(CELLS[name], dirty, state, w, valid)
    for part, first, end in zip(states, state, last, strict=True):
        before = torch.cat((first[:, None], part[:, :-1]), 1)
        assert torch.equal(part[~valid], before[~valid])
        assert torch.equal(end[1], first[1])
    for row in range(3):
        alone, _ = sequence(CELLS[name], x[row, valid[row]][None], tuple(p[row : row + 1] for p in state), w)
        for part, packed in zip(states, alone, strict=True):
            assert torch.allclose(part[row, valid[row]], packed[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_nan_in_padding_reaches_no_gradient(name: str) -> None:
    x, state, w = drawn(name)
    valid = torch.tensor([[True, True, False], [False, False, False]])

    def gradients(content: float) -> tuple[Tensor, ...]:
        filled = torch.where(valid[..., None], x, content)
        states, _ = sequence(CELLS[name], filled, state, w, valid)
        return torch.autograd.grad(states[0][valid].sum(), (x, *state, *(p for p in w if p is not None)))

    for dirty, clean in zip(gradients(torch.nan), gradients(0.0), strict=True):
        assert torch.equal(dirty, clean)


def broken_mask(name: str, x: Tensor, state: State, w: Weights, valid: Tensor) -> State:
    """A mask as a product: what the selection replaces."""
    return sequence(CELLS[name], x * valid[..., None], state, w)[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_that_only_clears_the_input_is_rejected(name: str) -> None:
    x, state, w = drawn(name)
    valid = torch.tensor([[True, False, False], [True, True, False]])
    _, last = sequence(CELLS[name], x, state, w, valid)
    assert (broken_mask(name, x, state, w, valid)[0] - last[0]).abs().max() > 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_any_split_and_length_zero(name: str) -> None:
    x, state, w = drawn(name, t=5)
    whole, last = sequence(CELLS[name], x, state, w)
    for cut in range(6):
        head, middle = sequence(CELLS[name], x[:, :cut], state, w)
        tail, end = sequence(CELLS[name], x[:, cut:], middle, w)
        joined = tuple(torch.cat(pieces, 1) for pieces in zip(head, tail, strict=True))
        for found, wanted in zip((*joined, *end), (*whole, *last), strict=True):
            assert torch.allclose(found, wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_scan_of_its_step(name: str) -> None:
    x, state, w = drawn(name, t=7)
    valid = torch.rand(2, 7, generator=torch.Generator().manual_seed(0)) > 0.4

    def one(token: Tensor, parts: State, mask: Tensor | None) -> tuple[Tensor, State]:
        parts = step(CELLS[name], token, parts, w, mask)
        return parts[0], parts

    wanted, _ = scan(one, x, state, valid=valid)
    assert torch.allclose(sequence(CELLS[name], x, state, w, valid)[0][0], wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["lstm", "gru_after", "gru_before", "tanh"])
def test_the_op_keeps_its_promises_to_the_compiler(name: str) -> None:
    """Schema, fake shapes and strides, autograd registration: torch's own check of a custom op."""
    x, state, w = drawn(name)
    valid = torch.tensor([[True, False, True], [True, True, True]])
    inputs = (name, x, state[0], state[1] if len(state) == 2 else None, *w)
    for mask in (None, valid):
        torch.library.opcheck(torch.ops.threefold.recurrent, (*inputs, mask), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_does_not_narrow_the_state(name: str) -> None:
    x, state, w = drawn(name)
    x, w = x.detach().float(), w.to(torch.float32)
    state = tuple(part.detach().float() for part in state)
    plain, _ = sequence(CELLS[name], x, state, w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        auto, _ = sequence(CELLS[name], x, state, w)
    assert torch.equal(plain[0], auto[0])
