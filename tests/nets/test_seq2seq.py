"""The encoder-decoder: the documents' totals, and a decoder that reads its prefix once."""

from dataclasses import replace

import pytest
import torch

from threefold.errors import InputError
from threefold.nets.seq2seq import Seq2Seq
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Spec
from threefold.specs.cross import CrossAttention
from threefold.specs.nets import FFN, Norm, Seq2SeqSpec, StackSpec, Tying, transformer
from threefold.specs.positions import Learned
from threefold.specs.recurrent import LSTM

BIG = transformer()
UNTIED = replace(BIG, tying=Tying.NONE, output_bias=True)


def count(spec: Seq2SeqSpec) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in spec.build().parameters())


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        (BIG, 139_994_112),
        (replace(BIG, output_bias=True), 140_024_112),
        (replace(BIG, tying=Tying.OUTPUT), 170_714_112),
        (replace(BIG, tying=Tying.OUTPUT, output_bias=True), 170_744_112),
        (replace(BIG, tying=Tying.NONE), 201_434_112),
        (UNTIED, 201_464_112),
        (replace(UNTIED, embedding_bias=True), 201_466_160),
        (transformer(head_dim=768), 404_428_800),
        (replace(BIG, position=Learned(2048)), 139_994_112 + 4_194_304),
        (
            replace(BIG, encoder=replace(BIG.encoder, final_norm=True), decoder=replace(BIG.decoder, final_norm=True)),
            139_994_112 + 4_096,
        ),
        (transformer(norm=Norm.PRE), 139_994_112 + 4_096),
    ],
)
def test_totals_of_the_documents_model(spec: Seq2SeqSpec, total: int) -> None:
    assert count(spec) == total


@pytest.mark.parametrize(("ffn_bias", "total"), [(True, 139_900_928), (False, 139_870_208)])
def test_totals_without_projection_biases(ffn_bias: bool, total: int) -> None:
    def bare(causal: bool) -> Softmax:
        return Softmax(heads=4, key_dim=192, value_dim=192, causal=causal)

    ffn = FFN(512, bias=ffn_bias)
    encoder = StackSpec(1024, (bare(False),) * 12, ffn, Norm.POST)
    decoder = StackSpec(1024, (bare(True),) * 8, ffn, Norm.POST, cross=CrossAttention(bare(False)))
    assert count(replace(BIG, encoder=encoder, decoder=decoder)) == total


def test_blocks_of_the_documents_model() -> None:
    with torch.device("meta"):
        net = BIG.build()
    blocks = net.encoder.blocks[0], net.decoder.stack.blocks[0]
    assert [sum(p.numel() for p in block.parameters()) for block in blocks] == [4_203_264, 7_354_368]


def small(norm: Norm, tying: Tying = Tying.THREE) -> Seq2Seq:
    torch.manual_seed(0)
    spec = transformer(13, 16, heads=2, head_dim=5, hidden=24, depth=(2, 2), norm=norm, tying=tying)
    return spec.build().double().eval()


@pytest.mark.parametrize("norm", list(Norm))
def test_steps_are_the_whole(norm: Norm) -> None:
    net = small(norm)
    source, target = torch.randint(0, 13, (3, 7)), torch.randint(0, 13, (3, 5))
    valid = torch.tensor([[True] * 7, [True] * 4 + [False] * 3, [False] * 2 + [True] * 5])
    whole = net(source, target, valid)
    state = net.init_state(source, valid)
    for at in range(5):
        logits, state = net.step(target[:, at], state)
        assert torch.allclose(logits, whole[:, at], atol=1e-11)
    alone = net(source[1:2, :4], target[1:2])
    assert torch.allclose(alone, whole[1:2], atol=1e-11)


def test_three_tied_is_one_matrix() -> None:
    net = small(Norm.POST)
    assert net.source is None
    names = [name for name, p in net.named_parameters() if p.shape == (13, 16)]
    assert names == ["decoder.embedding.weight"]


def test_any_mixer_may_encode_and_decode() -> None:
    torch.manual_seed(0)
    over = Linear(heads=2, causal=False)
    encoder = StackSpec(12, (over,), FFN(16))
    decoder = StackSpec(8, (LSTM(),), cross=CrossAttention(Softmax(heads=2, causal=False)))
    with pytest.raises(InputError, match="equal widths"):
        Seq2SeqSpec(13, encoder, decoder)
    spec = Seq2SeqSpec(13, replace(encoder, width=8), decoder, tying=Tying.OUTPUT)
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.build()(torch.randint(0, 13, (2, 6)), torch.randint(0, 13, (2, 4))).shape == (2, 4, 13)
    with pytest.raises(InputError, match="cross"):
        Seq2SeqSpec(13, encoder, encoder)
