"""Feature maps: phi(q).phi(k) is the kernel, the dimension is the packed count, and the sign is what is declared."""

from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt

import numpy as np
import pytest
import sympy
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from threefold.errors import InputError
from threefold.ops.features import elu1, exp_series, lifted, taylor
from threefold.specs.features import Elu1, Identity, Relu, Sign, Taylor

F64 = torch.float64


def unpacked(x: Tensor) -> Tensor:
    """[1; t; vec(t t^T) / sqrt 2]: every ordered pair."""
    outer = (x[:, :, None] * x[:, None, :]).flatten(1) / sqrt(2)
    return torch.cat([torch.ones_like(x[:, :1]), x, outer], 1)


def second_order_only(x: Tensor) -> Tensor:
    """The incomplete map vec(t t^T): it gives (q.k)^2."""
    return (x[:, :, None] * x[:, None, :]).flatten(1)


@pytest.mark.parametrize("D", [1, 2, 5, 8])
def test_the_degree_two_map_in_both_published_forms(D: int) -> None:
    """T-FEAT-1."""
    torch.manual_seed(D)
    q, k = torch.randn(100, D, dtype=F64), torch.randn(100, D, dtype=F64)
    t = (q * k).sum(-1)
    target = 1 + t + t**2 / 2
    scale = target.abs().max()
    for phi in (lambda x: taylor(x, 2), unpacked):
        assert ((phi(q) * phi(k)).sum(-1) - target).abs().max() <= 1e-12 * scale
    incomplete = (second_order_only(q) * second_order_only(k)).sum(-1)
    assert (incomplete - t**2).abs().max() <= 1e-12 * scale, "it equals t^2"
    assert (incomplete - target).abs().max() > 0.1, "and so it is not the kernel"


def test_the_published_vector() -> None:
    x, y = torch.tensor([1.0, 2.0, 3.0], dtype=F64), torch.tensor([0.5, -1.0, 2.0], dtype=F64)
    expected = [1, 1, 2, 3, 0.7071067811865475, 2, 3, 2.82842712474619, 6, 6.363961030678928]
    assert torch.allclose(taylor(x, 2), torch.tensor(expected, dtype=F64), rtol=1e-15)
    assert (taylor(x, 2) @ taylor(y, 2)).item() == pytest.approx(15.625, rel=1e-14)


def test_the_square_as_a_trace_in_symbols() -> None:
    """T-FEAT-2."""
    x, z = sympy.Matrix(sympy.symbols("x1:4")), sympy.Matrix(sympy.symbols("z1:4"))
    square = sympy.expand((x.T * z)[0] ** 2)
    assert sympy.expand((x * x.T * z * z.T).trace() - square) == 0
    pairs = sum(2 * x[i] * z[i] * x[j] * z[j] for i in range(3) for j in range(i + 1, 3))
    assert sympy.expand(sum(x[i] ** 2 * z[i] ** 2 for i in range(3)) + pairs - square) == 0
    mistyped = sum(x[i] ** 2 * z[i] ** 2 for i in range(3)) + pairs - x[1] * z[1] * x[2] * z[2]
    assert sympy.expand(mistyped - square + x[1] * x[2] * z[1] * z[2]) == 0, "one factor 2 lost in the middle line"


@pytest.mark.parametrize(
    ("degree", "D", "packed", "full"),
    [
        (1, 2, 3, 3),
        (2, 2, 6, 7),
        (3, 2, 10, 15),
        (4, 2, 15, 31),
        (1, 64, 65, 65),
        (2, 64, 2145, 4161),
        (3, 64, 47905, 266305),
        (4, 64, 814385, 17043521),
    ],
)
def test_dimensions(degree: int, D: int, packed: int, full: int) -> None:
    """T-FEAT-3."""
    spec = Taylor(degree, odd=degree % 2 == 1)
    assert spec.dim(D) == packed == sum(comb(n + D - 1, D - 1) for n in range(degree + 1))
    assert sum(D**n for n in range(degree + 1)) == full
    assert comb(degree + D - 1, D - 1) != packed, "a single term is not the whole"
    if packed < 3000:
        assert taylor(torch.zeros(D), degree).shape == (packed,)


@pytest.mark.parametrize(("D", "degree"), [(2, 3), (3, 4), (4, 5), (6, 3)])
def test_any_degree_is_the_multi_index_map(D: int, degree: int) -> None:
    """T-FEAT-4."""
    torch.manual_seed(0)
    q, k = torch.randn(7, D, dtype=F64), torch.randn(7, D, dtype=F64)
    columns = [
        torch.stack([x[list(index)].prod() for x in q]) / sqrt(prod(factorial(index.count(i)) for i in set(index)))
        for n in range(degree + 1)
        for index in combinations_with_replacement(range(D), n)
    ]
    assert torch.allclose(taylor(q, degree), torch.stack(columns, 1), rtol=1e-13, atol=1e-13)
    t = (q * k).sum(-1)
    target = sum(t**n / factorial(n) for n in range(degree + 1))
    scale = (taylor(q, degree).abs() * taylor(k, degree).abs()).sum(-1).max()
    assert ((taylor(q, degree) * taylor(k, degree)).sum(-1) - target).abs().max() <= 1e-12 * scale
    assert (exp_series(t, degree) - target).abs().max() <= 1e-12 * scale
    assert (exp_series(t, degree - 1) - target).abs().max() > 1e-6


