"""Reading a memory: equal to full attention over it, fixed in size when linear, deaf to padding."""

import pytest
import torch

from threefold.errors import InputError
from threefold.ops.scan import leaves
from threefold.specs.attention import Attention, Linear, Softmax
from threefold.specs.cross import CrossAttention
from threefold.specs.features import Elu1, Relu, Taylor
from threefold.specs.positions import Rotary

F64 = torch.float64
OVER = [
    Softmax(heads=2, causal=False),
    Softmax(heads=4, kv_heads=2, key_dim=4, value_dim=5, causal=False, bias=True, qk_norm=True),
    Linear(heads=2, causal=False, features=Taylor(2), bias=True),
    Linear(heads=2, causal=False, features=Elu1(), normalised=False),
    Linear(heads=2, causal=False, features=Relu()),
]


def inputs(S: int = 9):
    torch.manual_seed(0)
    return torch.randn(2, 5, 8, dtype=F64), torch.randn(2, S, 6, dtype=F64)


def cross(over: Attention):
    torch.manual_seed(1)
    return CrossAttention(over).build(8, 6).double()


@pytest.mark.parametrize("over", OVER, ids=repr)
def test_reading_is_attention_over_the_memory(over: Attention) -> None:
    module, (x, memory) = cross(over), inputs()
    heads = module.heads
    q, k, v = heads.queries(x), heads.keys(memory), heads.values(memory)
    if isinstance(over, Softmax) and over.qk_norm:
        q, k = heads.query_norm(q), heads.key_norm(k)
    q, k, v = (y.transpose(1, 2) for y in (q, k, v))
    k, v = (y.repeat_interleave(q.shape[1] // y.shape[1], 1) for y in (k, v))
    if isinstance(over, Softmax):
        w = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
    else:
        w = over.features.scores(q * over.features.scale(q.shape[-1]), k)
        if over.normalised:
            w = torch.where(w.sum(-1, keepdim=True) > 0, w / w.sum(-1, keepdim=True), 0.0)
    expected = heads.joined((w @ v).transpose(1, 2))
    y = module(x, module.remember(memory))
    assert (y - expected).abs().max() <= 1e-12
    assert (module(x, module.remember(memory.flip(1))) - y).abs().max() <= 1e-12, "a memory has no order"
    assert (module(x, module.remember(memory[:, 1:])) - y).abs().max() > 1e-4


@pytest.mark.parametrize("over", OVER, ids=repr)
def test_padded_memory_is_no_memory(over: Attention) -> None:
    module, (x, memory) = cross(over), inputs()
    valid = torch.tensor([[0, 1, 1, 0, 1, 0, 0, 1, 1], [0] * 9]).bool()
    x, memory = x.requires_grad_(), memory.requires_grad_()
    y = module(x, module.remember(torch.where(valid[..., None], memory, torch.nan), valid))
    assert (y[:1] - module(x[:1], module.remember(memory[:1, valid[0]]))).abs().max() <= 1e-12
    bias = module.heads.output.bias
    assert (y[1] - (0 if bias is None else bias)).abs().max() <= 1e-12, "an empty memory gives the empty sum"
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), [x, memory, *module.parameters()]))
    each = torch.cat([module(x[:, t : t + 1], module.remember(memory, valid)) for t in range(5)], 1)
    assert (each - y).abs().max() <= 1e-12, "asked once or many times"


def test_a_linear_memory_has_a_fixed_size_and_a_softmax_one_has_not() -> None:
    def size(over: Attention, S: int) -> int:
        module = cross(over)
        return sum(leaf.numel() for leaf in leaves(module.remember(inputs(S)[1])).values())

    assert size(OVER[2], 9) == size(OVER[2], 90)
    assert size(OVER[0], 90) == 10 * size(OVER[0], 9)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(InputError, match="causal=False"):
        CrossAttention(Softmax())
    with pytest.raises(InputError, match="count their positions apart"):
        CrossAttention(Softmax(causal=False, position=Rotary()))


@pytest.mark.parametrize("over", OVER, ids=repr)
def test_what_does_not_fit_is_refused_in_a_sentence(over: Attention) -> None:
    module, (x, memory) = cross(over), inputs()
    with pytest.raises(InputError, match=r"width 6 got a memory of shape \(2, 9, 5\): give \(B, T, 6\)"):
        module.remember(memory[..., :5])
    with pytest.raises(InputError, match=r"`valid` of shape \(2, 9\) and torch.float32: give booleans"):
        module.remember(memory, torch.ones(2, 9))
    with pytest.raises(InputError, match=r"`valid` of shape \(2, 8\)"):
        module.remember(memory, torch.ones(2, 8, dtype=torch.bool))
    with pytest.raises(InputError, match=r"width 8 got x of shape \(2, 5, 7\): give \(B, T, 8\)"):
        module(x[..., :7], module.remember(memory))
