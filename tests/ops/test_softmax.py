"""Softmax attention against torch's own, its cache, and the states that must stay what they were."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from threefold.ops import cache, softmax
from threefold.ops.cache import Cache
from threefold.ops.fused import attention, composite, kernel
from threefold.ops.scan import leaves

F64 = torch.float64
FORMS = (softmax.step, softmax.chunked, softmax.parallel)


def inputs(T: int, H: int = 4, G: int = 2, K: int = 3, V: int = 5, B: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(B, T, H, K, dtype=F64), torch.randn(B, T, G, K, dtype=F64), torch.randn(B, T, G, V, dtype=F64)


def start(k: Tensor, v: Tensor) -> Cache:
    return cache.empty(k.new_zeros(len(k), k.shape[2], 0, k.shape[3]), v.new_zeros(len(v), v.shape[2], 0, v.shape[3]))


def run(form, q: Tensor, k: Tensor, v: Tensor, state: Cache | None = None, valid: Tensor | None = None, chunk=64):
    state = start(k, v) if state is None else state
    if form is not softmax.step:
        return form(q, k, v, state, valid=valid, chunk=chunk)
    ys = []
    for t in range(q.shape[1]):
        mask = None if valid is None else valid[:, t : t + 1]
        y, state = form(*(x[:, t : t + 1] for x in (q, k, v)), state, valid=mask, chunk=chunk)
        ys.append(y)
    return torch.cat(ys, 1), state


def expected(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [{}, {"G": 4}, {"G": 1, "K": 5, "V": 2}, {"H": 2, "K": 4, "V": 4}])
def test_forms_equal_sdpa(form, shape: dict[str, int]) -> None:
    q, k, v = inputs(11, **shape)
    y, state = run(form, q, k, v, chunk=4)
    assert (y - expected(q, k, v)).abs().max() <= 1e-12
    assert (y - expected(q, k, v, causal=False)).abs().max() > 1e-2
    assert torch.equal(leaves(state)["keys"], k.transpose(1, 2))
    if k.shape[2] == 2 < q.shape[2]:
        turned = expected(q.flip(2), k, v).flip(2)
        assert (y - turned).abs().max() > 1e-2, "each head reads the keys of its own group"


def test_the_memory_of_a_reader_has_no_order() -> None:
    q, k, v = inputs(7)
    memory = softmax.Memory(k.transpose(1, 2), v.transpose(1, 2), None)
    for chunk in (None, 3):
        y = softmax.everywhere(q, memory, chunk=chunk)
        assert (y - expected(q, k, v, causal=False)).abs().max() <= 1e-12
        flipped = softmax.Memory(memory.keys.flip(2), memory.values.flip(2), None)
        assert (softmax.everywhere(q, flipped, chunk=chunk) - y).abs().max() <= 1e-12


@pytest.mark.parametrize("chunk", [None, 3])
def test_an_empty_memory_gives_the_empty_sum(chunk: int | None) -> None:
    q, k, v = (x.requires_grad_() for x in inputs(4))
    seen = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    y = softmax.everywhere(q, softmax.Memory(k.transpose(1, 2), v.transpose(1, 2), seen), chunk=chunk)
    assert y[1].abs().max() == 0
    assert (y[:1] - expected(q[:1], k[:1, 1:3], v[:1, 1:3], causal=False)).abs().max() <= 1e-12
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), (q, k, v)))
    none = softmax.Memory(k.transpose(1, 2)[:, :, :0], v.transpose(1, 2)[:, :, :0], None)
    assert softmax.everywhere(q, none, chunk=chunk).abs().max() == 0


@pytest.mark.parametrize("form", FORMS)
def test_padding_reaches_nothing(form) -> None:
    q, k, v = inputs(8)
    valid = torch.tensor([[0, 1, 1, 0, 1, 0, 1, 1], [0] * 8]).bool()
    dirty = [torch.where(valid[..., None, None], x, torch.nan).requires_grad_() for x in (q, k, v)]
    y, state = run(form, *dirty, valid=valid, chunk=3)
    clean, kept = run(form, *(x[:1, valid[0]] for x in (q, k, v)), chunk=3)
    assert (y[0, valid[0]] - clean[0]).abs().max() <= 1e-12 and y[~valid].abs().max() == 0
    assert torch.equal(leaves(state)["keys"][:1], leaves(kept)["keys"])
    assert state.tokens.tolist() == [5, 0]
    grads = torch.autograd.grad(y.sum() + leaves(state)["keys"].sum(), dirty)
    assert all(g.isfinite().all() and (g[~valid] == 0).all() for g in grads)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_kept_state_can_be_continued_again(gradients: bool, masked: bool) -> None:
    q, k, v = inputs(14)
    valid = torch.rand(2, 14, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    with torch.set_grad_enabled(gradients):
        for x in (q, k, v):
            x.requires_grad_(gradients)
        part = slice(0, 5), slice(5, 9), slice(9, 13)
        pieces = [[x[:, p] for x in (q, k, v)] for p in part]
        masks = [None if valid is None else valid[:, p] for p in part]
        _, kept = run(softmax.step, *pieces[0], valid=masks[0])
        before = {name: leaf.clone() for name, leaf in leaves(kept).items()}
        first, _ = run(softmax.step, *pieces[1], state=kept, valid=masks[1])
        other, _ = run(softmax.step, *pieces[2], state=kept, valid=masks[2])
        again, _ = run(softmax.step, *pieces[1], state=kept, valid=masks[1])
        chunked, _ = run(softmax.chunked, *pieces[1], state=kept, valid=masks[1], chunk=3)
    assert torch.equal(first, again) and (first - chunked).abs().max() <= 1e-12
    assert (first - other).abs().max() > 1e-2
    assert all(torch.equal(leaf, before[name]) for name, leaf in leaves(kept).items())


def test_the_cache_grows_by_doubling_and_is_written_in_place() -> None:
    q, k, v = inputs(40, B=1)
    state, rooms, buffers = start(k, v), [], []
    with torch.no_grad():
        for t in range(40):
            _, state = softmax.step(*(x[:, t : t + 1] for x in (q, k, v)), state)
            rooms.append(state.keys.shape[2])
            buffers.append(state.keys.data_ptr())
    assert rooms[-1] < 80 and len(set(rooms)) <= 7, "about log2(T) sizes"
    assert sum(a != b for a, b in pairwise(buffers)) <= 7
    assert leaves(state)["keys"].shape[2] == 40


def test_two_continuations_never_share_a_buffer() -> None:
    q, k, v = inputs(9, B=1)
    with torch.no_grad():
        _, kept = run(softmax.step, *(x[:, :5] for x in (q, k, v)))
        assert kept.keys.shape[2] > 5, "there is room, so the newest may write"
        _, a = softmax.step(*(x[:, 5:6] for x in (q, k, v)), kept)
        _, b = softmax.step(*(x[:, 6:7] for x in (q, k, v)), kept)
    assert a.keys.data_ptr() == kept.keys.data_ptr() and b.keys.data_ptr() != kept.keys.data_ptr()
    assert torch.equal(a.keys[:, :, 5], k[:, 5]) and torch.equal(b.keys[:, :, 5], k[:, 6])


def test_a_state_outlives_inference_mode() -> None:
    q, k, v = inputs(9, B=1)
    with torch.inference_mode():
        _, state = run(softmax.step, *(x[:, :5] for x in (q, k, v)))
    with torch.no_grad():
        y, _ = run(softmax.step, *(x[:, 5:] for x in (q, k, v)), state=state)
    assert (y - expected(q, k, v)[:, 5:]).abs().max() <= 1e-12


def test_work_recorded_from_a_state_survives_its_later_growth() -> None:
    q, k, v = inputs(9, B=1)
    with torch.no_grad():
        _, state = run(softmax.step, *(x[:, :5] for x in (q, k, v)))
    asked = q[:, 5:6].clone().requires_grad_()
    y, _ = softmax.step(asked, k[:, 5:6], v[:, 5:6], state)
    with torch.no_grad():
        run(softmax.step, *(x[:, 6:] for x in (q, k, v)), state=state)
    (found,) = torch.autograd.grad(y.sum(), asked)
    whole = q[:, :6].clone().requires_grad_()
    (wanted,) = torch.autograd.grad(expected(whole, k[:, :6], v[:, :6])[:, 5].sum(), whole)
    assert (found[:, 0] - wanted[:, 5]).abs().max() <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_also_through_the_state(form) -> None:
    T = 1 if form is softmax.step else 3
    q, k, v = (x.requires_grad_() for x in inputs(T, H=2, G=1, K=2, V=2, B=1))
    keys, values = (torch.randn(1, 1, 2, 2, dtype=F64, requires_grad=True) for _ in range(2))

    def f(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        state = Cache(keys, values, torch.tensor([2]), 2, True, 0, None)
        y, state = form(q, k, v, state, chunk=2)
        return y, state.keys, state.values

    assert gradcheck(f, (q, k, v, keys, values)) and gradgradcheck(f, (q, k, v, keys, values))


def test_the_fused_kernel_is_twice_differentiable_where_torch_is_not() -> None:
    q, k, v = (torch.randn(1, 2, 5, 8, dtype=F64, requires_grad=True) for _ in range(3))
    assert gradgradcheck(lambda *x: attention(*x, causal=True), (q, k, v))
    mask = torch.rand(5, 5).tril() + torch.eye(5) > 0.4
    assert gradgradcheck(lambda *x: attention(*x, mask), (q, k, v))
    assert torch.allclose(attention(q, k, v, mask), composite(q, k, v, mask, False, 8**-0.5), rtol=0, atol=1e-12)
    y = scaled_dot_product_attention(q, k, v, is_causal=True)
    (g,) = torch.autograd.grad(y.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        torch.autograd.grad(g.sum(), q)


def test_which_kernel_runs_can_be_asked() -> None:
    q, k, v = (x.transpose(1, 2) for x in inputs(6, G=4, K=4, V=4))
    assert kernel(q, k, v, causal=True) == "flash_attention"
    learned = torch.zeros(6, 6, dtype=F64, requires_grad=True)
    assert kernel(q, k, v, learned) == "math"


class Largest(TorchDispatchMode):
    """The largest tensor that any operation makes, forward or backward."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                self.entries = max(self.entries, x.numel())
        return out


