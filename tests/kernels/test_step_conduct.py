"""When a recurrent mixer's step runs natively, when it does not, and that nobody can tell by the numbers."""

from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from threefold import GRU, LSTM, RNN
from threefold.kernels import recurrent, recurrent_step
from threefold.kernels.native import available, disabled
from threefold.mixers.base import CausalMixer
from threefold.ops.scan import leaves
from threefold.plan.check import Formed
from threefold.plan.count import count
from threefold.specs.base import Form, MixerSpec
from threefold.specs.recurrent import Activation, Reset

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
F64 = torch.float64
SPECS = (RNN(), RNN(activation=Activation.IDENTITY, hidden=5), LSTM(), GRU(), GRU(reset=Reset.BEFORE), LSTM(hidden=9))
each_spec = pytest.mark.parametrize("spec", SPECS, ids=repr)
WIDTH = 12


def built(spec: MixerSpec, dtype: torch.dtype = F64) -> CausalMixer:
    torch.manual_seed(4)
    mixer = spec.build(WIDTH).to(dtype)
    assert isinstance(mixer, CausalMixer)
    return mixer


def tokens(count: int, dtype: torch.dtype = F64, batch: int = 2) -> Tensor:
    return torch.randn(batch, count, WIDTH, generator=torch.Generator().manual_seed(6), dtype=F64).to(dtype)


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """The cells of which a native token is run."""
    seen, real = [], recurrent_step.one_token

    def heard(cell: str, *given: object) -> object:
        seen.append(cell)
        return real(cell, *given)

    for module in (recurrent_step, recurrent):
        monkeypatch.setattr(module, "one_token", heard)
    return seen


def apart(a: Tensor, b: Tensor) -> float:
    return ((a.double() - b.double()).norm() / (b.double().norm() + 1e-300)).item()


def run(mixer: CausalMixer, x: Tensor, valid: Tensor | None = None) -> list[Tensor]:
    y, state = mixer.scan(x, mixer.init_state(len(x)), valid=valid, form=Form.STEP)
    return [y, *leaves(state).values()]


@each_spec
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_steps_are_native_and_say_what_torchs_say(spec: MixerSpec, masked: bool, calls: list[str]) -> None:
    mixer, x = built(spec), tokens(4)
    valid = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0]], dtype=torch.bool) if masked else None
    for context in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        calls.clear()
        with context():
            found = run(mixer, x, valid)
        assert calls == [mixer.cell.name] * 4
        with disabled(), torch.no_grad():
            wanted = run(mixer, x, valid)
        assert all(apart(got, want) <= 1e-12 for got, want in zip(found, wanted, strict=True))
    assert len(calls) == 4, "switched off it is not asked"


@each_spec
def test_a_step_is_a_sequence_of_one(spec: MixerSpec, calls: list[str]) -> None:
    mixer, x = built(spec), tokens(1)
    valid = torch.tensor([True, False])
    with torch.no_grad():
        y, state = mixer.step(x[:, 0], mixer.init_state(2), valid)
        z, other = mixer.scan(x, mixer.init_state(2), valid=valid[:, None])
    assert len(calls) == 2 and torch.equal(y, z[:, 0])
    assert all(torch.equal(a, b) for a, b in zip(state, other, strict=True))


@each_spec
def test_gradients_of_steps_are_torchs(spec: MixerSpec) -> None:
    mixer, x = built(spec), tokens(3).requires_grad_()
    start = [torch.randn_like(part).requires_grad_() for part in mixer.init_state(2)]
    valid = torch.tensor([[1, 0, 1], [1, 1, 0]], dtype=torch.bool)

    def gradients() -> tuple[Tensor, ...]:
        y, state = mixer.scan(x, type(mixer.init_state(2))(*start), valid=valid, form=Form.STEP)
        loss = y.square().sum() + sum(part.sin().sum() for part in state)
        first = torch.autograd.grad(loss, [x, *start, *mixer.parameters()], create_graph=True)
        again = torch.autograd.grad(sum(each.square().sum() for each in first), [x, *mixer.parameters()])
        return (*first, *again)

    found = gradients()
    with disabled():
        wanted = gradients()
    assert all(apart(got, want) <= 1e-12 for got, want in zip(found, wanted, strict=True))


@each_spec
def test_a_compiled_step_holds_the_op_and_says_the_same(spec: MixerSpec) -> None:
    mixer, x = built(spec), tokens(1)[:, 0]
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(mixer.step, fullgraph=True, backend=backend)
        y, _ = compiled(x, mixer.init_state(2))
        z, _ = mixer.step(x, mixer.init_state(2))
    assert apart(y, z) <= 1e-12
    assert any("threefold.recurrent" in str(node.target) for graph in graphs for node in graph.graph.nodes)


@each_spec
def test_whoever_counts_sees_the_same_on_any_device(spec: MixerSpec) -> None:
    here, nowhere = (
        count(Formed(spec.build(WIDTH).to(device), Form.STEP), torch.zeros(2, 3, WIDTH, device=device).requires_grad_())
        for device in ("cpu", "meta")
    )
    assert here.forward == nowhere.forward > 0 and here.backward == nowhere.backward > 0
    assert not here.unknown and not nowhere.unknown


class Heard(Tensor):
    """A tensor of a kind of its own, which hears what is done with it."""

    heard: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append(str(func))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_tensor_of_another_kind_hears_the_op() -> None:
    mixer = built(GRU())
    with torch.no_grad():
        mixer.step(tokens(1)[:, 0].as_subclass(Heard), mixer.init_state(2))
    assert any("recurrent" in each for each in Heard.heard)


def test_a_profiler_sees_the_op() -> None:
    mixer, x = built(LSTM()), tokens(1)[:, 0]
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        mixer.step(x, mixer.init_state(2))
    assert "threefold::recurrent" in {event.key for event in seen.key_averages()}


def test_other_numbers_take_the_torch_path(calls: list[str]) -> None:
    narrow = built(GRU(), torch.bfloat16)
    with torch.no_grad():
        y, state = narrow.step(tokens(1, torch.bfloat16)[:, 0], narrow.init_state(2))
    assert not calls and y.dtype == torch.bfloat16 and state.h.dtype == torch.float32
    mixed = built(GRU(), torch.float32)
    with torch.no_grad():
        y, state = mixed.step(tokens(1)[:, 0], mixed.init_state(2))
    assert not calls and y.dtype == F64 and state.h.dtype == F64
