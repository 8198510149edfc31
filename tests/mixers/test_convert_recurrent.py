"""A trained torch module, brought here and taken back, says the same."""

import pytest
import torch
from torch import nn

from threefold.errors import InputError
from threefold.mixers.convert_recurrent import mixer_from_torch, mixer_to_torch, weights_from_torch
from threefold.ops.lstm import LSTMCell
from threefold.ops.recurrence import sequence
from threefold.specs.recurrent import GRU, RNN, Activation, Reset

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
each_kind = pytest.mark.parametrize("kind", KINDS)


def module_of(kind: type[nn.RNNBase], bias: bool = True, hidden: int = 4) -> nn.RNNBase:
    torch.manual_seed(0)
    return kind(4, hidden, bias=bias, batch_first=True).double()


@each_kind
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_outputs_state_and_input_gradient_are_torchs(kind: type[nn.RNNBase], bias: bool) -> None:
    module = module_of(kind, bias)
    mixer = mixer_from_torch(module)
    x = torch.randn(3, 7, 4, dtype=torch.float64, requires_grad=True)
    wanted, last = module(x)
    y, state = mixer.scan(x, mixer.init_state(3))
    assert (y - wanted).norm() <= 1e-12 * wanted.norm()
    for found, part in zip(state, last if kind is nn.LSTM else (last,), strict=True):
        assert (found - part[0]).norm() <= 1e-12 * part.norm()
    up = torch.randn_like(y)
    (dx,), (dx_wanted,) = torch.autograd.grad(y, x, up), torch.autograd.grad(wanted, x, up)
    assert (dx - dx_wanted).norm() <= 1e-12 * dx_wanted.norm()


@each_kind
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_there_and_back(kind: type[nn.RNNBase], bias: bool) -> None:
    module = module_of(kind, bias)
    mixer = mixer_from_torch(module)
    back = mixer_to_torch(mixer)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    assert type(back) is kind
    assert torch.allclose(back(x)[0], module(x)[0], rtol=0, atol=1e-13)
    again = mixer_from_torch(back)
    assert all(torch.equal(a, b) for a, b in zip(mixer.parameters(), again.parameters(), strict=True))


@each_kind
def test_a_narrower_cell_needs_its_way_back_to_the_width(kind: type[nn.RNNBase]) -> None:
    module, out = module_of(kind, hidden=3), torch.randn(4, 3, dtype=torch.float64)
    with pytest.raises(InputError, match="give `out`"):
        mixer_from_torch(module)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    assert torch.allclose(mixer_from_torch(module, out)(x), module(x)[0] @ out.T, rtol=0, atol=1e-13)


def test_each_layer_and_direction_can_be_taken() -> None:
    torch.manual_seed(0)
    module = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True).double()
    x, zero = torch.randn(2, 5, 4, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    wanted, _ = module(x)
    for layer in range(2):
        ways = []
        for reverse in (False, True):
            given = x.flip(1) if reverse else x
            (a, _), _ = sequence(LSTMCell(), given, (zero, zero), weights_from_torch(module, layer, reverse=reverse))
            ways.append(a.flip(1) if reverse else a)
        x = torch.cat(ways, 2)
    assert torch.allclose(x, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(4, 4, num_layers=2),
        nn.GRU(4, 4, bidirectional=True),
        nn.LSTM(4, 4, proj_size=2),
        nn.RNN(4, 4, nonlinearity="relu"),
    ],
    ids=["layers", "directions", "proj_size", "relu"],
)
def test_what_has_no_counterpart_is_refused(module: nn.RNNBase) -> None:
    with pytest.raises(InputError):
        mixer_from_torch(module)


@pytest.mark.parametrize("spec", [GRU(reset=Reset.BEFORE), RNN(activation=Activation.IDENTITY)], ids=repr)
def test_what_torch_does_not_have_is_refused(spec: GRU | RNN) -> None:
    with pytest.raises(InputError, match="not a torch module"):
        mixer_to_torch(spec.build(4))


def test_a_layer_that_is_not_there_is_refused() -> None:
    for layer in (-1, 2):
        with pytest.raises(InputError, match=f"layer {layer} of 2: count from 0"):
            weights_from_torch(nn.LSTM(3, 4, num_layers=2), layer)
