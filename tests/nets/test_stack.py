"""Blocks in residual form."""

import pytest
import torch

from threefold.errors import InputError
from threefold.specs.attention import Softmax
from threefold.specs.base import Spec
from threefold.specs.cross import Bidirectional, CrossAttention
from threefold.specs.nets import FFN, Bend, Norm, StackSpec
from threefold.specs.recurrent import GRU, LSTM


def test_pre_norm_keeps_the_stream_post_norm_normalises_it() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8) * 10 + 3
    post = StackSpec(8, (GRU(),) * 2, FFN(16), Norm.POST).build()(x)
    assert torch.allclose(post.mean(-1), torch.zeros(2, 5), atol=1e-5)
    pre = StackSpec(8, (GRU(),) * 2, FFN(16), final_norm=False).build()
    for parameter in pre.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(pre(x), x)


def test_final_norm_follows_pre_norm_unless_said_otherwise() -> None:
    assert StackSpec(8, (LSTM(),)).ends_normed
    assert not StackSpec(8, (LSTM(),), norm=Norm.POST).ends_normed
    assert StackSpec(8, (LSTM(),), norm=Norm.POST, final_norm=True).ends_normed


def test_one_post_norm_block_is_its_formula() -> None:
    torch.manual_seed(0)
    stack = StackSpec(8, (Softmax(heads=2),), FFN(16, Bend.RELU), Norm.POST).build()
    block, x = stack.blocks[0], torch.randn(2, 5, 8)
    y = block.mixed.norm(x + block.mixer(x))
    wanted = block.fed.norm(y + block.ffn.outer(block.ffn.inner(y).relu()))
    assert torch.allclose(stack(x), wanted, atol=1e-6)


def test_invalid_tokens_say_nothing_and_are_zero() -> None:
    torch.manual_seed(0)
    stack = StackSpec(8, (Bidirectional(LSTM()), Softmax(heads=2, causal=False)), FFN(16)).build().double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    valid = torch.tensor([[True] * 4 + [False] * 2, [False, True, True, False, True, True]])
    dirty = torch.where(valid[..., None], x, torch.nan)
    assert torch.equal(stack(dirty, valid), stack(x, valid))
    assert not stack(dirty, valid)[~valid].any()
    alone = stack(x[1:, valid[1]])
    assert torch.allclose(stack(x, valid)[1:, valid[1]], alone, atol=1e-12)


def test_dropout_only_while_training() -> None:
    torch.manual_seed(0)
    stack, x = StackSpec(8, (LSTM(),), dropout=0.5).build(), torch.randn(2, 5, 8)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(InputError, match="one mixer a layer"):
        StackSpec(8, ())
    with pytest.raises(InputError, match="probability"):
        StackSpec(8, (LSTM(),), dropout=1.0)
    with pytest.raises(InputError, match="reads the future"):
        StackSpec(8, (Softmax(heads=2, causal=False),)).build().init_state(1)
    crossed = StackSpec(8, (LSTM(),), cross=CrossAttention(Softmax(heads=2, causal=False))).build()
    with pytest.raises(InputError, match="memory"):
        crossed.init_state(1)
    with pytest.raises(InputError, match="memory"):
        crossed(torch.randn(1, 2, 8))


def test_round_trip() -> None:
    spec = StackSpec(8, (LSTM(), Softmax(heads=2)), FFN(16, Bend.RELU), Norm.POST, 0.1, CrossAttention())
    assert Spec.from_json(spec.to_json()) == spec
