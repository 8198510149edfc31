"""What softmax attention costs, counted on the library's ops, and which power of L that is."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.claims import attend, counted
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, stated

D = 16
LENGTHS = (128, 256, 512, 1024)
EQUAL = at_most(1e-12)


def attention_flops(L: int, width: int = D) -> int:
    """FLOPs of softmax(q k^T) v."""
    q = counted.empty(L, width)
    return counted.flops(attend.attend, q, q, q)


def _counts(e: Evidence) -> None:
    for L in LENGTHS:
        e.said(f"L = {L}, D = {D}: FLOPs", attention_flops(L), equals(4 * L * L * D))
    e.said(
        "slope of log FLOPs over log L", counted.slope(LENGTHS, [attention_flops(L) for L in LENGTHS]), near(2.0, 1e-9)
    )


@claim(
    "001-1.1-O",
    "QK^T is O(L²D), softmax O(L²), PV O(L²D), total `O(L²D)`",
    "exactly 4L²D FLOPs of matrix products, at 2 per multiply-add",
    recorded=Outcome.TRUE,
)
def quadratic_001(e: Evidence) -> None:
    _counts(e)


@claim(
    "001-1.1-exp",
    "quadratic over the sequence length: it gets exponentially slower",
    "quadratic: doubling L multiplies the work by 4, at every L",
    recorded=Outcome.FALSE,
)
def exponential(e: Evidence) -> None:
    factors = [attention_flops(2 * L) / attention_flops(L) for L in LENGTHS]
    e.said(
        "factor of the last doubling over that of the first (exponential growth: far above 1)",
        factors[-1] / factors[0],
        above(1.0),
    )
    for L, factor in zip(LENGTHS, factors, strict=True):
        e.truth(f"L = {L} → {2 * L}: work grows by the factor", factor, equals(4.0))
    e.counter_example("L = 1024 → 2048 costs the factor 4, as 128 → 256 does; e^L would have squared its value.")


definition = stated(
    "004-1.1-Z",
    "`Z = softmax(QK^T/√d_k) V`",
    "differs from the assignment, which has no √d_k: C15",
    Outcome.DEFINITION,
    "attention",
)


@claim("004-1.1-mm", "a product AB costs `O(mnp)`", "schoolbook: exactly 2mnp FLOPs", recorded=Outcome.TRUE)
def product(e: Evidence) -> None:
    for m, n, p in ((3, 5, 7), (64, 128, 32), (1, 1000, 1)):
        found = counted.flops(torch.matmul, counted.empty(m, n), counted.empty(n, p))
        e.said(f"({m}×{n})({n}×{p}): FLOPs", found, equals(2 * m * n * p))


@claim(
    "004-1.1-P",
    "scaling O(L²), softmax O(L²), P O(L²D), PV O(L²D), Z `O(L²D)`, which is O(L²) for fixed D",
    recorded=Outcome.TRUE,
)
def quadratic_004(e: Evidence) -> None:
    _counts(e)
    for L in LENGTHS:
        q = counted.empty(L, D)
        e.said(f"L = {L}: FLOPs of QK^T alone", counted.flops(lambda q: q @ q.T, q), equals(2 * L * L * D))
    widths = [attention_flops(64, width) for width in (8, 64)]
    e.said("slope of log FLOPs over log D", counted.slope((8, 64), widths), near(1.0, 1e-9))


def _score_bytes(L: int) -> int:
    from threefold.plan.conventions import Scores
    from threefold.plan.count import count

    q = counted.empty(L, D)
    return count(attend.attend, q, q, q, backward=False, scores=Scores.MATERIALISED).temporary


@claim(
    "004-1.1-prob",
    "quadratic growth is a problem for long sequences",
    "memory too is L² where scores are stored",
    recorded=Outcome.TRUE,
)
def a_problem(e: Evidence) -> None:
    e.said("FLOPs at L = 16,384 over those at L = 1,024", attention_flops(16384) / attention_flops(1024), equals(256.0))
    e.said(
        "largest tensor at L = 2,048 over that at 1,024, scores stored",
        _score_bytes(2048) / _score_bytes(1024),
        equals(4.0),
    )


def _scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d_k)) v."""
    return attend.attend(q / q.shape[1] ** 0.5, k, v)


@claim(
    "C15",
    "softmax scaling: 001 and the assignment have Softmax(QK^T)V, 004 has softmax(QK^T/√d_k)V and drops √d_k later. "
    "Adjudicated: consistent only if q is replaced by q/√d_k before φ (or q and k both by ·d_k^{−1/4})",
    sources=("001", "004"),
    recorded=Outcome.TRUE,
)
def scaling(e: Evidence) -> None:
    from threefold.specs.features import Taylor

    q, k, v = (attend.random(6, 9, seed=i) for i in range(3))
    root = 9**-0.25
    e.said(
        "q and k both times d_k^{−1/4}: relative difference",
        attend.error(attend.attend(q * root, k * root, v), _scaled(q, k, v)),
        EQUAL,
    )
    e.said("√d_k dropped: relative difference", attend.error(attend.attend(q, k, v), _scaled(q, k, v)), above(1e-2))
    phi, dots = Taylor(2).phi, (q / 3) @ k.T
    e.said(
        "φ(q/√d_k)·φ(k) against the series in q·k/√d_k",
        attend.error(phi(q / 3) @ phi(k).T, 1 + dots + dots**2 / 2),
        EQUAL,
    )
