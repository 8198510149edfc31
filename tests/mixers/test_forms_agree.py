"""Every entry of the catalogue, in every form it has: one function, one state, one gradient, at every length and split.

Compared are the outputs, the state after them, and the gradients of both to the inputs, to every parameter, and to the
state that came before. That state is not zero: two tokens made it, and the gradients to these two are compared as well.
"""

import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.mixers.base import CausalMixer, Mixer
from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.mixers.linear import NormaliserWarning
from threefold.ops.scan import leaves
from threefold.specs.base import Form, MixerSpec

F64 = torch.float64
CHUNK = 3  # of every entry that has chunks
LENGTHS = (0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 1)
LIMIT = 1e-12
CAUSAL = [spec for spec in CATALOG if spec.traits.causal]
SEVERAL = [spec for spec in CATALOG if len(spec.traits.forms) > 1]

Pieces = list[tuple[Form, int]]


@pytest.fixture(autouse=True)
def signed_maps_may_warn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormaliserWarning)
        yield


def built(spec: MixerSpec) -> Mixer:
    torch.manual_seed(11)
    mixer = spec.build(WIDTH).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return mixer


def tokens(T: int, padded: bool) -> tuple[Tensor, Tensor | None]:
    """Three rows; padded, they are scattered differently, and the first holds nothing."""
    draw = torch.Generator().manual_seed(T)
    x = torch.randn(3, T, WIDTH, dtype=F64, generator=draw)
    valid = torch.rand(3, T, generator=draw) < 0.6
    valid[0], valid[1, :1] = False, True
    return x, valid if padded else None


class Outcome:
    """What a causal mixer makes of x, fed in pieces, each in a form of its own, behind a state that is not zero."""

    def __init__(self, mixer: CausalMixer, x: Tensor, valid: Tensor | None, pieces: Pieces) -> None:
        first, x = tokens(2, valid is not None)[0].requires_grad_(), x.clone().requires_grad_()
        dirty = x if valid is None else torch.where(valid[..., None], x, torch.nan)
        _, start = mixer.scan(first, mixer.init_state(len(x)), form=Form.STEP)
        state, at, ys = start, 0, []
        for form, length in pieces:
            part = slice(at, at + length)
            y, state = mixer.scan(dirty[:, part], state, valid=None if valid is None else valid[:, part], form=form)
            ys.append(y)
            at += length
        self.values = [torch.cat(ys, 1), *leaves(state).values()]
        watched = [leaf for leaf in start if isinstance(leaf, Tensor) and leaf.requires_grad]
        self.gradients = gradients(self.values, [x, first, *watched, *mixer.parameters()])
        self.all = [*self.values, *self.gradients]


def gradients(values: list[Tensor], sources: list[Tensor]) -> tuple[Tensor, ...]:
    """Of one weighted sum of all values."""
    draw = torch.Generator().manual_seed(0)
    smooth = [v for v in values if v.is_floating_point()]
    loss = sum((v * torch.randn(v.shape, generator=draw, dtype=F64)).sum() for v in smooth)
    return torch.autograd.grad(loss, sources, materialize_grads=True, allow_unused=True)


def whole(mixer: Mixer, x: Tensor, valid: Tensor | None, form: Form) -> list[Tensor]:
    """The same for a mixer without a state."""
    x = x.clone().requires_grad_()
    y = mixer.whole(x if valid is None else torch.where(valid[..., None], x, torch.nan), valid, form=form)
    return [y, *gradients([y], [x, *mixer.parameters()])]


