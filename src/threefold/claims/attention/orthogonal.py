"""Attention without projections on orthogonal inputs, and the size of dot products.

a_nn = e^{s_n} / (e^{s_n} + N - 1) and a_nm = 1 / (e^{s_n} + N - 1), s_n = |x_n|^2;
with 1/sqrt(D) scaling s_n / sqrt(D).
|y_n - x_n| = sqrt((N-1)^2 s_n + sum_{m != n} s_m) / (e^{s_n} + N - 1).
"""

from __future__ import annotations

from math import log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims import attend
from threefold.claims.attention import moments
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed

EQUAL = at_most(1e-12)


def inputs(N: int, s: float | Tensor) -> Float[Tensor, "n d"]:
    """N orthogonal rows with squared norms s."""
    norms = torch.as_tensor(s, dtype=torch.float64).expand(N)
    return attend.orthonormal(N, max(N, 4), seed=N) * norms.sqrt()[:, None]


def predicted(s: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """The weights in closed form."""
    other = torch.exp(-s) / (1 + (len(s) - 1) * torch.exp(-s))
    diagonal = 1 / (1 + (len(s) - 1) * torch.exp(-s))
    eye = torch.eye(len(s), dtype=s.dtype)
    return eye * diagonal[:, None] + (1 - eye) * other[:, None]


def predicted_error(s: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """‖y_n - x_n‖ in closed form."""
    N = len(s)
    return ((N - 1) ** 2 * s + s.sum() - s).sqrt() / (s.exp() + N - 1)


def needed(N: int, loss: float) -> float:
    """The squared norm from which a_nn >= 1 - loss: ln((N-1)(1-loss)/loss)."""
    return log((N - 1) * (1 - loss) / loss)


def _squares(x: Tensor) -> Tensor:
    return (x**2).sum(1)


def _formula_holds(e: Evidence, add: str = "truth") -> None:
    write = e.said if add == "said" else e.truth
    for N, s in ((3, 1.0), (8, 5.0), (16, 12.0), (64, 40.0)):
        x = inputs(N, s)
        write(
            f"N = {N}, s = {s:g}: weights against the formula",
            attend.error(attend.weights(x, x), predicted(_squares(x))),
            EQUAL,
        )
    x = inputs(5, torch.tensor([0.5, 1.0, 2.0, 4.0, 8.0]))
    write(
        "unequal norms: weights against the formula", attend.error(attend.weights(x, x), predicted(_squares(x))), EQUAL
    )


@claim(
    "000-3.1-den",
    "`a_nm = exp(x_n^T x_m) / Σ x_n^T x_m′`",
    "the denominator is `Σ_m′ exp(x_n^T x_m′)`",
    recorded=Outcome.FALSE,
)
def denominator(e: Evidence) -> None:
    x = attend.random(4, 3, seed=1)
    scores, w = x @ x.T, attend.weights(x, x)
    e.said("relative error as printed", attend.error(scores.exp() / scores.sum(1, keepdim=True), w), EQUAL)
    e.truth("with exp in the denominator", attend.error(scores.exp() / scores.exp().sum(1, keepdim=True), w), EQUAL)
    e.counter_example("One token with x·x = 1: the weight is 1; the printed line gives e = 2.718.")


@claim(
    "000-3.1-zero",
    "for orthogonal inputs the numerator off the diagonal is 0",
    "it is exp(0) = 1",
    recorded=Outcome.FALSE,
)
def numerator(e: Evidence) -> None:
    x = inputs(3, 1.0)
    numerators = (x @ x.T).exp()
    e.said("largest numerator off the diagonal", (numerators - numerators.diag().diag()).max(), EQUAL)
    w = attend.weights(x, x)
    e.truth("weight off the diagonal, N = 3, s = 1", w[0, 1], printed("0.211942"))


@claim(
    "000-3.1-id",
    "for orthogonal inputs the weights are the identity and `y_n = x_n` exactly",
    "`a_nn = e^s/(e^s+N−1)`, `a_nm = 1/(e^s+N−1)` with s = ‖x_n‖²: a limit for s − ln(N−1) → ∞",
    recorded=Outcome.FALSE,
)
def identity(e: Evidence) -> None:
    x = inputs(3, 1.0)
    w, y = attend.weights(x, x), attend.attend(x, x, x)
    e.said("N = 3, s = 1: largest |A − I|", (w - torch.eye(3, dtype=w.dtype)).abs().max(), EQUAL)
    e.truth("N = 3, s = 1: a_nn", w[0, 0], printed("0.576117"))
    e.truth(
        "N = 3, s = 1: ‖y_n − x_n‖ against its formula",
        attend.error((y - x).norm(dim=1), predicted_error(_squares(x))),
        EQUAL,
    )
    e.truth("N = 16: s at which a_nn ≥ 0.999", needed(16, 1e-3), printed("9.615"))
    x = inputs(16, needed(16, 1e-3))
    e.truth("N = 16, that s: a_nn", attend.weights(x, x)[0, 0], near(0.999, 1e-12))
    _formula_holds(e)
    e.counter_example("Three orthogonal unit vectors: a_nn = 0.576, a_nm = 0.212.")


@claim(
    "003-3.1-w",
    "`a_nn = e^s/((N−1)+e^s)`, otherwise `1/((N−1)+e^s)`",
    "s = ‖x_n‖², row by row, also for unequal norms",
    recorded=Outcome.TRUE,
)
def weights(e: Evidence) -> None:
    _formula_holds(e, "said")


@claim(
    "003-3.1-cond",
    "if `exp(x_n^T x_m) ≫ N` then `y_n ≈ x_n`",
    "`exp(x_n^T x_n) ≫ N`: the index m is a misprint, since x_n^T x_m = 0",
    recorded=Outcome.CONDITIONAL,
)
def approximately(e: Evidence) -> None:
    for s, add in ((20.0, e.when), (1.0, e.otherwise)):
        x = inputs(8, s)
        add(
            f"N = 8, e^s/N = {torch.tensor(s).exp() / 8:.3g}: ‖y − x‖/‖x‖",
            attend.error(attend.attend(x, x, x), x),
            at_most(1e-6),
        )
    x = inputs(8, 20.0)
    e.truth("as printed, with m ≠ n: exp(x_n^T x_m)", (x[0] @ x[1]).exp(), near(1.0, 1e-9))


@claim(
    "C7",
    "orthogonal inputs ⇒ y_n = x_n: exactly (000), or approximately if exp(x_n^T x_n) ≫ N (003). "
    "Adjudicated: 003 is right",
    "never exact for finite vectors and N ≥ 2",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def never_exact(e: Evidence) -> None:
    for s in (1.0, 5.0, 10.0, 20.0):
        x = inputs(4, s)
        e.said(f"s = {s:g}: ‖y − x‖/‖x‖ is not 0", attend.error(attend.attend(x, x, x), x), above(0.0))
    e.said("s = 20: ‖y − x‖/‖x‖", attend.error(attend.attend(x, x, x), x), at_most(1e-7))
    _formula_holds(e, "said")


@claim(
    "000-3.2-E",
    "`E[(a^T b)²] = D` for independent a, b ~ N(0, I)",
    "needs only independence, zero mean and identity covariance; for b = a it is `D² + 2D`",
    recorded=Outcome.TRUE,
)
def second_moment(e: Evidence) -> None:
    for D in (1, 2, 3):
        e.said(f"D = {D}: E(a·b)² exactly, normal entries", moments.dot_moment(2, D), near(D, 1e-9))
        e.truth(f"D = {D}: the same for random signs", moments.dot_moment(2, D, moments.SIGNS), near(D, 1e-12))
        e.truth(f"D = {D}: b = a", moments.square_moment(D), near(D * D + 2 * D, 1e-9))
        e.truth(f"D = {D}: E(a·b)⁴ = 3D² + 6D", moments.dot_moment(4, D), near(3 * D * D + 6 * D, 1e-8))
    for D in (8, 64):
        mean, reach = moments.sampled(D)
        e.said(f"D = {D}: mean over 50,000 pairs", mean, near(D, reach))


@claim(
    "000-3.2-step",
    "`E[a_i b_i a_j b_j] = E[a_i a_j] E[b_i b_j]`, which is 0 for i ≠ j",
    "the upper index d in one line should be D",
    recorded=Outcome.TRUE,
)
def independence(e: Evidence) -> None:
    for i, j in ((0, 0), (0, 1)):
        joint = moments.product_moment((i, 2 + i, j, 2 + j), 4)
        one = moments.product_moment((i, j), 2)
        e.said(f"i = {i + 1}, j = {j + 1}: joint expectation − product", abs(joint - one * one), EQUAL)
        e.said(f"i = {i + 1}, j = {j + 1}: expectation", joint, near(float(i == j), 1e-12))


@claim(
    "003-3.2-prod",
    "`a_i b_i ~ N(0, 1)`",
    "mean 0 and variance 1, but `E z⁴ = 9` (a normal has 3): the density is K_0(|z|)/π",
    recorded=Outcome.FALSE,
)
def product_of_normals(e: Evidence) -> None:
    e.said("E z⁴ of a product of two normals", moments.dot_moment(4, 1), near(3.0, 1e-9))
    e.truth("E z⁴", moments.dot_moment(4, 1), near(9.0, 1e-9))
    e.truth("E z²", moments.dot_moment(2, 1), near(1.0, 1e-12))
    e.counter_example("A normal variable has fourth moment 3; the product has 3 · 3 = 9.")


@claim(
    "003-3.2-var",
    "`Var(a^T b) = Σ Var(a_i b_i) = D`, `E[a^T b] = 0`, hence `E[(a^T b)²] = D`",
    recorded=Outcome.TRUE,
)
def variances_add(e: Evidence) -> None:
    for D in (1, 2, 3):
        e.said(f"D = {D}: E a·b", moments.dot_moment(1, D), near(0.0, 1e-12))
        e.said(f"D = {D}: Var a·b", moments.dot_moment(2, D) - moments.dot_moment(1, D) ** 2, near(D, 1e-9))
        e.said(f"D = {D}: kurtosis 3 + 6/D", moments.dot_moment(4, D) / D**2, near(3 + 6 / D, 1e-8))
    q, k = attend.random(2000, 16, seed=5), attend.random(2000, 16, seed=6)
    spread = float((q * k).sum(1).std()) / sqrt(16)
    e.truth("standard deviation of q·k/√D over 2,000 pairs, D = 16", spread, near(1.0, 0.1))


@claim(
    "C8",
    "E[(a^T b)²] = D: 000 by expansion and independence, 003 by 'a_i b_i ~ N(0,1)'. Adjudicated: the "
    "result is right in both, 003's step is not",
    "a product of two normals has kurtosis 9, not 3",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def one_step_wrong(e: Evidence) -> None:
    e.said("D = 3: E(a·b)²", moments.dot_moment(2, 3), near(3.0, 1e-9))
    e.said("kurtosis of a_i b_i", moments.dot_moment(4, 1) / moments.dot_moment(2, 1) ** 2, near(9.0, 1e-9))
    e.said("its distance from a normal's kurtosis", abs(moments.dot_moment(4, 1) - 3), above(5.0))
    e.said(
        "000's cross terms E[a_1 b_1 a_2 b_2]",
        abs(moments.expected(lambda z: z.prod(1), moments.normal(), 4)) < 1e-12,
        equals(True),
    )
