"""Speech to text: padding, streaming and step-by-step writing change nothing."""

from dataclasses import replace

import pytest
import torch

from threefold.errors import InputError
from threefold.nets.speech import Speech
from threefold.recipes.speech import SpeechModel
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec, Spec
from threefold.specs.cross import Bidirectional, CrossAttention
from threefold.specs.nets import FFN, StackSpec
from threefold.specs.positions import Sinusoidal
from threefold.specs.recurrent import GRU, LSTM
from threefold.specs.speech import Floor, LogMelSpec, SpeechSpec

CROSS = CrossAttention(Softmax(heads=2, causal=False))
FFN_SPEC = FFN(24)


def spec_of(encoder: MixerSpec, decoder: MixerSpec, ctc: bool = True) -> SpeechSpec:
    return SpeechSpec(
        13,
        StackSpec(16, (encoder,), FFN_SPEC),
        StackSpec(16, (decoder,), FFN_SPEC, cross=CROSS),
        LogMelSpec(floor=Floor.RUNNING),
        decoder_position=Sinusoidal(),
        ctc=ctc,
    )


def net_of(encoder: MixerSpec, decoder: MixerSpec, ctc: bool = True) -> Speech:
    torch.manual_seed(0)
    return spec_of(encoder, decoder, ctc).build().double().eval()


PAIRS = [
    (Softmax(heads=2, causal=False), LSTM()),
    (Bidirectional(GRU()), Softmax(heads=2)),
    (Linear(heads=2), Linear(heads=2)),
]
each_pair = pytest.mark.parametrize(("encoder", "decoder"), PAIRS)


@each_pair
@pytest.mark.parametrize("length", [10, 11])
def test_padding_changes_neither_reading(encoder: MixerSpec, decoder: MixerSpec, length: int) -> None:
    net = net_of(encoder, decoder)
    frames, tokens = torch.randn(1, length, 80, dtype=torch.float64), torch.randint(0, 13, (1, 5))
    padded = torch.full((2, 15, 80), torch.nan, dtype=torch.float64)
    padded[0, :length], padded[1] = frames[0], torch.randn(15, 80)
    valid = torch.arange(15) < torch.tensor([[length], [15]])
    alone, both = net(frames, tokens), net(padded, tokens.repeat(2, 1), valid)
    assert torch.allclose(both.written[:1], alone.written, atol=1e-10)
    assert alone.letters.shape[1] == (length + 1) // 2
    assert torch.allclose(both.letters[:1, : alone.letters.shape[1]], alone.letters, atol=1e-10)


@each_pair
def test_steps_are_the_whole(encoder: MixerSpec, decoder: MixerSpec) -> None:
    net = net_of(encoder, decoder)
    frames, tokens = torch.randn(2, 12, 80, dtype=torch.float64), torch.randint(0, 13, (2, 5))
    whole, state = net(frames, tokens).written, net.init_state(net.listen(frames))
    for at in range(5):
        logits, state = net.step(tokens[:, at], state)
        assert torch.allclose(logits, whole[:, at], atol=1e-11)


@pytest.mark.parametrize("encoder", [LSTM(), Linear(heads=2), Softmax(heads=2)], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("cuts", [[], [300, 301, 1500], list(range(100, 4000, 170))])
def test_live_sound_is_heard_as_the_recording(encoder: MixerSpec, cuts: list[int]) -> None:
    torch.manual_seed(0)
    net = spec_of(encoder, LSTM()).build().eval()
    wave = torch.randn(2, 4000) * 0.1
    memory = net.listen(net.front(wave)).memory
    state, heard = net.init_hearing(2), []
    for piece in torch.tensor_split(wave, cuts, dim=1):
        some, state = net.hear(piece, state)
        heard.append(some)
    some, state = net.hear(wave[:, :0], state, last=True)
    together = torch.cat([*heard, some], 1)
    assert together.shape == memory.shape
    assert torch.allclose(together, memory, atol=2e-5)


def test_an_encoder_that_reads_the_future_does_not_stream() -> None:
    with pytest.raises(InputError, match="reads the future"):
        net_of(Bidirectional(LSTM()), LSTM()).init_hearing(1)


def test_without_the_second_reading_there_are_no_letters() -> None:
    net = net_of(LSTM(), LSTM(), ctc=False)
    assert net(torch.randn(1, 8, 80).double(), torch.zeros(1, 2, dtype=torch.long)).letters.shape == (1, 0, 13)


def test_sizes_of_the_documents_encoder() -> None:
    """Width 200, 2 heads, 400 between: conv fronts 48,200 and 120,200; the documents' key has no bias, ours has."""
    attention = Softmax(heads=2, causal=False, bias=True)
    spec = SpeechSpec(35, StackSpec(200, (attention,) * 2, FFN(400)), StackSpec(200, (LSTM(),), FFN(400), cross=CROSS))
    net = spec.build()
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in net.named_children()}
    assert (counts["conv1"], counts["conv2"]) == (48_200, 120_200)
    assert counts["conv1"] + counts["conv2"] + counts["encoder"] == 812_800 + 2 * 200


def test_spec_round_trip_and_refusals() -> None:
    spec = spec_of(LSTM(), Softmax(heads=2))
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.streams
    with pytest.raises(InputError, match="cross"):
        replace(spec, decoder=spec.encoder)


def test_sound_is_not_drowned_by_its_positions() -> None:
    """What changes along an utterance enters the encoder within a factor of a few of what the positions add."""
    torch.manual_seed(0)
    frames = 0.5 * torch.randn(2, 200, 80, generator=torch.Generator().manual_seed(1)) - 0.4
    heard = []
    net = replace(SpeechModel().spec(30), position=None).build()
    net.encoder.register_forward_pre_hook(lambda _, given: heard.append(given[0]))  # what enters the blocks
    with torch.no_grad():
        net.listen(frames)
    sound = float(heard[0].std(1).mean())
    assert 0.15 < sound < 1.5  # a sinusoid's is 0.7
