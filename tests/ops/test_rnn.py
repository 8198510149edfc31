"""The identity RNN with W_x = 1, W_h = -1: an alternating sum, and under a steep sigmoid an exact comparator."""

from itertools import product

import pytest
import torch
from torch import Tensor

from threefold.ops.cells import Weights
from threefold.ops.recurrence import sequence
from threefold.ops.rnn import IdentityCell


def alternating(x: Tensor, h0: Tensor) -> Tensor:
    """h_T of h_t = x_t - h_{t-1}, for x (B, T) and h0 (B,)."""
    one = torch.ones(1, 1, dtype=x.dtype)
    _, (h,) = sequence(IdentityCell(), x[..., None], (h0[:, None],), Weights(one, -one))
    return h[:, 0]


@pytest.mark.parametrize("t", [1, 2, 3, 4, 7, 10])
def test_closed_form_and_the_one_that_needs_even_length(t: int) -> None:
    """T-ALT-1."""
    draw = torch.Generator().manual_seed(t)
    x, h0 = torch.randn(5, t, generator=draw, dtype=torch.float64), torch.randn(5, generator=draw, dtype=torch.float64)
    signs = (-1.0) ** torch.arange(t - 1, -1, -1, dtype=torch.float64)
    h = alternating(x, h0)
    assert torch.allclose(h, x @ signs + (-1) ** t * h0, rtol=0, atol=1e-12)
    even_form = x[:, 1::2].sum(1) - x[:, 0::2].sum(1) + h0
    assert torch.allclose(h, even_form, rtol=0, atol=1e-12) == (t % 2 == 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_steep_sigmoid_of_it_compares_exactly(dtype: torch.dtype) -> None:
    """T-ALT-2."""
    x = torch.tensor(list(product((0.0, 1.0), repeat=8)), dtype=dtype)
    y = torch.sigmoid(1000 * alternating(x, torch.zeros(256, dtype=dtype)))
    difference = x[:, 1::2].sum(1) - x[:, 0::2].sum(1)
    assert torch.equal(y, (torch.sign(difference) + 1) / 2)


def test_gradient_at_a_tie_is_plus_minus_250() -> None:
    """T-ALT-2."""
    x = torch.ones(1, 8, dtype=torch.float64, requires_grad=True)
    torch.sigmoid(1000 * alternating(x, torch.zeros(1, dtype=torch.float64))).sum().backward()
    assert torch.equal(x.grad, 250 * (-1.0) ** torch.arange(7, -1, -1, dtype=torch.float64)[None])