@pytest.mark.parametrize(("degree", "minimum"), [(2, 0.5), (4, 0.2704), (6, 0.1493), (8, 0.0833)])
def test_even_degrees_are_positive(degree: int, minimum: float) -> None:
    """T-LIN-4."""
    s = torch.linspace(-20, 20, 400001, dtype=F64)
    assert exp_series(s, degree).min().item() == pytest.approx(minimum, abs=1e-4)
    assert Taylor(degree).sign is Sign.POSITIVE


@pytest.mark.parametrize(
    ("degree", "root"), [(1, -1), (3, -1.5960716380), (5, -2.1806071240), (7, -2.75900271), (9, -3.33355149)]
)
def test_odd_degrees_have_one_root_and_must_be_asked_for(degree: int, root: float) -> None:
    """T-LIN-4."""
    roots = np.roots([1 / factorial(n) for n in range(degree, -1, -1)])
    real = roots[np.abs(roots.imag) < 1e-9].real
    assert len(real) == 1 and real[0] == pytest.approx(root, abs=1e-8)
    assert exp_series(torch.tensor(root - 0.01, dtype=F64), degree) < 0
    assert Taylor(degree, odd=True).sign is Sign.SIGNED
    with pytest.raises(InputError, match=f"Use degree {degree + 1}"):
        Taylor(degree)


@pytest.mark.parametrize("degree", [0, -2, 2.0, "2"])
def test_a_degree_is_a_positive_integer(degree) -> None:
    with pytest.raises(InputError, match="give an integer >= 1"):
        Taylor(degree)


def test_declared_signs_hold() -> None:
    torch.manual_seed(0)
    q, k = 3 * torch.randn(64, 5, dtype=F64), 3 * torch.randn(64, 5, dtype=F64)
    assert Elu1().scores(q, k).min() > 0
    assert Relu().scores(q, k).min() >= 0
    assert Identity().scores(q, k).min() < 0
    assert elu1(torch.tensor(-80.0)) > 0, "elu(x) + 1 would round to 0 here"
    assert torch.nn.functional.elu(torch.tensor(-80.0)) + 1 == 0


@pytest.mark.parametrize("spec", [Elu1(), Relu(), Identity(), Taylor(2), Taylor(3, odd=True)])
def test_scores_are_products_of_features(spec) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 6, 4, dtype=F64), torch.randn(2, 5, 4, dtype=F64)
    assert spec.phi(q).shape == (2, 6, spec.dim(4))
    assert torch.allclose(spec.scores(q, k), spec.phi(q) @ spec.phi(k).transpose(1, 2), rtol=1e-12)


def test_derivatives() -> None:
    x = torch.randn(2, 3, dtype=F64, requires_grad=True)
    assert gradcheck(lambda x: taylor(x, 3), (x,)) and gradgradcheck(lambda x: taylor(x, 3), (x,))
    assert gradcheck(elu1, (x,)) and gradcheck(lambda x: exp_series(x, 4), (x,))


def test_lifting_multiplies_elu1_by_one_number_a_token_and_only_far_below_zero() -> None:
    q = torch.tensor([[-200.0, -150.0, -120.5], [-3.0, -0.5, -9.0], [1.0, -300.0, 2.0]], dtype=torch.float64)
    ratio = elu1(lifted(q)) / elu1(q)
    assert torch.allclose(ratio[0], ratio[0, :1].expand(3), rtol=1e-12)
    assert torch.equal(lifted(q)[1:], q[1:])
    assert elu1(lifted(q.float()))[0].sum() > 0 == elu1(q.float())[0].sum(), "exp(-120) is 0 in float32"


def test_lifting_changes_no_gradient_of_a_normalised_output() -> None:
    draw = torch.Generator().manual_seed(0)
    q = (torch.randn(4, 3, generator=draw, dtype=F64) - 6).requires_grad_()
    k, v = (torch.randn(5, 3, generator=draw, dtype=F64) for _ in range(2))

    def read(phi: Tensor) -> Tensor:
        weights = phi @ elu1(k).T
        return (weights / weights.sum(1, keepdim=True)) @ v

    plain, moved = (torch.autograd.grad(read(elu1(each)).square().sum(), q)[0] for each in (q, lifted(q)))
    assert torch.allclose(plain, moved, rtol=1e-10, atol=1e-16)
