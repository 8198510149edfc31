"""torch.func and forward-mode derivatives over every mixer give the numbers of autograd."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap

from threefold.mixers.base import Mixer
from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.specs.base import Form, MixerSpec
from threefold.specs.recurrent import LSTM

VALID = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)
RUNS = [(spec, form) for spec in CATALOG for form in spec.traits.forms]


class InForm(nn.Module):
    """A mixer in one form, so that `functional_call` can ask for it."""

    def __init__(self, mixer: Mixer, form: Form) -> None:
        super().__init__()
        self.mixer, self.form = mixer, form

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return self.mixer.whole(x, valid, form=self.form)


def built(spec: MixerSpec, form: Form) -> tuple[InForm, dict[str, Tensor], Tensor, Tensor]:
    torch.manual_seed(7)
    model = InForm(spec.build(WIDTH).double(), form)
    x, direction = torch.randn(2, 2, 5, WIDTH, dtype=torch.float64)
    return model, dict(model.named_parameters()), x, direction


def loss(model: nn.Module, parameters: dict[str, Tensor], x: Tensor, valid: Tensor | None = None) -> Tensor:
    return functional_call(model, parameters, (x, valid)).square().sum()


def apart(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / (b.norm() + 1e-300)).item()


@pytest.mark.parametrize(("spec", "form"), RUNS, ids=repr)
@pytest.mark.parametrize("valid", [None, VALID], ids=["whole", "padded"])
def test_functional_gradients_are_autograds(spec: MixerSpec, form: Form, valid: Tensor | None) -> None:
    model, parameters, x, _ = built(spec, form)
    wanted = torch.autograd.grad(model(x, valid).square().sum(), list(parameters.values()))
    found = grad(partial(loss, model))(parameters, x, valid)
    for each, want in zip(found.values(), wanted, strict=True):
        assert apart(each, want) <= 1e-12 or want.norm() < 1e-12


@pytest.mark.parametrize(("spec", "form"), RUNS, ids=repr)
def test_a_gradient_for_every_row_of_the_batch(spec: MixerSpec, form: Form) -> None:
    model, parameters, x, _ = built(spec, form)
    found = vmap(lambda row: grad(partial(loss, model))(parameters, row[None]))(x)
    for row in range(len(x)):
        wanted = torch.autograd.grad(model(x[row : row + 1]).square().sum(), list(parameters.values()))
        for each, want in zip(found.values(), wanted, strict=True):
            assert apart(each[row], want) <= 1e-12 or want.norm() < 1e-12


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own forward mode calls it once
@pytest.mark.parametrize(("spec", "form"), RUNS, ids=repr)
def test_forward_mode_is_the_slope_along_a_direction(spec: MixerSpec, form: Form) -> None:
    model, _, x, direction = built(spec, form)
    slope = jvp(model, (x,), (direction,))[1]
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, direction))).tangent
    assert apart(tangent, slope) <= 1e-12
    pull = torch.randn_like(slope)
    x = x.requires_grad_()
    (backward,) = torch.autograd.grad((model(x) * pull).sum(), x)
    assert abs((slope * pull).sum() - (backward * direction).sum()) <= 1e-12 * (1 + slope.norm() * pull.norm())


def test_vmap_of_an_lstm_in_float32() -> None:
    """Where oneDNN would run it, which vmap cannot enter."""
    torch.manual_seed(7)
    mixer, x = LSTM(hidden=7).build(WIDTH), torch.randn(3, 5, WIDTH)
    assert apart(vmap(lambda row: mixer(row[None])[0])(x), mixer(x)) <= 1e-6
