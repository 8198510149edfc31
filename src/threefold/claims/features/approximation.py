"""Attention by a series: how near softmax it is, where it is positive, and from which length it is cheaper."""

from __future__ import annotations

from math import exp

import torch

from threefold.claims import attend, counted
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed
from threefold.claims.features import pictures, study
from threefold.specs.features import Taylor

EQUAL = at_most(1e-12)


def _near_softmax(e: Evidence, add: str) -> None:
    """The bounds of section 'Error' in a range of scales and degrees."""
    write = e.said if add == "said" else e.truth
    for scale in (0.1, 0.25, 0.4, 0.8, 1.5):
        for degree in (1, 2, 4, 6):
            rows = study.rows(degree, scale, L=64, D=16)
            eps = study.bound(degree, rows.R)
            write(f"scale {scale}, degree {degree}: error of exp over its bound", rows.exp_error / eps, at_most(1.0))
            if eps < 1:
                write(
                    f"scale {scale}, degree {degree}: total variation over its bound",
                    rows.tv_max / (eps / (1 - eps)),
                    at_most(1.0),
                )
                limit = 2 * eps / (1 - eps) * rows.value_max
                write(
                    f"scale {scale}, degree {degree}: output error over its bound",
                    rows.output_max / limit,
                    at_most(1.0),
                )


def _digits(e: Evidence) -> None:
    """The printed numbers of the study."""
    for R, digits in ((0.1, "1.8e-4"), (0.25, "3.1e-3"), (0.5, "3.0e-2"), (1.0, "0.359"), (2.0, "6.39"), (3.0, "49.2")):
        e.truth(f"degree 2: worst relative error of exp on [−{R:g}, {R:g}]", study.worst_error(2, R), printed(digits))
    for degree, tv, within in ((2, 0.10, 0.02), (4, 0.022, 0.01), (6, 0.0037, 0.002), (8, 5.2e-4, 4e-4)):
        found = study.rows(degree, 1.0).tv_mean
        e.truth(
            f"unit-variance logits, D = 64, L = 256, degree {degree}: mean total variation of rows",
            found,
            near(tv, within),
        )
    e.truth("unit-variance logits, degree 2: relative error of the output", study.rows(2, 1.0).output, near(0.38, 0.06))


@claim(
    "001-1.3",
    "`D^{-1} Φ(Q) Φ(K)^T V ≈ Softmax(QK^T) V`",
    "an approximation whose error is controlled by R = max|q·k|: good for R ≲ 0.5; the last sum runs over keys j",
    recorded=Outcome.TRUE,
    picture=pictures.error_by_range,
)
def approximates(e: Evidence) -> None:
    _near_softmax(e, "said")
    _digits(e)
    four, six = (study.attention_weights([-8.0, 3.0], degree)[0][0] for degree in (4, 6))
    e.truth(
        "logits (−8, 3), outside small R: weight of the far key, degree 6 − degree 4 (higher is not always better)",
        six - four,
        above(0.0),
    )


@claim(
    "001-1.4-O",
    "`Φ(K)^T V` O(LMD), `Φ(Q)(·)` O(LMD), normaliser O(LM): linear in L, M and D",
    "exactly 4LMD + 2LM if ordered Φ(Q)(Φ(K)^T V), with O(LM + MD) memory; cheaper than softmax only "
    "for L > M(1 + 1/(2D))",
    recorded=Outcome.TRUE,
)
def linear_cost(e: Evidence) -> None:
    D, M = 8, study.packed(8, 2)
    lengths = (64, 128, 256, 512)
    for L in lengths[:2]:
        e.said(
            f"L = {L}, M = {M}, D = {D}: FLOPs of the two products, by the library",
            _flops(L, D, normalised=False),
            equals(4 * L * M * D),
        )
        e.said(
            f"L = {L}: FLOPs of the normaliser Φ(Q)·z",
            counted.flops(torch.mv, counted.empty(L, M), counted.empty(M)),
            equals(2 * L * M),
        )
        e.truth(
            f"L = {L}: the library carries z as one more column of V",
            _flops(L, D, normalised=True),
            equals(4 * L * M * (D + 1)),
        )
    e.said(
        "slope of log FLOPs over log L",
        counted.slope(lengths, [_flops(L, D, normalised=True) for L in lengths]),
        near(1.0, 1e-9),
    )
    for width, digits in ((16, "157.8"), (32, "569.8"), (64, "2161.8"), (100, "5176.8"), (200, "20351.8")):
        e.truth(f"D = {width}: break-even length M(1 + 1/(2D))", study.break_even(width), near(float(digits), 0.051))


