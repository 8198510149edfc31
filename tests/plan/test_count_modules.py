"""What others count wrong is counted right: ten modules, every mode, every backend, on meta and on the CPU."""

from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from threefold.plan.conventions import Scores
from threefold.plan.count import Count, count, parameters
from threefold.plan.formulas import Kind

B, L, D, H, F = 2, 128, 64, 4, 256


class Called(nn.Module):
    """A module under a function of its own."""

    def __init__(self, inner: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.inner, x)


class Weight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(D, D))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(heads(x), heads(x), heads(x))


class LinearAttention(nn.Module):
    """Causal, by running sums of outer products, as einsum writes them."""

    def forward(self, x: Tensor) -> Tensor:
        q = k = v = heads(x)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        sums = torch.einsum("bhlk,bhlv->bhlkv", k, v).cumsum(2)
        mass = torch.einsum("bhlk,bhlk->bhl", q, k.cumsum(2))
        return torch.einsum("bhlk,bhlkv->bhlv", q, sums) / mass[..., None]


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(D, H, F, dropout=0.0, batch_first=True)


def attention(weights: bool) -> nn.Module:
    inner = nn.MultiheadAttention(D, H, batch_first=True)
    return Called(inner, lambda m, x: m(x, x, x, need_weights=weights)[0])


def products(length: int) -> dict[str, int]:
    """True multiply-adds."""
    rows, pairs = B * length, 2 * B * length**2 * D
    return {
        "linear": rows * D * D,
        "encoder layer": rows * 4 * D * D + pairs + 2 * rows * D * F,
        "lstm": rows * 4 * D * 2 * D,
        "gru": rows * 3 * D * 2 * D,
        "sdpa": pairs,
        "mha": rows * 4 * D * D + pairs,
        "mha with weights": rows * 4 * D * D + pairs,
        "linear attention": 2 * rows * D * D // H + rows * D,
        "x @ parameter": rows * D * D,
    }


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(D, D),
    "encoder layer": encoder,
    "lstm": lambda: Called(nn.LSTM(D, D, batch_first=True), lambda m, x: m(x)[0]),
    "gru": lambda: Called(nn.GRU(D, D, batch_first=True), lambda m, x: m(x)[0]),
    "sdpa": Attention,
    "mha": lambda: attention(False),
    "mha with weights": lambda: attention(True),
    "linear attention": LinearAttention,
    "x @ parameter": Weight,
}
MODES = ("train", "eval", "no_grad")


def seen(name: str, mode: str, device: str, scores: Scores | None, length: int = L) -> Count:
    module = MODULES[name]().to(device).train(mode == "train")
    x = torch.zeros(B, length, D, device=device, requires_grad=True)
    with torch.no_grad() if mode == "no_grad" else nullcontext():
        return count(module, x, scores=scores)


@pytest.mark.parametrize("scores", [None, *Scores], ids=lambda s: s.value if s else "device's")
@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODULES)
def test_exact_in_every_mode(name: str, mode: str, device: str, scores: Scores | None) -> None:
    found = seen(name, mode, device, scores, 32)
    assert found.forward == 2 * products(32)[name], (found.flops, found.says)
    assert not found.unknown, found.says
    assert (found.backward > 0) == (mode != "no_grad")


@pytest.mark.parametrize("name", MODULES)
def test_at_the_sizes_of_the_survey(name: str) -> None:
    assert seen(name, "eval", "meta", None).forward == 2 * products(L)[name]


@pytest.mark.parametrize("mode", MODES)
def test_growth_when_the_length_doubles(mode: str) -> None:
    once, twice = (seen("encoder layer", mode, "meta", Scores.FUSED, n) for n in (L, 2 * L))
    assert Fraction(twice.forward, once.forward) == Fraction(5, 2)


def test_backward_is_twice_forward_where_everything_wants_a_gradient() -> None:
    for name in ("linear", "lstm", "gru", "x @ parameter"):
        found = seen(name, "train", "cpu", None, 16)
        first = {"gru": 3}.get(name, 0) * B * D * D * 2  # no gradient flows into the constant first state
        assert found.backward == 2 * found.forward - first, name


def test_tied_and_aliased_weights_count_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(100, D)
            self.out = nn.Linear(D, 100, bias=False)
            self.out.weight = self.table.weight
            self.again = self.out

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.table(ids)) + self.again(self.table(ids))

    model = Tied()
    found = count(model, torch.zeros(B, 5, dtype=torch.long))
    assert found.params == parameters(model) == 100 * D
    assert found.forward == 2 * (2 * B * 5 * D * 100)
    assert found.rows["out"] == found.forward and found.rows[""] == found.forward


def test_dropout_has_no_flops_and_its_noise_is_saved() -> None:
    dropout = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5))
    x = torch.zeros(B, D)
    plain, noisy = count(dropout.eval(), x), count(dropout.train(), x)
    assert plain.forward == noisy.forward and noisy.rows["1"] == 0
    assert noisy.saved > plain.saved


def test_an_unknown_op_is_named() -> None:
    found = count(lambda x: torch.linalg.inv_ex(x)[0] @ x, torch.eye(3))
    assert found.unknown and found.says.startswith("at least, uncounted ops: ")
    assert found.forward == 2 * 3**3


def test_every_op_has_one_class() -> None:
    found = seen("encoder layer", "train", "meta", Scores.MATERIALISED, 8)
    classes = [{op for op, n in found.ops[kind].items() if n} for kind in Kind]
    assert sum(map(len, classes)) == len(set().union(*classes)) > 10


def test_nothing_is_left_behind() -> None:
    module, x = encoder(), torch.zeros(B, 4, D, requires_grad=True)
    before = functional.scaled_dot_product_attention
    count(module, x, scores=Scores.FUSED)
    with pytest.raises(AssertionError, match="embedding dimension"):
        count(module, torch.zeros(B, 4, D + 1), scores=Scores.FUSED)
    assert functional.scaled_dot_product_attention is before
    assert not module._forward_hooks and not module.self_attn._forward_pre_hooks
    assert x.grad is None and all(p.grad is None for p in module.parameters())
    assert count(module, x).forward == 2 * products(4)["encoder layer"]
