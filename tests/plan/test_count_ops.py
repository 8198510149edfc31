"""Ops of every kind against sums by hand: convolutions, contractions, attention with masks, recomputation, losses."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from threefold.plan.conventions import Scores
from threefold.plan.count import count

B, T, D, H = 2, 12, 16, 4
ROWS, PAIRS = 2 * B * T, 2 * B * T * T * D  # twice the rows; a product of all pairs

Call = Callable[..., Tensor]


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def attend(x: Tensor, masked: bool = False, dropout: float = 0.0, causal: bool = False) -> Tensor:
    mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril() if masked else None
    return functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), mask, dropout, causal)


def labels(x: Tensor) -> Tensor:
    return torch.zeros(B * T, dtype=torch.long, device=x.device)


def shut(x: Tensor) -> Tensor:
    return torch.zeros(B, T, dtype=torch.bool, device=x.device)


FUNCTIONS: dict[str, tuple[Call, int]] = {
    "bmm": (lambda x: torch.bmm(x, x.transpose(1, 2)), PAIRS),
    "three factors": (lambda x: torch.einsum("btd,bsd,bse->bte", x, x, x), 2 * PAIRS),
    "rows times rows": (lambda x: torch.einsum("btd,btd->bt", x, x), ROWS * D),
    "outer products": (lambda x: torch.einsum("btd,bte->btde", x, x), ROWS * D * D),
    "matrix and vector": (lambda x: x @ x[0, 0], ROWS * D),
    "addmm": (lambda x: torch.addmm(x[0, :, :T], x[0], x[1].T), 2 * T * T * D),
    "baddbmm": (lambda x: torch.baddbmm(x[:, :, :T], x, x.transpose(1, 2)), PAIRS),
    "masked attention": (partial(attend, masked=True), 2 * PAIRS),
    "causal attention": (partial(attend, causal=True), 2 * PAIRS),
    "attention with dropout": (partial(attend, dropout=0.1), 2 * PAIRS),
    "elementwise": (lambda x: functional.glu(functional.silu(x)) + functional.hardswish(x)[..., :8], 0),
    "resampling": (lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), 0),
    "reductions": (lambda x: x.norm(dim=-1) + x.std(-1) + x.logsumexp(-1) + x.prod(-1), 0),
    "selection": (lambda x: x.sort(-1)[0].topk(3, -1)[0].cumsum(1).masked_fill(x[..., :3] > 0, 1.0), 0),
}

MODULES: dict[str, tuple[nn.Module, Call, int]] = {
    "conv": (nn.Conv1d(D, 8, 3, padding=1), lambda m, x: m(x.mT), ROWS * 8 * D * 3),
    "grouped conv": (nn.Conv1d(D, 32, 5, 2, groups=4), lambda m, x: m(x.mT), 2 * B * 4 * 32 * D // 4 * 5),
    "transposed conv": (nn.ConvTranspose1d(D, 8, 3, 2), lambda m, x: m(x.mT), ROWS * D * 8 * 3),
    "functional": (nn.Linear(D, 9), lambda m, x: functional.linear(m(x).relu(), m.weight.T), 2 * ROWS * D * 9),
    "bilinear": (nn.Bilinear(D, D, 5), lambda m, x: m(x, x), ROWS * D * D * 5),
    "batch norm": (nn.BatchNorm1d(D), lambda m, x: m(x.mT), 0),
    "attention, no weights": (
        nn.MultiheadAttention(D, H, batch_first=True),
        lambda m, x: m(x, x, x, key_padding_mask=shut(x), need_weights=False)[0],
        ROWS * 4 * D * D + 2 * PAIRS,
    ),
    "attention, weights": (
        nn.MultiheadAttention(D, H, batch_first=True, kdim=8, vdim=4),
        lambda m, x: m(x, x[..., :8], x[..., :4])[0],
        ROWS * (2 * D * D + 12 * D) + 2 * PAIRS,
    ),
    "lstm, two ways, projected": (
        nn.LSTM(D, 8, 2, bidirectional=True, proj_size=3, batch_first=True),
        lambda m, x: m(x)[0],
        ROWS * 2 * (32 * (D + 3) + 8 * 3 + 32 * (6 + 3) + 8 * 3),
    ),
    "gru, two ways": (
        nn.GRU(D, 8, 2, bidirectional=True, batch_first=True),
        lambda m, x: m(x)[0],
        ROWS * 2 * 24 * (D + 8 + 16 + 8),
    ),
    "recomputed": (
        nn.Linear(D, 9),
        lambda m, x: checkpoint(lambda y: m(y).relu(), x, use_reentrant=False),
        ROWS * D * 9,
    ),
    "recomputed, reentrant": (nn.Linear(D, 9), lambda m, x: checkpoint(m, x, use_reentrant=True), ROWS * D * 9),
    "loss": (
        nn.Linear(D, 9),
        lambda m, x: functional.cross_entropy(m(x).flatten(0, 1), labels(x)),
        ROWS * D * 9,
    ),
    "dropout": (nn.Linear(D, 9), lambda m, x: functional.dropout(m(x), 0.3), ROWS * D * 9),
}


STARTED = {  # no gradient flows into the first states, which are constants
    "gru, two ways": 2 * B * 2 * 2 * 24 * 8,
    "lstm, two ways, projected": 2 * B * 2 * 2 * 32 * 3,
}


class Called(nn.Module):
    def __init__(self, inner: nn.Module, call: Call) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.inner, x)


def vectors(device: str) -> Tensor:
    return torch.linspace(-1, 1, B * T * D, device=device).view(B, T, D).requires_grad_()


@pytest.mark.parametrize("scores", Scores, ids=lambda scores: scores.value)
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, device: str, scores: Scores) -> None:
    call, flops = FUNCTIONS[name]
    found = count(call, vectors(device), scores=scores)
    assert found.forward == flops and not found.unknown, found.says


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, device: str) -> None:
    inner, call, flops = MODULES[name]
    found = count(Called(inner, call).to(device), vectors(device), scores=Scores.MATERIALISED)
    assert found.forward == flops and not found.unknown, found.says
    products = {"bilinear": 3, "recomputed": 3, "recomputed, reentrant": 3}.get(name, 2)
    assert found.backward == products * flops - STARTED.get(name, 0)


def test_weights_that_a_function_closes_over_are_differentiated() -> None:
    layer = nn.Linear(D, 9)
    x = vectors("cpu")
    named, closed = count(layer, x), count(lambda y: layer(y), x)
    assert (named.forward, named.backward) == (closed.forward, closed.backward) == (ROWS * D * 9, 2 * ROWS * D * 9)


def test_gradients_stay_as_they_were() -> None:
    layer, x = nn.Linear(D, 9), vectors("cpu")
    layer(x).sum().backward()
    kept = layer.weight.grad
    assert kept is not None
    before = kept.clone()
    count(layer, x)
    assert layer.weight.grad is kept and torch.equal(kept, before)


def test_torchs_own_counter_agrees_where_it_is_right() -> None:
    layer = nn.TransformerEncoderLayer(D, H, 32, dropout=0.0, batch_first=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as theirs:
        layer(vectors("cpu")).sum().backward()
    ours = count(layer, vectors("cpu"), scores=Scores.MATERIALISED)
    assert ours.forward + ours.backward == theirs.get_total_flops()


def test_what_has_no_rule_is_named() -> None:
    assert count(lambda x: torch.fft.rfft(x, dim=1).abs(), vectors("meta")).unknown == ("_fft_c2c", "_fft_r2c")
    assert "_cdist_forward" in count(lambda x: torch.cdist(x, x), vectors("cpu")).unknown