def apart(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference of any pair, relative to the larger of 1 and the pair's largest entry."""
    gaps = [0.0]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        if a.numel():
            a, b = a.detach().double(), b.detach().double()
            gaps.append(float((a - b).abs().max() / b.abs().max().clamp(min=1.0)))
    return float(torch.tensor(gaps).max())  # NaN is passed on, and exceeds no limit: it fails the comparison


@pytest.mark.parametrize("spec", SEVERAL, ids=repr)
def test_every_form_is_the_step(spec: MixerSpec) -> None:
    mixer = built(spec)
    *others, reference = spec.traits.forms
    assert not isinstance(mixer, CausalMixer) or reference is Form.STEP
    for T in dict.fromkeys(LENGTHS):
        for padded in (False, True):
            x, valid = tokens(T, padded)
            if isinstance(mixer, CausalMixer):
                wanted = Outcome(mixer, x, valid, [(reference, T)]).all
                found = [Outcome(mixer, x, valid, [(form, T)]).all for form in others]
            else:
                wanted, found = whole(mixer, x, valid, reference), [whole(mixer, x, valid, form) for form in others]
            for form, each in zip(others, found, strict=True):
                assert apart(each, wanted) <= LIMIT, (T, padded, form)


@pytest.mark.parametrize("spec", CATALOG, ids=repr)
def test_nothing_is_mixed_when_there_is_nothing(spec: MixerSpec) -> None:
    mixer = built(spec)
    for form in spec.traits.forms:
        for shape in ((2, 0, WIDTH), (0, 3, WIDTH), (0, 0, WIDTH)):
            for valid in (None, torch.zeros(shape[:2], dtype=torch.bool)):
                assert mixer.whole(torch.zeros(shape, dtype=F64), valid, form=form).shape == shape
        y = mixer.whole(torch.full((2, 3, WIDTH), torch.nan, dtype=F64), torch.zeros(2, 3, dtype=torch.bool), form=form)
        assert torch.equal(y, torch.zeros_like(y))


@pytest.mark.parametrize("spec", CATALOG, ids=repr)
def test_what_cannot_be_mixed_is_refused_with_a_sentence(spec: MixerSpec) -> None:
    mixer, x = built(spec), torch.zeros(2, 3, WIDTH, dtype=F64)
    long = torch.ones(2, 4, dtype=torch.bool)
    name = type(spec).__name__
    refused = {
        rf"{name} has no form 'step'; it has Form\.": lambda: mixer.whole(x, form="step"),
        rf"{name} of width 12 got x of shape \(2, 3, 7\): give \(B, T, 12\)": lambda: mixer(x[..., :7]),
        rf"{name} of width 12 got x of shape \(2, 12\)": lambda: mixer(x[:, 0]),
        r"`valid` of shape \(2, 4\) and torch.bool: give booleans of shape \(2, 3\)": lambda: mixer(x, long),
        r"`valid` of shape \(2, 3\) and torch.float32: give booleans": lambda: mixer(x, torch.ones(2, 3)),
    }
    for sentence, call in refused.items():
        with pytest.raises(InputError, match=sentence):
            call()


@pytest.mark.parametrize("spec", CAUSAL, ids=repr)
def test_every_split_in_two_is_the_whole(spec: MixerSpec) -> None:
    """Head and tail in forms that change with the cut, so that each form continues each other's state."""
    mixer, forms = built(spec), spec.traits.forms
    for T in dict.fromkeys(LENGTHS):
        for padded in (False, True):
            x, valid = tokens(T, padded)
            wanted = Outcome(mixer, x, valid, [(forms[0], T)]).all
            for cut in range(T + 1):
                head, tail = forms[cut % len(forms)], forms[(cut // len(forms) + padded) % len(forms)]
                found = Outcome(mixer, x, valid, [(head, cut), (tail, T - cut)]).all
                assert apart(found, wanted) <= LIMIT, (T, cut, padded)


@pytest.mark.parametrize("spec", CAUSAL, ids=repr)
def test_the_comparison_sees_each_of_its_parts(spec: MixerSpec) -> None:
    """One parameter moved by a millionth: outputs, some state and the gradients to the earlier state all tell."""
    mixer, (x, _) = built(spec), tokens(4, False)
    before = Outcome(mixer, x, None, [(spec.traits.forms[0], 4)])
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(1e-6)
    after = Outcome(mixer, x, None, [(spec.traits.forms[0], 4)])
    assert apart(after.values[:1], before.values[:1]) > 100 * LIMIT
    assert apart(after.values[1:], before.values[1:]) > 100 * LIMIT
    assert apart(list(after.gradients[1:3]), list(before.gradients[1:3])) > 100 * LIMIT
