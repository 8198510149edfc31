"""Planned = counted, to the unit: every mixer of the catalogue in every form, every net, both attention backends."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from tests.plan.nets import LIN, NETS, stack
from threefold.cost import B, T
from threefold.mixers.base import CausalMixer
from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.nets.speech import Speech
from threefold.ops.scan import leaves
from threefold.plan.check import check
from threefold.plan.conventions import Causal, Conventions, Dtype, Recompute, Scores
from threefold.plan.count import count, state_bytes
from threefold.specs.attention import Softmax
from threefold.specs.base import Form, MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.nets import FFN, NetSpec, Seq2SeqSpec
from threefold.specs.recurrent import GRU, LSTM
from threefold.specs.speech import SpeechSpec
from threefold.specs.words import read, say

FORMED = [pytest.param(spec, form, id=f"{say(spec)}-{form.value}") for spec in CATALOG for form in spec.traits.forms]
SIZES = ({"B": 2, "T": 7}, {"B": 1, "T": 3}, {"B": 3, "T": 1})  # more than, exactly, and less than one chunk
NET_SIZES = ({"B": 2, "T": 5, "S": 7}, {"B": 1, "T": 8, "S": 4}, {"B": 3, "T": 1, "S": 2})


def holds(spec: MixerSpec | NetSpec, sizes: dict, conventions: Conventions, form: Form | None = None) -> None:
    plan = spec.plan(WIDTH, form, conventions) if isinstance(spec, MixerSpec) else spec.plan(form, conventions)
    found = check(spec, plan, sizes, conventions, form, WIDTH)
    assert found.holds, found.verdict
    assert int(plan.total.temporary.placed(sizes)()) == found.seen.temporary


@pytest.mark.parametrize(("spec", "form"), FORMED)
def test_every_mixer_in_every_form(spec: MixerSpec, form: Form) -> None:
    for sizes in SIZES:
        holds(spec, sizes, Conventions(), form)


@pytest.mark.parametrize("spec", [spec for spec in CATALOG if isinstance(spec, Softmax)], ids=say)
def test_scores_that_are_stored(spec: Softmax) -> None:
    for sizes in SIZES:
        holds(spec, sizes, Conventions(scores=Scores.MATERIALISED), Form.PARALLEL)


@pytest.mark.parametrize("scores", Scores, ids=lambda scores: scores.value)
@pytest.mark.parametrize("name", NETS)
def test_every_net(name: str, scores: Scores) -> None:
    for sizes in NET_SIZES:
        holds(NETS[name], sizes, Conventions(scores=scores))


@pytest.mark.parametrize("dtype", [Dtype.FLOAT64, Dtype.BFLOAT16, Dtype.FLOAT16], ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("word", ["softmax", "taylor2", "elu1", "lstm", "gru", "rnn", "bigru"])
def test_other_numbers(word: str, dtype: Dtype) -> None:
    spec, chosen = read(word, MixerSpec), Conventions(dtype=dtype)
    found = check(spec, spec.plan(32, None, chosen), {"B": 2, "T": 70}, chosen, None, 32)
    assert found.holds, found.verdict


@pytest.mark.parametrize("name", ["hybrid lm", "transformer", "linear transformer", "speech, recurrent", "cnn, pooled"])
def test_nets_in_half_precision(name: str) -> None:
    holds(NETS[name], NET_SIZES[0], Conventions(dtype=Dtype.BFLOAT16))


@pytest.mark.parametrize("spec", [s for s in CATALOG if s.traits.causal and not isinstance(s, Bidirectional)], ids=say)
def test_the_planned_state_is_the_state(spec: MixerSpec) -> None:
    mixer = spec.build(WIDTH)
    assert isinstance(mixer, CausalMixer)
    for batch, length in ((2, 1), (3, 5)):
        with torch.no_grad():
            _, state = mixer.scan(torch.randn(batch, length, WIDTH), mixer.init_state(batch))
        assert int(spec.plan(WIDTH).total.state(B=batch, T=length)) == state_bytes(state)


@pytest.mark.parametrize("name", ["hybrid lm", "post-norm lm", "learned positions"])
def test_the_planned_state_of_a_net_is_its_state(name: str) -> None:
    net = NETS[name].build()
    state = net.init_state(2)
    _, state = net.scan(torch.zeros(2, 5, dtype=torch.long), state)
    held = sum(leaf.numel() * leaf.element_size() for leaf in leaves(state).values())
    assert int(NETS[name].plan().total.state(B=2, T=5)) == held


@pytest.mark.parametrize("name", [name for name, spec in NETS.items() if isinstance(spec, Seq2SeqSpec | SpeechSpec)])
def test_the_planned_state_of_a_decoder_is_its_state(name: str) -> None:
    """What each layer keeps of the source, and of the targets so far; sound comes with its mask."""
    net = NETS[name].build().eval()
    with torch.no_grad():
        sound = isinstance(net, Speech)
        state = net.init_state(net.listen(torch.zeros(2, 14, 4)) if sound else torch.zeros(2, 7, dtype=torch.long))
        for _ in range(5):
            _, state = net.step(torch.zeros(2, dtype=torch.long), state)
    assert int(NETS[name].plan().total.state(B=2, T=5, S=7)) == state_bytes(state)


def test_a_wrong_plan_is_seen() -> None:
    spec = read("gru", MixerSpec)
    wrong = read("lstm", MixerSpec).plan(WIDTH)
    found = check(spec, wrong, SIZES[0], Conventions(), None, WIDTH)
    assert not found.holds and "NOT what was planned" in found.verdict


class Recomputed(torch.nn.Module):
    """A stack whose layers keep their inputs only."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.inner.blocks:
            x = checkpoint(layer.whole, x, None, None, None, use_reentrant=False)
        return self.inner.norm(x)


def test_layers_that_are_made_again() -> None:
    spec = stack((LSTM(), LIN, GRU()), ffn=FFN(10))
    planned = spec.plan(conventions=Conventions(recompute=Recompute.LAYERS)).total.at(B=2, T=7)
    x = torch.zeros(2, 7, 12, device="meta", requires_grad=True)
    with set_checkpoint_early_stop(False):  # which would spare what no gradient needs
        seen = count(Recomputed(spec.build().to("meta")), x)
    found = (seen.forward, seen.backward, seen.saved)
    assert found == (int(planned.forward()), int(planned.backward()), int(planned.saved()))
    plain = spec.plan().total.at(B=2, T=7)
    assert planned.backward == plain.backward + plain.forward and int(planned.saved()) < int(plain.saved())


def test_half_of_the_pairs() -> None:
    full, half = (
        Softmax(heads=2).plan(16, conventions=Conventions(causal=causal)).total.forward
        for causal in (Causal.FULL, Causal.HALF)
    )
    projections = 8 * 16 * 16 * B * T
    assert full == projections + 4 * 16 * B * T**2 and half == projections + 2 * 16 * B * T * (T + 1)
