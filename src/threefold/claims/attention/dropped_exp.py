"""Linear attention by dropping the exp: 002 question 3."""

from __future__ import annotations

import torch

from threefold.claims import attend, counted
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near
from threefold.specs.features import Elu1, Identity

T, D = 64, 8
EQUAL = at_most(1e-12)


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random q, k, v."""
    return attend.random(T, D, seed=1), attend.random(T, D, seed=2), attend.random(T, D, seed=3)


def _linear_flops(length: int) -> int:
    q = counted.empty(length, D)
    return counted.flops(lambda q: attend.remembered(q, q, q, Identity(), normalised=False)[0], q)


@claim(
    "002-3-T2", "standard attention is `O(T²)` because of a matrix product", "O(T²D): 4T²D FLOPs", recorded=Outcome.TRUE
)
def standard(e: Evidence) -> None:
    for length in (64, 128, 256):
        q = counted.empty(length, D)
        e.said(f"T = {length}: FLOPs", counted.flops(attend.attend, q, q, q), equals(4 * length * length * D))


@claim(
    "002-3-drop",
    "dropping exp avoids the need for a matrix multiplication",
    "left to right, (QK^T)V costs 4T²D FLOPs without exp too; the gain is associativity, Q(K^T V): 4TD²",
    recorded=Outcome.FALSE,
)
def dropping(e: Evidence) -> None:
    q = counted.empty(T, D)
    left = counted.flops(lambda q: (q @ q.T) @ q, q)
    e.said("FLOPs of (QK^T)V without exp", left, equals(0))
    e.truth("the same", left, equals(4 * T * T * D))
    e.truth("FLOPs of Q(K^T V)", _linear_flops(T), equals(4 * T * D * D))
    q, k, v = drawn()
    y, _ = attend.linear(q, k, v, Identity(), normalised=False)
    e.truth("(QK^T)V against the library's linear attention", attend.error(y, (q @ k.T) @ v), EQUAL)
    e.counter_example("T = 64, D = 8: 131,072 FLOPs with or without exp; re-associated 16,384.")


@claim(
    "002-3-OT",
    "linear attention is `O(T)`",
    "if re-associated: O(TD²) time and O(D²) state, causal attention too, by prefix sums",
    recorded=Outcome.CONDITIONAL,
)
def linear_time(e: Evidence) -> None:
    lengths = (64, 128, 256, 512)
    e.when(
        "Q(K^T V): slope of log FLOPs over log T",
        counted.slope(lengths, [_linear_flops(n) for n in lengths]),
        near(1.0, 1e-9),
    )
    quadratic = [counted.flops(lambda q: (q @ q.T) @ q, counted.empty(n, D)) for n in lengths]
    e.otherwise("(QK^T)V: slope of log FLOPs over log T", counted.slope(lengths, quadratic), near(1.0, 1e-9))
    q, k, v = drawn()
    y, _ = attend.linear(q, k, v, Identity(), causal=True, normalised=False)
    e.truth("causal, by a running state, against the masked product", attend.error(y, (q @ k.T).tril() @ v), EQUAL)


@claim(
    "002-3-norm",
    "with normalisation, each in linear time",
    "the normaliser `q_i·Σ_j k_j` is O(T), but may be 0 or negative without a positive φ",
    recorded=Outcome.CONDITIONAL,
)
def normaliser(e: Evidence) -> None:
    q, k, v = drawn()
    _, bad = attend.linear(q, k, v, Elu1())
    e.when("φ = elu + 1: rows of 64 whose normaliser is not positive", bad, equals(0))
    _, bad = attend.linear(q, k, v, Identity())
    e.otherwise("φ = identity: rows of 64 whose normaliser is not positive", bad, equals(0))
    e.truth("counted directly", int((q @ k.sum(0) <= 0).sum()), equals(bad))
    e.counter_example("q = 1, one key k = −1: the normaliser is −1.")


@claim("002-3-f1", "`y_i = Σ_i softmax(⟨q_i,k_i⟩) v_i`", "`y_i = Σ_j softmax_j(⟨q_i,k_j⟩) v_j`", recorded=Outcome.FALSE)
def indices(e: Evidence) -> None:
    q, k, v = drawn()
    y = attend.attend(q, k, v)
    printed = ((q * k).sum(1).softmax(0) @ v).expand(T, -1)
    e.said("relative error as printed", attend.error(printed, y), EQUAL)
    e.truth("with the sum over keys j", attend.error((q @ k.T).softmax(1) @ v, y), EQUAL)
    e.counter_example("As printed the right-hand side does not depend on i: all outputs would be equal.")


@claim(
    "002-3-f2",
    "`y_i = Σ_j ⟨q_i, k_j, v_j⟩`",
    "`y_i = Σ_j ⟨q_i,k_j⟩ v_j`, divided by `Σ_j ⟨q_i,k_j⟩` where normalised",
    recorded=Outcome.CONDITIONAL,
)
def triple(e: Evidence) -> None:
    q, k, v = drawn()
    summed = torch.einsum("ik,jk,jv->iv", q, k, v)
    for normalised, add in ((False, e.when), (True, e.otherwise)):
        y, _ = attend.linear(q, k, v, Identity(), normalised=normalised)
        add(f"normalised: {normalised}; relative error of Σ_j ⟨q_i,k_j⟩ v_j", attend.error(summed, y), EQUAL)
    y, _ = attend.linear(q, k, v, Identity())
    e.truth("normalised, divided by Σ_j ⟨q_i,k_j⟩", attend.error(summed / (q @ k.sum(0))[:, None], y), at_most(1e-10))
    e.limit("The printed triple bracket is read as (q·k) v.")


@claim(
    "002-3-nonlin",
    "no non-linear operation remains",
    "multilinear in (q, k, v), hence cubic in X: f(2X) = 8 f(X)",
    recorded=Outcome.FALSE,
)
def still_nonlinear(e: Evidence) -> None:
    x = attend.random(T, D, seed=7)

    def f(x: torch.Tensor) -> torch.Tensor:
        return attend.linear(x, x, x, Identity(), normalised=False)[0]

    e.said("f(2X) against 2 f(X)", attend.error(f(2 * x), 2 * f(x)), EQUAL)
    e.truth("f(2X) against 8 f(X)", attend.error(f(2 * x), 8 * f(x)), EQUAL)
    e.counter_example("One token of width 1: f(x) = x³.")


@claim(
    "002-3-eff",
    "the form without exp equals softmax attention (nobody claims it; readers might)",
    "it is a different function",
    recorded=Outcome.FALSE,
)
def different_function(e: Evidence) -> None:
    q, k, v = drawn()
    soft = attend.attend(q, k, v)
    e.said(
        "φ = identity, normalised: relative difference",
        attend.error(attend.linear(q, k, v, Identity())[0], soft),
        EQUAL,
    )
    e.said("φ = elu + 1, normalised: relative difference", attend.error(attend.linear(q, k, v, Elu1())[0], soft), EQUAL)
    e.truth("φ = elu + 1: relative difference", attend.error(attend.linear(q, k, v, Elu1())[0], soft), above(1e-2))
