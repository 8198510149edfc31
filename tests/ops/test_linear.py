"""Linear attention: associativity, counts, signs, decay and rotation, each against an independent statement."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.flop_counter import FlopCounterMode

from threefold.ops import linear
from threefold.ops.features import elu1, taylor
from threefold.ops.rotate import rotate
from threefold.specs.features import Elu1, FeatureMap, Identity, Relu, Taylor
from threefold.specs.positions import Layout

F64 = torch.float64
FORMS = (linear.step, linear.chunked, linear.parallel)


def inputs(T: int, K: int = 3, V: int = 4, H: int = 2, B: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(7)
    return torch.randn(B, T, H, K, dtype=F64), torch.randn(B, T, H, K, dtype=F64), torch.randn(B, T, H, V, dtype=F64)


def run(form, q: Tensor, k: Tensor, v: Tensor, features: FeatureMap, *, normalised=True, rates=None, chunk=64):
    rest = {"features": features, "rates": rates, "chunk": chunk}
    state = linear.empty(
        len(q), q.shape[2], features.dim(q.shape[-1]), v.shape[-1], normalised=normalised, like=q[0, 0]
    )
    if form is linear.step:
        ys = []
        for t in range(q.shape[1]):
            y, state = form(*(x[:, t : t + 1] for x in (q, k, v)), state, **rest)
            ys.append(y)
        return torch.cat(ys, 1), state
    return form(q, k, v, state, **rest)


def weights(q: Tensor, k: Tensor, features: FeatureMap) -> Tensor:
    """(B, H, T, T): every kernel value, by features alone."""
    q, k = q.transpose(1, 2) * features.scale(q.shape[-1]), k.transpose(1, 2)
    return features.phi(q) @ features.phi(k).transpose(-1, -2)


@pytest.mark.parametrize("features", [Elu1(), Relu(), Taylor(2), Taylor(4)])
@pytest.mark.parametrize("form", FORMS)
def test_forms_equal_the_written_sum(form, features: FeatureMap) -> None:
    q, k, v = inputs(11)
    w = weights(q, k, features).tril()
    total = w.sum(-1, keepdim=True)
    expected = torch.where(total > 0, w / total, 0.0) @ v.transpose(1, 2)
    y, state = run(form, q, k, v, features, chunk=4)
    assert (y.transpose(1, 2) - expected).abs().max() <= 1e-12
    assert state.memory.dtype == F64 and state.tokens.tolist() == [11, 11]
    first = weights(q, k, features)[:, :, :1]
    seen_ahead = first / first.sum(-1, keepdim=True) @ v.transpose(1, 2)
    assert (y[:, 0] - seen_ahead[:, :, 0]).abs().nansum() > 1e-2, "the first token sees itself only"


def test_both_orders_of_the_product_agree() -> None:
    """T-LIN-1."""
    q, k, v = (x[0, :, 0] for x in inputs(33))
    pq, pk = taylor(q, 2), taylor(k, 2)
    left = (pq @ pk.T) @ v / (pq @ pk.T).sum(-1, keepdim=True)
    right = pq @ (pk.T @ v) / (pq @ pk.sum(0))[:, None]
    assert (left - right).abs().max() <= 1e-12
    assert (left - (pq @ pk.T).softmax(-1) @ v).abs().max() > 1e-2, "and neither is softmax attention"
    op, _ = linear.everywhere(*(x[None, :, None] for x in (q * 3**0.5, k, v)), features=Taylor(2), normalised=True)
    assert (op[0, :, 0] - left).abs().max() <= 1e-12


def flops(work) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def test_the_counts_of_the_two_orders() -> None:
    """T-LIN-3."""
    D, M = 8, Taylor(2).dim(8)
    counts = []
    for L in (64, 128, 256, 512):
        q, k, v = (torch.randn(L, D) for _ in range(3))
        pq, pk = taylor(q, 2), taylor(k, 2)
        quadratic = flops(lambda q=q, k=k, v=v: (q @ k.T) @ v)
        associated = flops(lambda pq=pq, pk=pk, v=v: (pq @ (pk.T @ v), pq @ pk.sum(0)[:, None]))
        assert quadratic == 4 * L * L * D
        assert associated == 4 * L * M * D + 2 * L * M
        counts.append((quadratic, associated))
    for (q0, a0), (q1, a1) in pairwise(counts):
        assert math.log2(q1 / q0) == 2 and math.log2(a1 / a0) == 1
    assert 4 * 64 * 64 * D != 4 * 64 * M * D, "the counts differ, so the test can tell them apart"


def test_without_the_exponential_nothing_is_softmax() -> None:
    """T-LIN-5."""
    q, k, v = (x[0, :, 0] for x in inputs(64, K=8, V=8))
    assert ((q @ k.T) @ v - q @ (k.T @ v)).abs().max() <= 1e-12 * (q @ k.T).abs().max() * 64
    assert flops(lambda: (q @ k.T) @ v) == 4 * 64 * 64 * 8 and flops(lambda: q @ (k.T @ v)) == 4 * 64 * 8 * 8
    y, _ = run(linear.step, *(x[None, :, None] for x in (q, k, v)), Identity(), normalised=False)
    assert (y[0, :, 0] - (q @ k.T).tril() @ v).abs().max() <= 1e-11
    assert (y[0, :, 0] - (q @ k.T).softmax(-1) @ v).abs().max() > 0.1
    twice, _ = run(linear.step, *(2 * x[None, :, None] for x in (q, k, v)), Identity(), normalised=False)
    assert torch.allclose(twice, 8 * y, rtol=1e-12), "cubic in x, where every factor is linear"
    assert not torch.allclose(twice, 2 * y)


@pytest.mark.parametrize("form", FORMS)
def test_a_normaliser_that_is_not_positive_is_reported_not_hidden(form) -> None:
    q, k, v = inputs(64)
    w = weights(q, k, Identity()).tril().sum(-1)
    y, state = run(form, q, k, v, Identity(), chunk=5)
    assert state.nonpositive.tolist() == (w <= 0).sum((1, 2)).tolist()
    assert min(state.nonpositive) > 10
    expected = weights(q, k, Identity()).tril() @ v.transpose(1, 2) / w[..., None]
    assert torch.allclose(y.transpose(1, 2), expected, rtol=1e-9), "what division gives: no clamp, no silent zero"
    for safe in (Elu1(), Taylor(2), Taylor(4)):
        assert run(form, 4 * q, 4 * k, v, safe, chunk=5)[1].nonpositive.tolist() == [0, 0]


def logits(values: list[float], features: FeatureMap) -> tuple[Tensor, Tensor]:
    """The output weights and the count for one query whose scaled products with the keys are `values`."""
    n = len(values)
    q = torch.ones(1, 1, 1, 1, dtype=F64)
    k = torch.tensor(values, dtype=F64).view(1, n, 1, 1)
    state = linear.remember(k, torch.eye(n, dtype=F64).view(1, n, 1, n), features=features, normalised=True)
    y, state = linear.recall(q, state, features=features)
    return y.flatten(), state.nonpositive


def test_the_four_counter_examples() -> None:
    """T-LIN-4."""
    odd = Taylor(1, odd=True)
    y, bad = logits([-1.0, -1.0], odd)
    assert bad == 1 and not y.isfinite().all(), "all q.k = -1: the normaliser is 0"
    assert logits([-3.0, 1.0], odd)[1] == 1
    y, bad = logits([-3.0, 2.0], odd)
    assert bad == 0 and torch.allclose(y, torch.tensor([-2.0, 3.0], dtype=F64))
    y, bad = logits([-10.0, 3.0], Taylor(2))
    assert bad == 0 and torch.allclose(y, torch.tensor([0.828, 0.172], dtype=F64), atol=1e-3), "the least similar wins"
    near, far = logits([0.0, 1.0], Taylor(2))[0], logits([3.0, 4.0], Taylor(2))[0]
    assert near.tolist() == pytest.approx([0.286, 0.714], abs=1e-3)
    assert far.tolist() == pytest.approx([0.395, 0.605], abs=1e-3), "softmax would not change under a shift"


@pytest.mark.parametrize("form", FORMS)
def test_relu_attends_to_nothing_without_a_positive_entry(form) -> None:
    q, k, v = inputs(5)
    q = q.clone()
    q[:, 2] = -1.0
    q.requires_grad_()
    y, state = run(form, q, k, v, Relu(), chunk=2)
    assert y[:, 2].abs().max() == 0 and y[:, 3].abs().max() > 0
    assert (state.nonpositive >= 2).all(), "and it is counted"
    assert torch.autograd.grad(y.sum(), q)[0].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_decay_is_the_masked_form(form) -> None:
    """T-ROPE-4."""
    q, k, v = inputs(9)
    rates = torch.tensor([0.5, 0.1], dtype=F64)
    i = torch.arange(9)
    fade = torch.exp(-rates[:, None, None] * (i[:, None] - i).clamp(min=0))
    w = (weights(q, k, Elu1()) * fade).tril()
    y, _ = run(form, q, k, v, Elu1(), rates=rates, chunk=4)
    assert (y.transpose(1, 2) - w / w.sum(-1, keepdim=True) @ v.transpose(1, 2)).abs().max() <= 1e-12
    assert (y - run(form, q, k, v, Elu1(), chunk=4)[0]).abs().max() > 1e-2
    long = torch.full((1, 2000, 1, 1), 1.0)
    far, _ = run(linear.parallel, long, long, long, Elu1(), rates=torch.tensor([0.7]))
    assert far.isfinite().all(), "backward differences may not overflow"


def test_the_published_rotation_rule_and_its_price() -> None:
    """T-ROPE-4: features turned in the numerator only; the forms agree, and rows do not sum to 1."""
    torch.manual_seed(0)
    T, K = 40, 8
    pq, pk = (elu1(torch.randn(T, K, dtype=F64)) for _ in range(2))
    v = torch.randn(T, 3, dtype=F64)
    at = torch.arange(T)[None]
    rq, rk = (rotate(x[None, :, None], at, 10000.0, Layout.INTERLEAVED)[0, :, 0] for x in (pq, pk))
    above, below = (rq @ rk.T).tril(), (pq @ pk.T).tril().sum(-1, keepdim=True)
    quadratic = above @ v / below
    S, z, rows = torch.zeros(K, 3, dtype=F64), torch.zeros(K, dtype=F64), []
    for i in range(T):
        S, z = S + rk[i][:, None] * v[i], z + pk[i]
        rows.append(rq[i] @ S / (pq[i] @ z))
    assert (torch.stack(rows) - quadratic).abs().max() <= 1e-12
    w = above / below
    assert (w.sum(-1) - 1).abs().max() > 0.05 and w.min() < 0 and below.min() > 0
    first = rotate(torch.ones(1, T, 1, 2, dtype=F64), at, 10000.0, Layout.INTERLEAVED)[0, :, 0]
    assert (first @ first.T).tril().sum(-1).min() < 0, "turning the denominator too can make it negative"


@pytest.mark.parametrize("form", FORMS)
def test_padding_reaches_nothing(form) -> None:
    q, k, v = inputs(8, B=2)
    valid = torch.tensor([[0, 1, 1, 0, 1, 0, 1, 1], [0] * 8]).bool()
    rates = torch.tensor([0.5, 0.1], dtype=F64)
    dirty = [torch.where(valid[..., None, None], x, torch.nan).requires_grad_() for x in (q, k, v)]
    y, state = _masked(form, dirty, valid, rates)
    clean, expected = run(form, *(x[:1, valid[0]] for x in (q, k, v)), Taylor(2), rates=rates, chunk=3)
    assert (y[0, valid[0]] - clean[0]).abs().max() <= 1e-12 and y[~valid].abs().max() == 0
    assert torch.allclose(state.memory[0], expected.memory[0], rtol=1e-12)
    assert state.memory[1].abs().max() == 0 and state.tokens.tolist() == [5, 0] and state.nonpositive.tolist() == [0, 0]
    grads = torch.autograd.grad(y.sum() + state.memory.sum(), dirty)
    assert all(g.isfinite().all() and (g[~valid] == 0).all() for g in grads)


def _masked(form, tensors, valid: Tensor, rates: Tensor):
    q, k, v = tensors
    state = linear.empty(2, 2, Taylor(2).dim(3), 4, normalised=True, like=q[0, 0].detach())
    if form is not linear.step:
        return form(q, k, v, state, features=Taylor(2), valid=valid, rates=rates, chunk=3)
    ys = []
    for t in range(q.shape[1]):
        y, state = form(
            *(x[:, t : t + 1] for x in tensors), state, features=Taylor(2), valid=valid[:, t : t + 1], rates=rates
        )
        ys.append(y)
    return torch.cat(ys, 1), state


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_also_through_the_state(form) -> None:
    torch.manual_seed(0)
    T = 1 if form is linear.step else 4
    q, k = (torch.randn(1, T, 1, 2, dtype=F64, requires_grad=True) for _ in range(2))
    v = torch.randn(1, T, 1, 2, dtype=F64, requires_grad=True)
    memory = torch.randn(1, 1, 6, 2, dtype=F64, requires_grad=True)
    mass = (3 + torch.rand(1, 1, 6, dtype=F64)).requires_grad_()

    def f(q: Tensor, k: Tensor, v: Tensor, memory: Tensor, mass: Tensor) -> tuple[Tensor, ...]:
        state = linear.LinearState(memory, mass, torch.zeros(1).long(), torch.zeros(1).long())
        rates = torch.tensor([0.3], dtype=F64)
        y, state = form(q, k, v, state, features=Taylor(2), rates=rates, chunk=3)
        return y, state.memory, state.mass

    assert gradcheck(f, (q, k, v, memory, mass)) and gradgradcheck(f, (q, k, v, memory, mass))


def kept(T: int, form=linear.chunked) -> tuple[int, int]:
    """FLOPs of forward and backward, and the bytes that the forward pass keeps for it."""
    q, k = (torch.randn(1, T, 1, 4, requires_grad=True) for _ in range(2))
    v = torch.randn(1, T, 1, 4, requires_grad=True)
    seen: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        seen[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y, _ = run(form, q, k, v, Taylor(2), chunk=16)
        y.sum().backward()
    return counter.get_total_flops(), sum(seen.values())


def test_training_grows_linearly_in_work_and_memory() -> None:
    (f0, m0), (f1, m1) = kept(256), kept(1024)
    assert f1 == 4 * f0
    assert m1 <= 4.01 * m0
    (f0, m0), (f1, m1) = kept(256, linear.parallel), kept(1024, linear.parallel)
    assert f1 > 6 * f0 and m1 > 6 * m0, "the parallel form does not, and this count sees it"


def test_sums_are_float32_for_bfloat16() -> None:
    ones = torch.ones(1, 1000, 1, 1).bfloat16()
    y, state = linear.chunked(
        ones,
        ones,
        ones,
        linear.empty(1, 1, 1, 1, normalised=True, like=torch.zeros(())),
        features=Identity(),
    )
    assert y.dtype == torch.bfloat16 and state.memory.dtype == torch.float32
    assert state.mass.item() == 1000, "a bfloat16 sum of ones stops at 256"
