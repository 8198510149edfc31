"""Recurrent mixers as modules: per-step states, widths, depth, compilation."""

import pytest
import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.ops import onednn
from threefold.ops.scan import leaves
from threefold.specs.base import Form
from threefold.specs.recurrent import GRU, LSTM, RNN, Activation, Recurrent, Reset

SPECS = [
    RNN(),
    RNN(activation=Activation.IDENTITY, bias=False),
    LSTM(),
    LSTM(hidden=5),
    GRU(),
    GRU(hidden=3, bias=False),
    GRU(reset=Reset.BEFORE, hidden=5),
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=repr)


def built(spec: Recurrent, width: int = 4, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    torch.manual_seed(0)
    return spec.build(width).to(dtype)


def state_like(mixer: torch.nn.Module, batch: int) -> tuple:
    draw = torch.Generator().manual_seed(1)
    zero = mixer.init_state(batch)
    return type(zero)(*(0.5 * torch.randn(p.shape, generator=draw, dtype=p.dtype) for p in zero))


@each_spec
def test_states_are_named_and_batch_first(spec: Recurrent) -> None:
    mixer = built(spec)
    state = mixer.init_state(3)
    assert list(leaves(state)) == list(mixer.cell.parts)
    assert all(part.shape == (3, spec.size(4)) for part in state)


@each_spec
def test_trace_gives_every_state(spec: Recurrent) -> None:
    mixer, state = built(spec), state_like(built(spec), 2)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    trace = mixer.trace(x, state)
    for t in range(5):
        _, state = mixer.step(x[:, t], state)
        for part, now in zip(trace, state, strict=True):
            assert torch.allclose(part[:, t], now, rtol=1e-12, atol=1e-14)
    if isinstance(spec, LSTM):
        assert torch.equal(mixer.cells(x, mixer.init_state(2)), mixer.trace(x, mixer.init_state(2)).c)


@each_spec
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_states_are_wide_and_outputs_are_as_the_input(spec: Recurrent, dtype: torch.dtype) -> None:
    mixer = built(spec, dtype=dtype)
    x = torch.randn(2, 6, 4).to(dtype)
    for form in spec.traits.forms:
        y, state = mixer.scan(x, mixer.init_state(2), form=form)
        assert y.dtype == dtype
        assert all(part.dtype == torch.float32 for part in state)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("spec", [RNN(), LSTM(hidden=5), GRU(), GRU(reset=Reset.BEFORE)], ids=repr)
def test_compiles_as_one_graph(spec: Recurrent, backend: str) -> None:
    mixer = built(spec, dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), mixer)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    x = torch.randn(2, 6, 4, requires_grad=True)
    gradients = []
    for run in (model, compiled):
        y = run(x)
        gradients.append([y, *torch.autograd.grad(y.square().sum(), [x, *model.parameters()])])
    for found, wanted in zip(*gradients, strict=True):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)


def longest_path(tensor: Tensor) -> int:
    """The number of nodes on the longest path of the autograd graph: what no parallel machine can shorten."""
    depth: dict[object, int] = {}
    stack = [tensor.grad_fn]
    while stack:
        node = stack[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        if missing := [each for each in before if each not in depth]:
            stack.extend(missing)
        else:
            depth[stack.pop()] = 1 + max((depth[each] for each in before), default=0)
    return depth[tensor.grad_fn]


@each_spec
def test_depth_is_affine_in_length(spec: Recurrent) -> None:
    """T-DEPTH."""
    mixer, depths = built(spec), []
    for t in (8, 16, 32, 64):
        x = torch.randn(2, t, 4, dtype=torch.float64, requires_grad=True)
        y = mixer.scan(x, mixer.init_state(2), form=Form.STEP)[1][0]
        depths.append(longest_path(y))
    slopes = [(b - a) / t for a, b, t in zip(depths[:-1], depths[1:], (8, 16, 32), strict=True)]
    assert len(set(slopes)) == 1
    assert slopes[0] >= 1


def test_depth_of_attention_is_constant() -> None:
    """T-DEPTH."""
    depths = set()
    for t in (8, 16, 32):
        x = torch.randn(2, t, 4, requires_grad=True)
        depths.add(longest_path(torch.softmax(x @ x.transpose(1, 2), -1) @ x))
    assert len(depths) == 1


def test_alternating_sum_is_this_class_with_set_weights() -> None:
    mixer = built(RNN(activation=Activation.IDENTITY, bias=False), width=1)
    with torch.no_grad():
        mixer.input_weight.fill_(1)
        mixer.state_weight.fill_(-1)
    x = torch.tensor([[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    y = torch.sigmoid(1000 * mixer(x[..., None])[:, -1, 0])
    assert y.tolist() == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("create_graph", [False, True], ids=["first order", "second order"])
def test_onednn_is_the_same_lstm(create_graph: bool) -> None:
    mixer = built(LSTM(hidden=5), dtype=torch.float32)
    x = torch.randn(3, 6, 4, requires_grad=True)
    assert mixer.path(x) == "oneDNN"
    exact = built(LSTM(hidden=5))
    results = []
    for module, given in ((mixer, x), (exact, x.detach().double().requires_grad_())):
        y, state = module.scan(given, state_like(module, 3))
        found = torch.autograd.grad(
            y.sin().sum() + state.c.sum(), [given, *module.parameters()], create_graph=create_graph
        )
        if create_graph:
            found = torch.autograd.grad(sum(g.sin().sum() for g in found), [given, *module.parameters()])
        results.append([y, *found])
    for found, wanted in zip(*results, strict=True):
        assert (found - wanted).norm() <= 2e-6 * wanted.norm()


def test_the_path_says_why() -> None:
    mixer = built(LSTM())
    x = torch.randn(2, 3, 4)
    assert "float32" in mixer.path(x.double())
    assert "mask" in built(LSTM(), dtype=torch.float32).path(x, masked=True)
    assert "empty" in onednn.why_not(x[:, :0], built(LSTM(), dtype=torch.float32).weights, masked=False)


@pytest.mark.parametrize("spec", [RNN, LSTM, GRU])
def test_a_hidden_width_below_one_is_refused(spec: type[Recurrent]) -> None:
    with pytest.raises(InputError, match="give at least 1"):
        spec(hidden=0)


def test_a_form_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="no parallel form"):
        built(GRU()).whole(torch.zeros(1, 2, 4, dtype=torch.float64), form=Form.PARALLEL)
