"""Feature maps of the exponential's series: which are exact, and how large they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from math import comb, factorial

import torch
from torch import Tensor

from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed, stated
from threefold.claims.features import study
from threefold.cost import Poly, axis_poly
from threefold.ops import features

EQUAL = at_most(1e-12)


def _kernel_error(phi: Callable[[Tensor], Tensor], D: int, target: Callable[[Tensor], Tensor]) -> float:
    """phi(q).phi(k) against a function of q.k over 100 random pairs."""
    q, k = random(100, D, seed=D), random(100, D, seed=D + 50)
    return error((phi(q) * phi(k)).sum(1), target((q * k).sum(1)))


def _series2(t: torch.Tensor) -> torch.Tensor:
    return 1 + t + t * t / 2


garbled = stated(
    "001-1.2-list",
    "the list [1, q^T H, q^T h²/2] is garbled",
    "the target is `1 + q^T k + (q^T k)²/2`",
    Outcome.BLANK,
    "features",
)


@claim("001-1.2-tr", "`(q^T k)² = trace(qq^T kk^T) = vec(qq^T)^T vec(kk^T)`", recorded=Outcome.TRUE)
def trace(e: Evidence) -> None:
    for D in (1, 2, 5):
        q, k = random(1, D, seed=1)[0], random(1, D, seed=2)[0]
        e.said(f"D = {D}: |trace − (q·k)²|", (torch.trace(q.outer(q) @ k.outer(k)) - (q @ k) ** 2).abs(), EQUAL)
        e.said(
            f"D = {D}: vec(qq^T)·vec(kk^T) against (q·k)²", _kernel_error(study.square_map, D, lambda t: t * t), EQUAL
        )
    x, z = [axis_poly(f"x{i}") for i in range(3)], [axis_poly(f"z{i}") for i in range(3)]
    dot = sum((a * b for a, b in zip(x, z, strict=True)), Poly({}))
    double = sum((x[i] * x[j] * z[i] * z[j] for i in range(3) for j in range(3)), Poly({}))
    e.said("as polynomials, D = 3: terms that differ", len((dot * dot - double).terms), equals(0))


@claim(
    "001-1.2-φ",
    "`φ(t) = vec(tt^T)` gives 1 + t + t²/2",
    "`[1; t; vec(tt^T)/√2]`, dimension 1 + D + D²; packed: 004's",
    recorded=Outcome.FALSE,
)
def square_only(e: Evidence) -> None:
    for D in (1, 2, 5, 8):
        e.said(f"D = {D}: vec(tt^T) against 1 + t + t²/2", _kernel_error(study.square_map, D, _series2), EQUAL)
        e.truth(f"D = {D}: it gives t²", _kernel_error(study.square_map, D, lambda t: t * t), EQUAL)
        e.truth(f"D = {D}: [1; t; vec(tt^T)/√2]", _kernel_error(study.full_map, D, _series2), EQUAL)
    e.counter_example("q = 0: the series is 1, vec(qq^T)·vec(kk^T) is 0.")


@claim(
    "001-1.2-tab",
    "term 1, 2, 3, n of the series needs 1, D, D², `D^{n−1}` features",
    "per term, unpacked",
    recorded=Outcome.TRUE,
)
def per_term(e: Evidence) -> None:
    for n, D in ((1, 5), (2, 5), (3, 5), (4, 3)):
        monomials = torch.ones(1, 1, dtype=torch.float64)
        for _ in range(n - 1):
            monomials = (monomials[:, :, None] * random(1, D, seed=D)[:, None, :]).flatten(1)
        e.said(f"term {n}, D = {D}: products of {n - 1} entries", monomials.shape[1], equals(D ** (n - 1)))


@claim(
    "001-1.2-dim",
    "`Dim_H = D^{K−1}` for K terms",
    "in total (D^K − 1)/(D − 1) unpacked, C(D+K−1, K−1) packed; D^{K−1} is the last term only",
    recorded=Outcome.FALSE,
)
def dimension_001(e: Evidence) -> None:
    for K, D in ((3, 2), (3, 64), (4, 64)):
        e.said(f"D = {D}, {K} terms: features, unpacked", study.unpacked(D, K - 1), equals(D ** (K - 1)))
        e.truth(f"D = {D}, {K} terms: unpacked", study.unpacked(D, K - 1), equals((D**K - 1) // (D - 1)))
        e.truth(f"D = {D}, {K} terms: the library's packed map", study.packed(D, K - 1), equals(comb(D + K - 1, K - 1)))
    e.truth(
        "D = 5, 3 terms: features that are really made", features.taylor(random(1, 5), 2).shape[-1], equals(comb(7, 2))
    )
    e.counter_example("D = 2, three terms: [1, x_1, x_2, x_1², x_1x_2, x_2x_1, x_2²] are 7, not 4.")


@claim(
    "004-1.2-sq",
    "the intermediate line of (x^T z)²",
    "its first factor lacks z_n and one term the factor 2; the final double sum is right",
    recorded=Outcome.FALSE,
)
def square_line(e: Evidence) -> None:
    x, z = [axis_poly(f"x{i}") for i in (1, 2, 3)], [axis_poly(f"z{i}") for i in (1, 2, 3)]
    u = [a * b for a, b in zip(x, z, strict=True)]
    true = (u[0] + u[1] + u[2]) * (u[0] + u[1] + u[2])
    line = u[0] ** 2 + u[0] * u[1] * 2 + u[0] * u[2] * 2 + u[1] ** 2 + u[1] * u[2] + u[2] ** 2
    e.said("n = 3: terms of the printed line − (x^T z)²", len((line - true).terms), equals(0))
    e.truth("the difference is −x_2x_3z_2z_3", len((line - true + u[1] * u[2]).terms), equals(0))
    double = sum((u[i] ** 2 for i in range(3)), Poly({})) + sum(
        (u[i] * u[j] * 2 for i in range(3) for j in range(i)), Poly({})
    )
    e.truth("final double sum: terms that differ", len((double - true).terms), equals(0))
    e.counter_example("x = z = (0, 1, 1): (x^T z)² = 4, the printed line gives 3.")


@claim(
    "004-1.2-φ",
    "`φ(x) = [1, x_i, x_i²/√2, x_i x_j]`, i < j",
    "exact: the library's degree-2 map, in the order i ≤ j",
    recorded=Outcome.TRUE,
)
def packed_map(e: Evidence) -> None:
    for D in (1, 2, 5, 8):
        e.said(f"D = {D}: φ(q)·φ(k) against 1 + t + t²/2", _kernel_error(study.taylor(2).phi, D, _series2), EQUAL)
    found = features.taylor(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 2)
    digits = "1 1 2 3 0.7071067811865475 2 3 2.82842712474619 6 6.363961030678928"
    for i, text in enumerate(digits.split()):
        e.truth(f"φ([1,2,3]), entry {i + 1}", found[i], printed(text))
    other = features.taylor(torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), 2)
    e.truth("φ([1,2,3])·φ([0.5,−1,2])", found @ other, near(15.625, 1e-12))


@claim("004-1.2-M2", "`M = 1 + D + D(D+1)/2` for K = 2", "K is the degree; = C(D+2, 2)", recorded=Outcome.TRUE)
def dimension_2(e: Evidence) -> None:
    for D in (1, 2, 64, 200):
        e.said(f"D = {D}: the library's dimension", study.packed(D, 2), equals(1 + D + D * (D + 1) // 2))
    e.said("D = 8: features that are really made", features.taylor(random(1, 8), 2).shape[-1], equals(45))


@claim(
    "004-1.2-mult",
    "the multinomial theorem, with binom(n; k_1…) and K on the left",
    "n = K: a slip of notation",
    recorded=Outcome.TRUE,
)
def multinomial(e: Evidence) -> None:
    for D, K in ((2, 3), (3, 4)):
        names = [axis_poly(f"x{i}") for i in range(D)]
        power = sum(names, Poly({})) ** K
        weights = features.weights(D, K)
        total = Poly({})
        for index, weight in zip(combinations_with_replacement(range(D), K), weights, strict=True):
            term = names[index[0]]
            for i in index[1:]:
                term = term * names[i]
            total = total + term * round(factorial(K) * weight**2)
        e.said(
            f"D = {D}, K = {K}: (Σx)^K against Σ K!/α! x^α, by the library's weights: terms that differ",
            len((power - total).terms),
            equals(0),
        )


@claim("004-1.2-cnt", "the number of monomials of degree K is `C(K+D−1, D−1)`", recorded=Outcome.TRUE)
def monomials(e: Evidence) -> None:
    for D, K in ((2, 3), (3, 4), (4, 5), (8, 3)):
        made = study.packed(D, K) - study.packed(D, K - 1)
        e.said(f"D = {D}, K = {K}: monomials that the library adds", made, equals(comb(K + D - 1, D - 1)))
        listed = sum(1 for _ in combinations_with_replacement(range(D), K))
        e.said(f"D = {D}, K = {K}: listed one by one", listed, equals(comb(K + D - 1, D - 1)))


@claim(
    "004-1.2-MK",
    "`M = Σ C(K+D−1, D−1)`, without bounds",
    "`Σ_{k=0}^{K} C(k+D−1, D−1) = C(D+K, K)`; as a single term it is too small. Features for general K: x^α/√(α!)",
    recorded=Outcome.CONDITIONAL,
)
def dimension_K(e: Evidence) -> None:
    table = {(2, 1): 3, (2, 2): 6, (2, 3): 10, (2, 4): 15, (64, 1): 65, (64, 2): 2145, (64, 3): 47905, (64, 4): 814385}
    single = {1: 64, 2: 2080, 3: 45760, 4: 766480}
    for (D, K), M in table.items():
        e.when(f"D = {D}, K = {K}: sum over k = 0..K", study.hockey_stick(D, K), equals(M))
        e.truth(f"D = {D}, K = {K}: the library's dimension", study.packed(D, K), equals(M))
    for K, M in single.items():
        e.otherwise(f"D = 64, K = {K}: the single term", comb(K + 63, 63), equals(study.packed(64, K)))
        e.truth(f"D = 64, K = {K}: the single term", comb(K + 63, 63), equals(M))
    for D, K in ((2, 3), (3, 4), (4, 5), (6, 3)):
        phi = study.taylor(K).phi
        e.truth(
            f"D = {D}, K = {K}: φ(q)·φ(k) against the series",
            _kernel_error(phi, D, partial(study.series, degree=K)),
            EQUAL,
        )
        e.truth(f"D = {D}, K = {K}: features made", phi(random(1, D)).shape[-1], equals(comb(D + K, K)))
    e.counter_example("D = 64, K = 3: the single term is 45,760, the map has 47,905.")


@claim(
    "C13",
    "feature map of 1 + t + t²/2: vec(tt^T) (001), [1, x_i, x_i²/√2, x_i x_j] (004). Adjudicated: "
    "004 is right and exact",
    "001's gives t² only; complete unpacked form: `[1; t; vec(tt^T)/√2]`",
    sources=("001", "004"),
    recorded=Outcome.TRUE,
)
def which_map(e: Evidence) -> None:
    for D in (2, 8):
        e.said(f"D = {D}: 004, by the library", _kernel_error(study.taylor(2).phi, D, _series2), EQUAL)
        e.said(f"D = {D}: 001", _kernel_error(study.square_map, D, _series2), above(1e-2))
        e.said(f"D = {D}: the complete unpacked form", _kernel_error(study.full_map, D, _series2), EQUAL)


@claim(
    "C14",
    "dimension for general K: D^{K−1} (001), M = ΣC(K+D−1, D−1) (004). Adjudicated: 001 is false as "
    "a total; 004 is right as Σ over k = 0..K",
    "packed C(D+K, K), unpacked 1 + D + … + D^K, K the degree; with K terms replace K by K − 1",
    sources=("001", "004"),
    recorded=Outcome.TRUE,
)
def which_dimension(e: Evidence) -> None:
    table = {1: (65, 65, 64), 2: (2145, 4161, 4096), 3: (47905, 266305, 262144), 4: (814385, 17043521, 16777216)}
    for K, (packed, unpacked, printed_001) in table.items():
        e.said(f"D = 64, degree {K}: packed, by the library", study.packed(64, K), equals(packed))
        e.said(f"D = 64, degree {K}: Σ_k C(k+63, 63)", study.hockey_stick(64, K), equals(packed))
        e.said(f"D = 64, degree {K}: unpacked", study.unpacked(64, K), equals(unpacked))
        e.said(f"D = 64, degree {K}: 001's number", 64**K, equals(printed_001))
        e.said(f"D = 64, degree {K}: features that 001 leaves out", unpacked - printed_001, above(0))
