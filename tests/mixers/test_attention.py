"""The attention mixers: multi-head identities, permutation, cached decoding, compilation."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.mixers.linear import NormaliserWarning
from threefold.ops.scan import leaves
from threefold.positions import ScorePosition
from threefold.specs.attention import Attention, Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.features import Identity, Taylor
from threefold.specs.positions import Alibi, Relative, Rotary, Shaw, Sinusoidal

F64 = torch.float64
ENTRIES = [
    s for s in CATALOG if isinstance(s, Attention) or (isinstance(s, Bidirectional) and isinstance(s.mixer, Attention))
]
CAUSAL = [s for s in ENTRIES if s.traits.causal]


def built(spec: MixerSpec, width: int = WIDTH):
    torch.manual_seed(11)
    mixer = spec.build(width).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return mixer


def tokens(T: int, padded: bool = False, B: int = 3) -> tuple[Tensor, Tensor | None]:
    torch.manual_seed(T)
    x = torch.randn(B, T, WIDTH, dtype=F64)
    valid = torch.rand(B, T) < 0.6
    if T:
        valid[0], valid[1, 0] = False, True
    return x, valid if padded else None


def apart(a: Tensor, b: Tensor) -> float:
    return ((a - b).abs().max() / (1 + b.abs().max())).item() if a.numel() else 0.0


def test_heads_concatenated_are_heads_summed() -> None:
    """T-MH."""
    N, D, H, K, V = 7, 12, 3, 5, 4
    mixer = built(Softmax(heads=H, key_dim=K, value_dim=V, causal=False), D)
    x = torch.randn(1, N, D, dtype=F64)
    part = mixer.heads

    def summed() -> Tensor:
        total = torch.zeros(N, D, dtype=F64)
        for h in range(H):
            q, k = (x[0] @ p.weight[h * K : (h + 1) * K].T for p in (part.query, part.key))
            W = part.value.weight[h * V : (h + 1) * V].T @ part.output.weight[:, h * V : (h + 1) * V].T
            assert torch.linalg.matrix_rank(W) == V
            total += (q @ k.T / K**0.5).softmax(-1) @ x[0] @ W
        return total

    assert (mixer(x)[0] - summed()).abs().max() <= 1e-12
    with_bias = built(Softmax(heads=H, key_dim=K, value_dim=V, causal=False, bias=True), D)
    with torch.no_grad():
        with_bias.load_state_dict(mixer.state_dict(), strict=False)
        with_bias.heads.query.bias.zero_(), with_bias.heads.key.bias.zero_()
    row = part.output.weight @ with_bias.heads.value.bias + with_bias.heads.output.bias
    assert (with_bias(x)[0] - summed() - row).abs().max() <= 1e-12, "with biases, one constant row more"
    assert (with_bias(x)[0] - summed()).abs().max() > 0.1


PERMUTED = [s for s in ENTRIES if isinstance(s, Attention)]


@pytest.mark.parametrize("spec", PERMUTED, ids=repr)
def test_permutation_as_the_traits_declare(spec: Attention) -> None:
    """T-PERM."""
    mixer = built(spec)
    x, _ = tokens(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    y = mixer(x)
    gap = (mixer(x[:, order]) - y[:, order]).abs().max()
    if spec.traits.permutes:
        assert gap <= 1e-12
        assert (mixer(x[:, order]).mean(1) - y.mean(1)).abs().max() <= 1e-12, "a mean over tokens forgets the order"
        assert (mixer(x[:, order]) - y).abs().max() > 1e-2, "the outputs move along, they do not stay"
    else:
        assert gap > 1e-4


def test_an_absolute_code_breaks_the_permutation() -> None:
    """T-PERM."""
    mixer, code = built(Softmax(heads=2, causal=False)), Sinusoidal().build(WIDTH)
    x, _ = tokens(9)
    at, order = torch.arange(9)[None], torch.arange(8, -1, -1)
    assert (mixer(code(x[:, order], at)) - mixer(code(x, at))[:, order]).abs().max() > 1e-2


@pytest.mark.parametrize("position", [None, Rotary(), Alibi(), Shaw(3), Relative(8, 16)])
def test_decoding_from_a_cache_is_full_causal_attention(position) -> None:
    """T-KV."""
    spec = Softmax(heads=2, key_dim=4, value_dim=5, position=position)
    mixer = built(spec)
    x, _ = tokens(12)
    heads, at = mixer.heads, torch.arange(12)[None]
    with torch.no_grad():
        q, k, v = (y.transpose(1, 2) for y in heads.entering(x, at))
        scores = q @ k.transpose(-1, -2) / 2
        if isinstance(heads.bias, ScorePosition):
            scores = scores + heads.bias(q.transpose(1, 2), at, at)
        mask = torch.ones(12, 12, dtype=torch.bool).tril()
        full = heads.joined((scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v).transpose(1, 2))
        state, ys = mixer.init_state(3), []
        for t in range(12):
            y, state = mixer.step(x[:, t], state)
            ys.append(y)
        assert (torch.stack(ys, 1) - full).abs().max() <= 1e-12
        if isinstance(position, Rotary):
            assert (leaves(state)["keys"] - k).abs().max() <= 1e-12, (
                "what is cached is the rotated key, once and for all"
            )
        unmasked = heads.joined((scores.softmax(-1) @ v).transpose(1, 2))
        assert (torch.stack(ys, 1) - unmasked).abs().max() > 1e-2


@pytest.mark.parametrize("features", [Identity(), Taylor(3, odd=True), Taylor(1, odd=True)])
def test_a_signed_map_warns_and_counts(features) -> None:
    mixer = built(Linear(heads=2, features=features))
    x, _ = tokens(40)
    with pytest.warns(NormaliserWarning, match="use an even Taylor degree"):
        mixer(20 * x)
    with pytest.warns(NormaliserWarning):
        _, state = mixer.scan(20 * x, mixer.init_state(3))
    assert state.nonpositive.sum() > 0
    with pytest.warns(NormaliserWarning):
        built(Linear(heads=2, features=features, causal=False))(20 * x)
    even = built(Linear(heads=2, features=Taylor(4)))
    assert even.scan(20 * x, even.init_state(3))[1].nonpositive.sum() == 0


COMPILED = [
    Softmax(heads=2, chunk=3, position=Relative(8, 16)),
    Softmax(heads=2, kv_heads=1, causal=False, chunk=3, qk_norm=True),
    Linear(heads=2, features=Taylor(3, odd=True), normalised=False, chunk=3),
    Linear(heads=2, chunk=3, position=Rotary()),
]


@pytest.mark.parametrize("spec", COMPILED, ids=repr)
def test_the_default_form_compiles_to_one_graph(spec: Attention) -> None:
    mixer = built(spec)
    x, valid = tokens(7, padded=True)
    compiled = torch.compile(mixer, fullgraph=True, backend="eager")
    assert apart(compiled(x, valid), mixer(x, valid)) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("spec", ENTRIES, ids=repr)
def test_every_form_compiles_with_its_gradients(spec: MixerSpec) -> None:
    mixer = built(spec)
    for padded in (False, True):
        x, valid = tokens(7, padded)
        x.requires_grad_()
        for form in spec.traits.forms:
            torch.compiler.reset()
            compiled = torch.compile(
                lambda x, form=form, valid=valid: mixer.whole(x, valid, form=form), fullgraph=True, backend="aot_eager"
            )
            (found,), (wanted,) = (
                torch.autograd.grad(f.sum(), x) for f in (compiled(x), mixer.whole(x, valid, form=form))
            )
            assert apart(found, wanted) <= 1e-12


def test_widths_that_do_not_divide_are_refused() -> None:
    from threefold.errors import InputError

    with pytest.raises(InputError, match="width 10 does not divide among 4 heads"):
        Softmax(heads=4).build(10)
    assert replace(Softmax(heads=4), key_dim=3, value_dim=7).build(10)(torch.randn(1, 2, 10)).shape == (1, 2, 10)
