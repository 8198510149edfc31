"""ALiBi's bias and slopes, and rotary or fading positions in linear attention."""

from __future__ import annotations

from math import exp, inf

import torch
from torch import Tensor

from threefold.claims import attend
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, below, claim, equals, near
from threefold.claims.positions.codes import at, turned
from threefold.mixers.attention import SoftmaxMixer
from threefold.mixers.linear import LinearMixer
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Form
from threefold.specs.features import Elu1, Identity
from threefold.specs.positions import Alibi, Decay, Rotary, alibi_slopes

EQUAL = at_most(1e-12)


def bias(n: int, heads: int = 1) -> Tensor:
    """The term that the library adds to scores, (H, n, n)."""
    q = torch.zeros(1, n, heads, 2, dtype=torch.float64)
    return Alibi().build(heads, 2, True)(q, at(range(n)), at(range(n)))[0]


def causal_weights(content: Tensor, term: Tensor) -> Tensor:
    """softmax of causal scores plus a term."""
    future = torch.ones_like(content).triu(1) == 1
    return (content + term).masked_fill(future, -inf).softmax(-1)


@claim(
    "000-4.5-where",
    "ALiBi enters the attention matrix",
    "added to the scores before softmax, not scaled by 1/√d_k",
    recorded=Outcome.TRUE,
)
def where(e: Evidence) -> None:
    mixer = SoftmaxMixer(Softmax(heads=1, position=Alibi()), 8).double()
    x = random(1, 6, 8, seed=1)
    with torch.no_grad():
        q, k, v = (f(x)[0, :, 0] for f in (mixer.heads.queries, mixer.heads.keys, mixer.heads.values))
        y = causal_weights(q @ k.T / 8**0.5, bias(6)[0]) @ v
        expected = mixer.heads.joined(y[None, :, None])
        scaled = mixer.heads.joined((causal_weights(q @ k.T / 8**0.5, bias(6)[0] / 8**0.5) @ v)[None, :, None])
        e.said("softmax(QK^T/√d + bias)V against the layer", error(expected, mixer(x)), EQUAL)
        e.truth("the bias scaled by 1/√d too", error(scaled, mixer(x)), above(1e-3))


def _matrix(e: Evidence) -> None:
    b, m = bias(4)[0] / alibi_slopes(1)[0], 1.0
    e.said("largest |b_ij + m(i − j)|, j ≤ i, in units of m", (b.tril() + m * _distance(4).tril()).abs().max(), EQUAL)


def _distance(n: int) -> Tensor:
    places = torch.arange(n, dtype=torch.float64)
    return places[:, None] - places


@claim(
    "000-4.5-mat",
    "the bias is 0 on the diagonal and decreases away from it",
    "`b_ij = −m(i−j)` for j ≤ i; −∞ above the diagonal, by the causal mask",
    recorded=Outcome.TRUE,
)
def matrix(e: Evidence) -> None:
    _matrix(e)
    b = bias(6)[0]
    e.said("largest |diagonal|", b.diag().abs().max(), EQUAL)
    e.said("smallest step towards the diagonal", (b[5, 1:6] - b[5, 0:5]).min(), above(0.0))
    w = causal_weights(torch.zeros(6, 6, dtype=torch.float64), b)
    e.truth("weight of keys after the query", w.triu(1).abs().max(), at_most(0.0))


SLOPES = {
    2: (1 / 16, 1 / 256),
    3: (1 / 16, 1 / 256, 1 / 4),
    4: (1 / 4, 1 / 16, 1 / 64, 1 / 256),
    6: (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8),
    8: tuple(2.0**-h for h in range(1, 9)),
}


def _slopes(e: Evidence) -> None:
    for heads, right in SLOPES.items():
        found = Alibi().rates(heads)
        e.said(
            f"H = {heads}: largest |slope − table|", max(abs(a - b) for a, b in zip(found, right, strict=True)), EQUAL
        )
    e.said("parameters", sum(p.numel() for p in Alibi().build(8, 4, True).parameters()), equals(0))


@claim(
    "000-4.5-m",
    "m is specific to the head and fixed before training",
    "`m_h = 2^{−8h/H}` for H a power of two; between powers, published interpolation",
    recorded=Outcome.TRUE,
)
def slopes_000(e: Evidence) -> None:
    _slopes(e)


@claim("003-4.5-m", "m: a slope of the head, fixed before training", recorded=Outcome.TRUE)
def slopes_003(e: Evidence) -> None:
    _slopes(e)


@claim(
    "000-4.5-pen",
    "the penalty grows with distance, at different rates per head",
    "attention weight is monotone only for equal content; neighbours then differ by the factor e^m",
    recorded=Outcome.TRUE,
)
def penalty(e: Evidence) -> None:
    b = bias(8, 4)
    for h, m in enumerate(alibi_slopes(4)):
        e.said(f"head {h + 1}: penalty per step − m_{h + 1}", (b[h, 7, 1:8] - b[h, 7, 0:7] - m).abs().max(), EQUAL)
    w = causal_weights(torch.zeros(8, 8, dtype=torch.float64), b[0])[7]
    e.truth(
        "equal content: ratio of neighbouring weights / e^m",
        (w[1:] / w[:-1] / exp(alibi_slopes(4)[0])).mean(),
        near(1.0, 1e-12),
    )
    content = torch.zeros(8, 8, dtype=torch.float64)
    content[7, 2] = 5 * alibi_slopes(4)[0] + 0.1
    w = causal_weights(content, b[0])[7]
    e.truth("content gap above m·distance: the far key weighs more by", w[2] - w[7], above(0.0))