def _flops(L: int, D: int, *, normalised: bool) -> int:
    q = counted.empty(L, D)
    return counted.flops(lambda q: attend.remembered(q, q, q, Taylor(2), normalised)[0], q)


@claim(
    "004-1.2-mac",
    "`exp(t) = Σ t^n/n!`, near 1 + t + t²/2",
    "near 0: the remainder is at most R³e^R/6",
    recorded=Outcome.TRUE,
    picture=pictures.kernels,
)
def maclaurin(e: Evidence) -> None:
    t = torch.linspace(-3, 3, 301, dtype=torch.float64)
    e.said("30 terms against exp on [−3, 3]", error(study.series(t, 30), t.exp()), EQUAL)
    e.said("degree 2 by the library against 1 + t + t²/2", error(study.series(t, 2), 1 + t + t * t / 2), EQUAL)
    for R in (0.1, 0.5, 1.0, 2.0):
        worst = float((study.series(t[t.abs() <= R], 2) - t[t.abs() <= R].exp()).abs().max())
        e.said(f"R = {R:g}: error of degree 2 over its bound R³e^R/6", worst / (R**3 * exp(R) / 6), at_most(1.0))


@claim("004-1.3-Φ", "`(Φ(Q)Φ(K)^T)_ij = φ(q_i)·φ(k_j) ≈ exp(q_i·k_j)`", recorded=Outcome.TRUE)
def products(e: Evidence) -> None:
    q, k, v = (random(32, 8, seed=i, scale=0.25) for i in range(3))
    phi = Taylor(2).phi
    dots = q @ k.T
    e.said("φ(q_i)·φ(k_j) against 1 + t + t²/2", error(phi(q) @ phi(k).T, 1 + dots + dots**2 / 2), EQUAL)
    R = float(dots.abs().max())
    e.said(
        f"R = {R:.2f}: relative error of exp over its bound",
        float(((phi(q) @ phi(k).T / dots.exp()) - 1).abs().max()) / study.bound(2, R),
        at_most(1.0),
    )
    _both_orders(e, q, k, v)


