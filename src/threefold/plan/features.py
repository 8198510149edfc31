"""Feature maps, positions and norms of heads, run on paper as `ops.features`, `ops.rotate` and `ops.bias` run them."""

from __future__ import annotations

from math import comb

from threefold.cost import Poly
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal, several
from threefold.specs.features import Elu1, FeatureMap, Relu, Taylor
from threefold.specs.positions import Relative, ScorePositionSpec, Shaw

INTEGER = 8  # bytes of a position or an index


def phi(s: Sheet, x: Signal, features: FeatureMap) -> Signal:
    """(..., K) -> (..., F)."""
    match features:
        case Elu1():
            s.by_input(x)
            return s.like(x, s.by_output(s.by_input(x)))
        case Relu():
            return s.by_output(x)
        case Taylor():
            return _monomials(s, x, features.degree)
    return x


def _monomials(s: Sheet, x: Signal, degree: int) -> Signal:
    """Each degree's monomials are products with those of the degree below, and are weighted by a table."""
    size, lead = int(x.shape[-1]), x.shape[:-1]
    if lead[-1] != 1:  # transposed, so that rows are contiguous; one row already is
        x = s.copy(x, *x.shape, apart=several(lead[-1]))
    below = x
    for n in range(2, degree + 1):
        made = s.new(*lead, comb(size + n - 1, n), grad=x.grad, width=x.width)
        if x.grad:
            s.keep(x, below)
        s.times(made, s.given(made.shape[-1], width=x.width))
        below = made
    return s.new(*lead, comb(size + degree, degree), grad=x.grad, width=x.width)


def scores(s: Sheet, q: Signal, k: Signal, features: FeatureMap) -> Signal:
    """phi(q).phi(k) for every pair: for Taylor the series of q.k, by Horner's rule."""
    if not isinstance(features, Taylor):
        q, k = phi(s, q, features), phi(s, k, features)
    total = dots = s.matmul(q, transposed(k))
    if isinstance(features, Taylor):
        total = s.like(dots)
        for _ in range(features.degree - 1):
            total = s.times(dots, total)
    return total


def transposed(x: Signal) -> Signal:
    """The last two axes exchanged: a view."""
    return x.view(*x.shape[:-2], x.shape[-1], x.shape[-2])


def turned(s: Sheet, x: Signal, rows: Poly) -> Signal:
    """Rotary on (B, T, H, K): a cosine and a sine for every position and pair are made, and kept."""
    pairs = int(x.shape[-1]) // 2
    tables = [s.given(rows, x.shape[1], 1, pairs, width=max(x.width, 4)) for _ in range(2)]
    if x.grad:
        s.keep(*tables)
    return s.like(x)


def head_norm(s: Sheet, x: Signal, *, name: str) -> Signal:
    """RMSNorm with a gain: keeps its input, the inverse root mean square, and what the gain multiplies."""
    s.weight(f"{name} gain", int(x.shape[-1]))
    inverse = s.new(*x.shape[:-1], 1, width=x.width)
    normed = s.like(x)
    s.keep(x, inverse, normed)
    return s.like(x)


def score_term(
    s: Sheet, position: ScorePositionSpec, q: Signal, heads: int, rows: Poly, queries: Poly, keys: Poly, *, causal: bool
) -> Signal:
    """The term of each pair: (rows or B, H, queries, keys). q is (B, T, H, K)."""
    match position:
        case Relative():
            s.weight("relative table", position.buckets, heads)
            s.keep(s.given(rows, queries, keys, width=INTEGER))
            return s.new(rows, heads, queries, keys, grad=True, width=q.width)
        case Shaw():
            return _shaw(s, position, q, heads, rows, queries, keys, causal=causal)
    return s.new(rows, heads, queries, keys, grad=False, width=max(q.width, 4))


def _shaw(
    s: Sheet, position: Shaw, q: Signal, heads: int, rows: Poly, queries: Poly, keys: Poly, *, causal: bool
) -> Signal:
    """q.r for every distance once, then looked up for every pair: the lookup keeps what it looks into, and where."""
    size, distances = int(q.shape[-1]), position.rows(causal)
    s.weight("shaw table", distances, size)
    flops = q.shape[0] * queries * heads * size * distances * 2
    s.add(forward=flops, backward=2 * flops)
    products = s.new(q.shape[0], queries, heads, distances, width=q.width)
    s.keep(q, s.given(rows, queries, keys, width=INTEGER), products)
    return s.new(q.shape[0], heads, queries, keys, grad=True, width=q.width)


def term_by_chunks(
    s: Sheet, position: ScorePositionSpec, q: Signal, heads: int, visits: Poly, rows: Poly, *, causal: bool
) -> None:
    """The weights of a term, and what it costs when each chunk of queries (`rows`) meets chunk after chunk of keys:
    every query is in `visits` / T of these meetings."""
    if isinstance(position, Relative):
        s.weight("relative table", position.buckets, heads)
    if isinstance(position, Shaw):
        s.weight("shaw table", position.rows(causal), int(q.shape[-1]))
        flops = q.shape[0] * heads * visits * q.shape[-1] * position.rows(causal) * 2
        s.new(q.shape[0], rows, heads, position.rows(causal), width=q.width)
        s.add(forward=flops, backward=2 * flops)