@claim(
    "003-4.5-q",
    "`q_i K^T` measures the relevance of query i to all keys",
    "to keys 1..i, under the causal mask",
    recorded=Outcome.TRUE,
)
def relevance(e: Evidence) -> None:
    q, k, v = (random(5, 4, seed=i) for i in (1, 2, 3))
    weights = causal_weights(q @ k.T, torch.zeros(5, 5, dtype=torch.float64))
    e.said(
        "softmax of q_i·k_j over keys 1..i against the library",
        error(weights @ v, attend.attend(q, k, v, causal=True)),
        EQUAL,
    )
    e.truth("weight of later keys in the library", attend.weights(q, k, causal=True).triu(1).abs().max(), at_most(0.0))


@claim(
    "003-4.5-bias",
    "row i gets the bias `m·[−(i−1), …, −2, −1, 0]`",
    "for keys 1..i; the same softmax as adding `m·[0, 1, …, i−1]`",
    recorded=Outcome.TRUE,
)
def row_bias(e: Evidence) -> None:
    m = alibi_slopes(1)[0]
    row = torch.tensor([-3.0, -2.0, -1.0, 0.0], dtype=torch.float64)
    e.said("row 4 in units of m against [−3, −2, −1, 0]", (bias(4)[0, 3] / m - row).abs().max(), EQUAL)
    content = random(4, 4, seed=1)
    ahead = m * torch.arange(4, dtype=torch.float64).expand(4, 4)
    e.truth(
        "softmax with +m·[0, 1, 2, 3] instead",
        error(causal_weights(content, ahead), causal_weights(content, bias(4)[0])),
        EQUAL,
    )


def turned_linear(scale: float = 1.0, seed: int = 0) -> dict[str, Tensor]:
    """Rotary linear attention, phi = elu + 1, in closed form beside the library's layer."""
    layer = LinearMixer(Linear(heads=1, features=Elu1(), position=Rotary()), 8).double()
    x, here = random(1, 16, 8, seed=seed, scale=scale), range(16)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(random(*parameter.shape, seed=10 * seed + i, scale=0.7))
        q, k, v = (f(x)[0, :, 0] for f in (layer.heads.queries, layer.heads.keys, layer.heads.values))
        phi_q, phi_k = Elu1().phi(q), Elu1().phi(k)
        top = (turned(phi_q, here) @ turned(phi_k, here).T).tril()
        below_ = (phi_q @ phi_k.T).tril().sum(1, keepdim=True)
        forms = {form.value: layer.whole(x, form=form) for form in (Form.STEP, Form.CHUNKED, Form.PARALLEL)}
        return {
            "weights": top / below_,
            "below": below_,
            "closed": layer.heads.joined((top / below_ @ v)[None, :, None]),
        } | forms


@claim(
    "003-4.2-lin",
    "RoPE is compatible with linear self-attention",
    "rotate φ(q), φ(k) in the numerator only; the price: weights may be negative and rows do not sum to 1",
    recorded=Outcome.CONDITIONAL,
)
def with_linear_attention(e: Evidence) -> None:
    found = turned_linear()
    for form in Form:
        e.when(
            f"numerator only: {form.value} form against the L × L formula",
            error(found[form.value], found["closed"]),
            EQUAL,
        )
    e.otherwise("as an average: largest |row sum − 1|", (found["weights"].sum(1) - 1).abs().max(), EQUAL)
    smallest = min(float(turned_linear(scale=2.0, seed=s)["weights"].min()) for s in range(5))
    e.truth("smallest weight in five draws", smallest, below(0.0))
    e.truth("smallest denominator", found["below"].min(), above(0.0))
    e.truth("rotated denominator, smallest over 200 draws", _rotated_denominator(200), below(0.0))
    e.counter_example("φ(q) = φ(k) = (1, 0.01) half a turn apart: (R_m φ(q))·(R_n φ(k)) = −1.0001.")


def _rotated_denominator(draws: int) -> float:
    """The smallest sum of rotated products that could have been divided by."""
    smallest = inf
    for seed in range(draws):
        q, k = (Elu1().phi(random(4, 2, seed=2 * seed + i, scale=3.0)) for i in range(2))
        places = torch.tensor([0, 1, 2, 3])
        smallest = min(smallest, float((turned(q, places) @ turned(k, places).T).tril().sum(1).min()))
    return smallest


@claim(
    "003-4.2-unique",
    "this is special to RoPE: other relative schemes are hard to combine with linear attention",
    "a decay `e^{−m(i−j)}`, ALiBi's factor, is linear in L too: `S ← e^{−m}S + φ(k)v^T`",
    recorded=Outcome.FALSE,
)
def not_unique(e: Evidence) -> None:
    q, k, v = (random(16, 4, seed=i) for i in (1, 2, 3))
    m = Decay().rates(1)[0]
    fade = torch.exp(-m * _distance(16)).tril()
    raw, _ = attend.linear(q, k, v, Identity(), causal=True, normalised=False, rate=m)
    closed = ((q @ k.T) * fade) @ v
    e.said("decay as a recurrence over the masked L × L form: relative difference", error(raw, closed), above(1e-6))
    e.truth("the same: relative difference", error(raw, closed), EQUAL)
    weights = (Elu1().phi(q) @ Elu1().phi(k).T) * fade
    y, _ = attend.linear(q, k, v, Elu1(), causal=True, rate=m)
    e.truth("normalised, φ = elu + 1", error(y, weights / weights.sum(1, keepdim=True) @ v), EQUAL)
    e.counter_example("Linear(position=Decay()): a relative scheme, in a state of fixed size.")