def _both_orders(e: Evidence, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    phi = Taylor(2).phi
    pairs = phi(q) @ phi(k).T
    y, _ = attend.linear(q, k, v, Taylor(2))
    e.truth(
        "(ΦΦ^T)V, normalised, against the library's Φ(Φ^T V)", error(pairs @ v / pairs.sum(1, keepdim=True), y), EQUAL
    )


@claim(
    "004-1.3-D",
    "`D_ii ≈ Σ_i exp(q_i^T k_i)` (elsewhere `Σ_i exp(q_i^T k_j)`)",
    "the sum runs over keys: `Σ_j exp(q_i^T k_j)`",
    recorded=Outcome.FALSE,
)
def normaliser(e: Evidence) -> None:
    q, k = random(16, 8, seed=1, scale=0.2), random(16, 8, seed=2, scale=0.2)
    right = (q @ k.T).exp().sum(1)
    e.said(
        "Σ_i exp(q_i·k_i) for every i: largest relative error",
        ((q * k).sum(1).exp().sum() / right - 1).abs().max(),
        at_most(1e-3),
    )
    e.said("Σ_i exp(q_i·k_j): largest relative error", ((q @ k.T).exp().sum(0) / right - 1).abs().max(), at_most(1e-3))
    z = Taylor(2).phi(q) @ Taylor(2).phi(k).sum(0)
    e.truth("Σ_j, by features: largest relative error", (z / right - 1).abs().max(), at_most(1e-3))
    e.counter_example("One sum for all i cannot normalise rows that differ.")


@claim(
    "004-1.3-inv",
    "the inverse of the diagonal matrix D",
    "needs all D_ii ≠ 0: guaranteed for even degrees, not for odd ones",
    recorded=Outcome.CONDITIONAL,
    picture=pictures.positivity,
)
def invertible(e: Evidence) -> None:
    for degree, digits in ((2, "0.5"), (4, "0.2704"), (6, "0.1493"), (8, "0.0833")):
        e.when(f"degree {degree}: smallest value of the series", study.minimum(degree), above(0.0))
        e.truth(f"degree {degree}: the same", study.minimum(degree), printed(digits))
    for degree, digits in (
        (1, "-1.0000000000"),
        (3, "-1.5960716380"),
        (5, "-2.1806071240"),
        (7, "-2.75900271"),
        (9, "-3.33355149"),
    ):
        roots = study.real_roots(degree)
        e.otherwise(f"degree {degree}: real roots", len(roots), equals(0))
        e.truth(f"degree {degree}: the root", roots[0], printed(digits))
    for logits, total in (((-1.0, -1.0), 0.0), ((-3.0, 1.0), 0.0)):
        e.truth(f"degree 1, logits {logits}: normaliser", sum(1 + s for s in logits), equals(total))
        q, k = torch.ones(1, 1, dtype=torch.float64), torch.tensor(logits, dtype=torch.float64)[:, None]
        e.truth(
            "  normalisers that the library reports as not positive",
            attend.linear(q, k, k, study.taylor(1))[1],
            equals(1),
        )
    approx, soft = study.attention_weights([-3.0, 2.0], 1)
    e.truth("degree 1, logits (−3, 2): first weight", approx[0], near(-2.0, 1e-12))
    e.truth("degree 1, logits (−3, 2): second weight", approx[1], near(3.0, 1e-12))
    e.truth("softmax: first weight", soft[0], printed("0.0067"))
    e.counter_example("Degree 1, logits (−3, 1): the weights would be −2/0 and 2/0; logits (−3, 2): −2 and 3.")


@claim(
    "004-1.3-Z",
    "`Z ≈ D^{-1} Φ Φ^T V`",
    "within the bound for small logits; not monotone and not shift-invariant as softmax is",
    recorded=Outcome.TRUE,
)
def output(e: Evidence) -> None:
    _near_softmax(e, "said")
    approx, soft = study.attention_weights([-10.0, 3.0], 2)
    e.truth("degree 2, logits (−10, 3): weight of the least similar key", approx[0], printed("0.828"))
    e.truth("softmax: the same", soft[0], near(2.3e-6, 1e-7))
    for logits, digits in (((0.0, 1.0), "0.286"), ((3.0, 4.0), "0.395")):
        approx, soft = study.attention_weights(list(logits), 2)
        e.truth(f"degree 2, logits {logits}: first weight", approx[0], printed(digits))
        e.truth(f"softmax, logits {logits}: first weight", soft[0], printed("0.269"))


@claim(
    "004-1.4",
    "left empty",
    "Φ(Q)(Φ(K)^T V): O(LMD) time and O(LM + MD) memory",
    recorded=Outcome.BLANK,
)
def cost_blank(e: Evidence) -> None:
    D, M = 8, study.packed(8, 2)
    lengths = (64, 128, 256, 512)
    e.truth(
        "slope of log FLOPs over log L",
        counted.slope(lengths, [_flops(L, D, normalised=True) for L in lengths]),
        near(1.0, 1e-9),
    )
    e.truth(f"FLOPs at L = 64, M = {M}", _flops(64, D, normalised=False), equals(4 * 64 * M * D))
    state = attend.remembered(random(5, D), random(9, D), random(9, D), Taylor(2))[1]
    e.truth(
        "numbers kept of the keys and values, any length", state.memory.numel() + state.mass.numel(), equals(M * D + M)
    )
