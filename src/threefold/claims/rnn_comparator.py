"""The alternating-sum network is a comparator: 002 question 1.

H_t = X_t - H_{t-1}, Y_T = sigmoid(1000 H_T): an RNN with identity activation, input weight 1 and recurrent weight -1.
"""

from __future__ import annotations

from itertools import product
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims import attend, recurrence
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, claims_in, equals, near, printed, stated

GAIN = 1000.0


def last_state(x: Float[Tensor, "b t"], h0: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """H_T of every row, by the library's identity RNN."""
    return recurrence.scalar_rnn(x, h0, carry=-1.0)[:, -1]


def alternating(x: Float[Tensor, "b t"], h0: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """Sum_t (-1)^(T-t) X_t + (-1)^T H_0."""
    T = x.shape[1]
    signs = torch.tensor([(-1.0) ** (T - t) for t in range(1, T + 1)], dtype=x.dtype)
    return x @ signs + (-1.0) ** T * h0


def printed_form(x: Float[Tensor, "b t"], h0: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The document's Sum_{i <= T/2} (X_2i - X_{2i-1}) + H_0."""
    half = x.shape[1] // 2
    return (x[:, 1 : 2 * half : 2] - x[:, 0 : 2 * half : 2]).sum(1) + h0


def _drawn(T: int) -> tuple[Tensor, Tensor]:
    return attend.random(5, T, seed=T), attend.random(5, seed=100 + T)


def gradient_at(h: float) -> float:
    """|dY/dX| where H_T = h, by autograd through the library's RNN."""
    x = torch.tensor([[0.0, h]], dtype=torch.float64, requires_grad=True)
    torch.sigmoid(GAIN * last_state(x, torch.zeros(1, dtype=x.dtype))).sum().backward()
    assert x.grad is not None
    return float(x.grad.abs().max())


recurrence_definition = stated(
    "002-1-rec", "`H_t = X_t − H_{t−1}`, `Y_T = σ(1000 H_T)`", "", Outcome.DEFINITION, "rnn_comparator"
)


@claim(
    "002-1-nest",
    "unrolled, the signs alternate and the sum ends in `−X_1 + H_0`",
    "`H_T = Σ_t (−1)^{T−t} X_t + (−1)^T H_0`: the printed end is that of an even T (odd T: `+X_1 − H_0`)",
    recorded=Outcome.CONDITIONAL,
)
def nested(e: Evidence) -> None:
    for T in (1, 2, 3, 4, 7, 10):
        x, h0 = _drawn(T)
        h = last_state(x, h0)
        e.truth(f"T = {T}: H_T against the general sum", attend.error(h, alternating(x, h0)), at_most(1e-12))
        x, h0 = x.requires_grad_(), h0.requires_grad_()
        first, start = torch.autograd.grad(last_state(x, h0).sum(), (x, h0))
        add = e.when if T % 2 == 0 else e.otherwise
        add(f"T = {T}: coefficient of X_1", first[0, 0], equals(-1.0))
        add(f"T = {T}: coefficient of H_0", start[0], equals(1.0))
    e.counter_example("T = 1: H_1 = X_1 − H_0.")


@claim(
    "002-1-drop",
    "`Y_T = σ(Σ_i (X_2i − X_{2i−1}) + H_0)`, the 1000 left out in one line",
    "`Y_T = σ(1000 (Σ_i (X_2i − X_{2i−1}) + H_0))` for even T",
    recorded=Outcome.FALSE,
)
def dropped_gain(e: Evidence) -> None:
    x, zero = torch.tensor([[0.0, 0.01]], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    y = torch.sigmoid(GAIN * last_state(x, zero))
    e.said("h = 0.01: |σ(h) − Y|", (torch.sigmoid(printed_form(x, zero)) - y).abs(), at_most(1e-12))
    e.truth("h = 0.01: Y", y, printed("0.99995"))
    e.truth("h = 0.01: σ without the 1000", torch.sigmoid(printed_form(x, zero)), printed("0.5025"))
    e.counter_example("X = (0, 0.01), H_0 = 0: Y = 0.99995, the printed line gives 0.5025.")


@claim(
    "002-1-fin",
    "for even T: `Y_T = σ(1000 (Σ_{i≤T/2} (X_2i − X_{2i−1}) + H_0))`",
    "exact for even T; an odd T needs the general alternating sum",
    recorded=Outcome.TRUE,
)
def final_form(e: Evidence) -> None:
    for T in (2, 4, 10):
        x, h0 = _drawn(T)
        e.said(
            f"T = {T}: printed sum against H_T", attend.error(printed_form(x, h0), last_state(x, h0)), at_most(1e-12)
        )
    for T in (1, 3, 7):
        x, h0 = _drawn(T)
        e.truth(f"T = {T}: printed sum against H_T", attend.error(printed_form(x, h0), last_state(x, h0)), above(1e-2))


@claim(
    "002-1-mean",
    "what the network computes is not said",
    "a comparator: for integers and H_0 = 0 it is 1 if the even steps sum to more than the odd ones, "
    "0 if less, ½ at a tie",
    recorded=Outcome.BLANK,
)
def meaning(e: Evidence) -> None:
    x = torch.tensor(list(product((0.0, 1.0), repeat=8)), dtype=torch.float64)
    difference = (x[:, 1::2] - x[:, 0::2]).sum(1)
    for dtype in (torch.float64, torch.float32):
        y = torch.sigmoid(GAIN * last_state(x.to(dtype), torch.zeros(len(x), dtype=dtype)))
        wrong = int((y != (difference.sign() + 1).to(dtype) / 2).sum())
        e.truth(
            f"{str(dtype).removeprefix('torch.')}: of the 256 binary sequences of length 8, wrongly compared",
            wrong,
            equals(0),
        )
    e.truth("|h| at which σ(1000h) leaves [1e-6, 1 − 1e-6]", log((1 - 1e-6) / 1e-6) / GAIN, printed("0.0138"))
    e.truth("|∂Y/∂X_t| at a tie", gradient_at(0.0), near(250.0, 1e-9))
    e.truth("|∂Y/∂X_t| at h = 1", gradient_at(1.0), at_most(1e-12))
    e.truth("|∂Y/∂X_t| at h = 0.001", gradient_at(1e-3), above(100))


CLAIMS = claims_in(globals())
