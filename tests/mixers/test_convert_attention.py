"""nn.MultiheadAttention there and back, and Rotary's two layouts."""

import pytest
import torch
from torch import nn

from threefold.errors import InputError
from threefold.mixers.convert_attention import attention_from_torch, attention_to_torch, cross_from_torch, with_layout
from threefold.specs.attention import Linear, Softmax
from threefold.specs.features import Elu1, Taylor
from threefold.specs.positions import Layout, Rotary

F64 = torch.float64


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_equals_torch_with_its_weights(causal: bool, bias: bool) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=F64)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 7, 12, dtype=F64)
    mask = nn.Transformer.generate_square_subsequent_mask(7, dtype=F64) if causal else None
    valid = torch.tensor([[1] * 7, [1] * 5 + [0] * 2]).bool()
    padding = torch.zeros(2, 7, dtype=F64).masked_fill(~valid, -torch.inf)
    expected, _ = theirs(x, x, x, attn_mask=mask, key_padding_mask=padding)
    mine = attention_from_torch(theirs, causal=causal)
    assert (mine(x, valid) - expected)[valid].abs().max() <= 1e-12
    assert (attention_from_torch(theirs, causal=not causal)(x, valid) - expected)[valid].abs().max() > 1e-2
    back = attention_to_torch(mine)
    assert (back(x, x, x, attn_mask=mask, key_padding_mask=padding)[0] - expected).abs().max() <= 1e-12


@pytest.mark.parametrize("memory", [12, 6])
def test_cross_attention_equals_torch_with_its_weights(memory: int) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, kdim=memory, vdim=memory, batch_first=True, dtype=F64)
    x, source = torch.randn(2, 7, 12, dtype=F64), torch.randn(2, 5, memory, dtype=F64)
    mine = cross_from_torch(theirs)
    expected = theirs(x, source, source)[0]
    assert (mine(x, mine.remember(source)) - expected).abs().max() <= 1e-12
    assert (attention_to_torch(mine)(x, source, source)[0] - expected).abs().max() <= 1e-12


@pytest.mark.parametrize(
    ("convert", "sentence"),
    [
        (lambda: attention_from_torch(nn.MultiheadAttention(4, 2, dropout=0.1), causal=True), "dropout"),
        (lambda: attention_from_torch(nn.MultiheadAttention(4, 2, add_zero_attn=True), causal=True), "no tokens"),
        (lambda: attention_from_torch(nn.MultiheadAttention(4, 2, kdim=3, vdim=3), causal=True), "cross_from_torch"),
        (lambda: cross_from_torch(nn.MultiheadAttention(4, 2, kdim=3)), "one width"),
        (lambda: attention_to_torch(Softmax(heads=2, key_dim=3).build(4)), "only such mixers"),
        (lambda: attention_to_torch(Softmax(heads=2, kv_heads=1).build(4)), "grouped"),
        (lambda: attention_to_torch(Softmax(heads=2, position=Rotary()).build(4)), "no positions"),
        (lambda: with_layout(Softmax(heads=2).build(4), Layout.HALVES), "no Rotary"),
    ],
)
def test_what_torch_or_the_layout_cannot_hold_is_refused(convert, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        convert()


@pytest.mark.parametrize(
    "spec",
    [
        Softmax(heads=4, kv_heads=2, key_dim=6, bias=True, qk_norm=True, position=Rotary()),
        Softmax(heads=2, causal=False, position=Rotary(layout=Layout.HALVES)),
        Linear(heads=2, features=Taylor(2), position=Rotary()),
        Linear(heads=2, features=Elu1(), position=Rotary()),
    ],
    ids=repr,
)
def test_the_other_layout_is_the_same_function(spec) -> None:
    torch.manual_seed(0)
    mixer, x = spec.build(12).double(), torch.randn(2, 7, 12, dtype=F64)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    other = Layout.HALVES if spec.position.layout is Layout.INTERLEAVED else Layout.INTERLEAVED
    converted = with_layout(mixer, other)
    assert converted.spec.position.layout is other
    assert (converted(x) - mixer(x)).abs().max() <= 1e-12
    converted.load_state_dict(mixer.state_dict())
    assert (converted(x) - mixer(x)).abs().max() > 1e-3, "without moving the rows it is another function"
    assert torch.equal(with_layout(mixer, spec.position.layout)(x), mixer(x))