def footprint(form, T: int) -> tuple[int, int]:
    """Bytes kept for the backward pass, and the largest tensor of both passes."""
    q, k, v = (x.float().requires_grad_() for x in inputs(T, H=2, G=1, K=4, V=4, B=1))
    seen: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        seen[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with Largest() as largest, torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y, _ = form(q, k, v, start(k, v), chunk=16)
        y.sum().backward()
    return sum(seen.values()), largest.entries


def test_the_chunked_form_keeps_memory_linear() -> None:
    (m0, e0), (m1, e1) = footprint(softmax.chunked, 64), footprint(softmax.chunked, 256)
    assert m1 <= 4.2 * m0 and e1 <= 4 * e0
    (m0, e0), (m1, e1) = footprint(softmax.step, 64), footprint(softmax.step, 256)
    assert m1 > 8 * m0 and e1 > 8 * e0, "one read of all pairs does not, and this count sees it"


@pytest.mark.parametrize("form", FORMS)
def test_extreme_scores_stay_finite(form) -> None:
    q, k, v = inputs(9)
    y, _ = run(form, 1e4 * q, 1e4 * k, v, chunk=4)
    assert y.isfinite().all() and (y - expected(1e4 * q, 1e4 * k, v)).abs().max() <= 1e-10
    assert (1e8 * q[0, 0, 0] @ k[0, 0, 0]).abs().exp().isinf(), "without its maximum a softmax would overflow"
