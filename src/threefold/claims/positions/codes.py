"""The library's position encodings on plain matrices: rows are tokens, `at` their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from threefold.claims.attend import random
from threefold.ops.rotate import frequencies
from threefold.positions import LearnedPosition
from threefold.specs.positions import Alibi, Learned, Relative, Rotary, Shaw, Sinusoidal

Row = Float[Tensor, "n d"]
Scores = Callable[[Row, Row, Tensor, Tensor], Tensor]


def at(positions: int | Sequence[int] | Int[Tensor, " n"]) -> Int[Tensor, "1 n"]:
    """Positions as the library takes them."""
    return torch.as_tensor(positions).reshape(1, -1)


def turned(x: Row, positions: Sequence[int] | Tensor) -> Row:
    """R_p x for each row."""
    return Rotary().build(x.shape[1])(x[None, :, None], at(positions))[0, :, 0]


def coded(x: Row, positions: Sequence[int] | Tensor) -> Row:
    """x + PE(p) for each row."""
    return Sinusoidal().build(x.shape[1])(x[None], at(positions))[0]


def code(positions: Sequence[int] | Tensor, d: int) -> Row:
    """PE(p)."""
    places = at(positions)
    return coded(torch.zeros(places.shape[1], d, dtype=torch.float64), places)


def table(length: int, d: int, seed: int = 0) -> LearnedPosition:
    """A learned encoding with rows of size 1."""
    module = LearnedPosition(Learned(length), d).double()
    with torch.no_grad():
        module.table.copy_(random(length, d, seed=seed))
    return module


def score_schemes(d: int) -> dict[str, Scores]:
    """q.k of tokens at given positions under each encoding, before softmax."""
    learned = table(64, d)
    relative, shaw = Relative().build(1, d, True).double(), Shaw().build(1, d, True).double()

    def added(term: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Scores:
        return lambda q, k, q_at, k_at: q @ k.T + term(q[None, :, None], at(q_at), at(k_at))[0, 0]

    def input_code(f: Callable[[Tensor, Tensor], Tensor]) -> Scores:
        return lambda q, k, q_at, k_at: f(q[None], at(q_at))[0] @ f(k[None], at(k_at))[0].T

    return {
        "sinusoidal": input_code(Sinusoidal().build(d)),
        "learned": input_code(learned),
        "RoPE": lambda q, k, q_at, k_at: turned(q, q_at) @ turned(k, k_at).T,
        "ALiBi": added(Alibi().build(1, d, True)),
        "T5": added(relative),
        "Shaw": added(shaw),
    }


RELATIVE = ("RoPE", "ALiBi", "T5", "Shaw")


def shift_change(scheme: str, by: int = 1, d: int = 8, n: int = 10) -> float:
    """Largest change of a score when all tokens move by the same distance."""
    q, k, here = random(n, d, seed=1), random(n, d, seed=2), torch.arange(n)
    score = score_schemes(d)[scheme]
    with torch.no_grad():
        return float((score(q, k, here, here) - score(q, k, here + by, here + by)).abs().max())


def partial_sums(distance: int, d: int) -> Float[Tensor, " j"]:
    """|S_j| = |sum_{i <= j} e^{i distance theta_i}| for j = 1 .. d/2."""
    angles = distance * frequencies(d, 10000.0)
    return torch.polar(torch.ones_like(angles), angles).cumsum(0).abs()
