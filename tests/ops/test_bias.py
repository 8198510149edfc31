"""Terms on scores: the published rows, slopes and buckets, each with what must be rejected."""

import math

import pytest
import torch

from threefold.ops.bias import alibi, bucket
from threefold.specs.positions import Alibi, Decay, Shaw, alibi_slopes

F64 = torch.float64


def test_the_published_alibi_row() -> None:
    """T-ALIBI-1."""
    at = torch.arange(1, 5)[None]
    bias = alibi(torch.ones(1, dtype=F64), at, at)[0, 0]
    assert bias[3].tolist() == [-3, -2, -1, 0]
    torch.manual_seed(3)
    q, k = torch.randn(4, 8, dtype=F64), torch.randn(4, 8, dtype=F64)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    published = (q @ k.T + 0.25 * bias).masked_fill(~mask, -math.inf).softmax(-1)
    by_key = (q @ k.T + 0.25 * torch.arange(4)).masked_fill(~mask, -math.inf).softmax(-1)
    assert (published - by_key).abs().max() <= 1e-12
    assert published.triu(1).abs().max() == 0
    unmasked = (q @ k.T + 0.25 * bias).softmax(-1) - (q @ k.T + 0.25 * torch.arange(4)).softmax(-1)
    assert unmasked.abs().max() > 1e-3, "without the causal mask the two differ"


def test_the_published_slopes() -> None:
    """T-ALIBI-2."""
    assert alibi_slopes(4) == (1 / 4, 1 / 16, 1 / 64, 1 / 256)
    assert alibi_slopes(8) == tuple(2.0**-h for h in range(1, 9))
    assert alibi_slopes(2) == (1 / 16, 1 / 256)
    assert alibi_slopes(6) == (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8)
    assert alibi_slopes(3) == (1 / 16, 1 / 256, 1 / 4)
    assert Decay().rates(6) == Alibi().rates(6) == alibi_slopes(6)


def test_alibi_weights_fall_by_one_factor_unless_content_outweighs_it() -> None:
    """T-ALIBI-3."""
    m, at = 0.25, torch.arange(6)[None]
    bias = alibi(torch.tensor([m], dtype=F64), at[:, -1:], at)[0, 0, 0]
    weights = bias.softmax(-1)
    assert ((weights[1:] / weights[:-1]) - math.exp(m)).abs().max() <= 1e-12
    content = torch.zeros(6, dtype=F64)
    content[0] = m * 5 + 0.1
    assert (bias + content).argmax() == 0, "a content gap above m times the distance inverts the order"


@pytest.mark.parametrize("causal", [True, False])
def test_buckets_are_exact_near_and_logarithmic_far(causal: bool) -> None:
    offset = torch.arange(-200, 201)
    found = bucket(offset, 32, 128, causal)
    n = 32 if causal else 16
    expected = []
    for o in offset.tolist():
        d, start = (max(-o, 0), 0) if causal else (abs(o), 16 if o > 0 else 0)
        far = n // 2 + int(math.log(max(d, 1) / (n // 2)) / math.log(128 / (n // 2)) * (n - n // 2))
        expected.append(start + (d if d < n // 2 else min(far, n - 1)))
    assert found.tolist() == expected
    assert found.min() == 0 and found.max() == 31, "no row of the table is wasted"


def test_shaw_reads_the_clipped_offset() -> None:
    torch.manual_seed(4)
    q, at = torch.randn(1, 9, 2, 4, dtype=F64), torch.arange(9)[None]
    module = Shaw(2).build(2, 4, True).double()
    scores = module(q, at, at)
    for i in range(9):
        for j in range(i + 1):
            r = module.table[max(j - i, -2) + 2]
            assert torch.allclose(scores[0, :, i, j], q[0, i] @ r / 2, rtol=0, atol=1e-12)


def test_a_module_cast_to_bfloat16_keeps_its_slopes() -> None:
    at = torch.arange(3)[None]
    module = Alibi().build(12, 4, True).bfloat16()
    bias = module(torch.zeros(1, 3, 12, 4, dtype=torch.bfloat16), at, at)
    assert torch.equal(-bias[0, :, 1, 0], torch.tensor(alibi_slopes(12)))
