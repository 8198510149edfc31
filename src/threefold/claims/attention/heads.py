"""Multi-head attention as a sum over heads: W^(h) = W_v^h W_o^h."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.claims import attend
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals
from threefold.mixers.attention import SoftmaxEverywhere
from threefold.specs.attention import Softmax

EQUAL = at_most(1e-12)
N, D, H, K, V = 7, 12, 3, 5, 4


def layer(*, bias: bool) -> SoftmaxEverywhere:
    """The library's attention: 3 heads, keys of 5 and values of 4, width 12."""
    module = SoftmaxEverywhere(Softmax(heads=H, key_dim=K, value_dim=V, causal=False, bias=bias), D).double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(random(*parameter.shape, seed=i, scale=0.5))
    return module


def summed(module: SoftmaxEverywhere, x: Tensor) -> Tensor:
    """Sum over heads of softmax(.) X W^(h), without any bias of values or output."""
    with torch.no_grad():
        q, k = module.heads.queries(x), module.heads.keys(x)
        W_v = module.heads.value.weight.unflatten(0, (H, V))
        W_o = module.heads.output.weight.unflatten(1, (H, V))
        total = torch.zeros_like(x)
        for h in range(H):
            W = W_v[h].T @ W_o[:, h].T
            total = total + attend.weights(q[0, :, h] / K**0.5, k[0, :, h]) @ x[0] @ W
        return total


def _evidence(e: Evidence) -> None:
    x = random(1, N, D, seed=20)
    plain, biased = layer(bias=False), layer(bias=True)
    with torch.no_grad():
        e.said("no biases: concat(H_h) W_o against Σ_h softmax(·) X W^(h)", error(summed(plain, x), plain(x)), EQUAL)
        e.truth("with biases: relative error of the same sum", error(summed(biased, x), biased(x)), above(1e-2))
        row = biased.heads.output(biased.heads.value.bias)
        e.truth("with biases and the constant row Σ_h b_v W_o + b_o", error(summed(biased, x) + row, biased(x)), EQUAL)
    W = plain.heads.value.weight[:V].T @ plain.heads.output.weight[:, :V].T
    e.truth("rank of the 12 × 12 matrix W^(h)", int(torch.linalg.matrix_rank(W)), equals(V))


@claim(
    "000-3.3",
    "`concat(H_h) W_o = Σ_h softmax(·) X W^(h)`, `W^(h) = W_v W_o`",
    "without biases; with them a constant row is added; the rank of W^(h) is at most D_v, so a free "
    "D × D matrix is a larger class",
    recorded=Outcome.TRUE,
)
def as_sum_000(e: Evidence) -> None:
    _evidence(e)


@claim(
    "003-3.3",
    "multi-head attention is `Σ_h` with `W^(h) = W_v W_o`",
    "without biases, as 000-3.3",
    recorded=Outcome.TRUE,
)
def as_sum_003(e: Evidence) -> None:
    _evidence(e)
