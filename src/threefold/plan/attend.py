"""Softmax attention on paper, form by form, as `mixers.attention` and `ops.softmax` run it."""

from __future__ import annotations

from dataclasses import replace

from threefold.cost import Poly, as_poly, beyond, chunks
from threefold.plan.conventions import Causal, Scores
from threefold.plan.features import INTEGER, head_norm, score_term, term_by_chunks, transposed, turned
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal, several
from threefold.specs.attention import Attention, Softmax
from threefold.specs.base import Form
from threefold.specs.positions import Rotary, ScorePositionSpec

ONE = as_poly(1)


def project(s: Sheet, spec: Attention, x: Signal, source: Signal, groups: int, name: str) -> tuple[Signal, ...]:
    """q of x, k and v of the source, each (B, T, heads, K or V)."""
    width = int(x.shape[-1])
    K, V, H = spec.key_size(width), spec.value_size(width), spec.heads
    made = []
    for label, of, heads, size in (("q", x, H, K), ("k", source, groups, K), ("v", source, groups, V)):
        with s.part(label):
            flat = s.linear(of, heads * size, bias=spec.bias, name=f"{name}.{label}")
            made.append(flat.view(*of.shape[:2], heads, size))
            s.says((of.shape[0], heads, of.shape[1], size))
    return tuple(made)


def joined(s: Sheet, spec: Attention, y: Signal, width: int, name: str) -> Signal:
    """The heads side by side, and W_O."""
    with s.part("heads side by side"):
        flat = y.view(*y.shape[:2], y.shape[2] * y.shape[3])
        s.says(flat)
    with s.part("W_O"):
        out = s.linear(flat, width, bias=spec.bias, name=f"{name}.out")
        s.says(out)
    return out


def entering(s: Sheet, spec: Softmax, x: Signal, name: str, rows: Poly = ONE) -> tuple[Signal, Signal, Signal]:
    """q, k, v with their norms and turns."""
    q, k, v = project(s, spec, x, x, spec.groups, name)
    if spec.qk_norm:
        q, k = head_norm(s, q, name=f"{name}.q norm"), head_norm(s, k, name=f"{name}.k norm")
    if isinstance(spec.position, Rotary):
        q, k = turned(s, q, rows), turned(s, k, rows)
    return q, k, v


def softmax(s: Sheet, spec: Softmax, x: Signal, form: Form, name: str, valid: Signal | None = None) -> Signal:
    """(B, T, D) -> (B, T, D)."""
    width = int(x.shape[-1])
    if form is Form.STEP:
        y = _steps(s, spec, x, name)
    else:
        rows = ONE if valid is None else x.shape[0]
        if valid is not None:
            x = s.chosen(valid, x)
        q, k, v = entering(s, spec, x, name, rows)
        read = online if form is Form.CHUNKED else whole
        heads = read(s, spec, q, k, v, spec.causal, valid, None if spec.causal else valid)
        y = joined(s, spec, heads, width, name)
        if valid is not None:
            y = s.chosen(valid, y)
    if spec.causal:
        s.add(state=_cache(s, spec, x, width))
    return y


def _cache(s: Sheet, spec: Softmax, x: Signal, width: int) -> Poly:
    """Keys and values of every token, and a count for each row."""
    kept = spec.groups * (spec.key_size(width) + spec.value_size(width))
    return x.shape[0] * x.shape[1] * kept * s.width + x.shape[0] * INTEGER


def pairs(s: Sheet, queries: Poly, keys: Poly, causal: bool) -> Poly:
    """How many pairs attention is charged for."""
    half = causal and s.conventions.causal is Causal.HALF
    return queries * (queries + 1) / 2 if half else queries * keys


def whole(
    s: Sheet,
    spec: Softmax,
    q: Signal,
    k: Signal,
    v: Signal,
    causal: bool,
    valid: Signal | None = None,
    seen: Signal | None = None,
) -> Signal:
    """All pairs at once: by a kernel that never stores the scores, if no term is learned. `valid` masks queries, `seen`
    keys."""
    if valid is not None:
        q = s.chosen(valid, q)
    term = None
    if seen is not None:
        term = s.given(q.shape[0], 1, 1, k.shape[1], width=1)
    if isinstance(spec.position, ScorePositionSpec):
        rows = ONE if valid is None else q.shape[0]
        term = score_term(s, spec.position, q, spec.heads, rows, q.shape[1], k.shape[1], causal=causal)
        if causal:
            term = replace(s.chosen(s.given(rows, 1, q.shape[1], k.shape[1], width=1), term), width=q.width)
    values, even = v.shape[-1], q.shape[-1] == v.shape[-1]
    size = max(int(q.shape[-1]), int(values))
    q, k, v = (_filled(s, x, size) for x in (q, k, v))
    learned = term is not None and term.grad
    if not learned:  # kept besides what the kernel keeps, for a second derivative
        s.keep(q, k, v, *([term] if term else []))
    fused = s.conventions.scores is Scores.FUSED and not learned
    if int(k.shape[2]) != spec.heads and not fused:
        k, v = (s.new(*x.shape[:2], spec.heads, size, grad=x.grad, width=x.width) for x in (k, v))
    if seen is not None and fused:
        term = s.new(q.shape[0], 1, 1, k.shape[1], grad=False, width=q.width)
    y = (_fused if fused else _stored)(s, q, k, v, causal, term)
    for mask in [] if seen is None else [s.given(q.shape[0], width=1), *([valid] if valid else [])]:
        y = s.chosen(mask, y)
    if even:
        return y
    return s.copy(y, *y.shape[:-1], values, apart=several(y.shape[1]))  # the heads must be copied together


def _filled(s: Sheet, x: Signal, size: int) -> Signal:
    """The shorter of K and V is filled with zeros: the kernel wants them equal."""
    if x.shape[-1] == size:
        return x
    return s.new(*x.shape[:-1], size, grad=x.grad, width=x.width)


def _fused(s: Sheet, q: Signal, k: Signal, v: Signal, causal: bool, term: Signal | None) -> Signal:
    """Keeps q, k, v, the output and one logarithm a query; makes the scores again in the backward pass."""
    batch, length, heads, size = q.shape
    with s.part("scores"):
        per = pairs(s, length, k.shape[1], causal) * batch * heads * 2
        s.add(forward=per * size, backward=per * size * 3)
        s.says((batch, heads, length, k.shape[1]), "fused: never stored")
    with s.part("weighted values"):
        s.add(forward=per * size, backward=per * size * 2)
        y = s.new(batch, length, heads, size, width=q.width)
        logarithms = s.new(batch, heads, length, width=s.wide)
        s.keep(q, k, v, y, logarithms, *([term] if term else []))
        s.says((batch, heads, length, size))
    return y


def _stored(s: Sheet, q: Signal, k: Signal, v: Signal, causal: bool, term: Signal | None) -> Signal:
    """Keeps scaled copies of q and k, the weights of every pair, and v; each in rows of its own."""
    batch, length, heads, size = q.shape
    sources = k.shape[1]
    q, k = (s.new(*x.shape, grad=x.grad, width=x.width) for x in (q, k))
    v = s.copy(v, *v.shape, apart=several(batch) * several(sources))
    per = pairs(s, length, sources, causal) * batch * heads * 2
    with s.part("scores"):
        s.product(q, k, per * size, batch, heads, length, sources)
        s.says((batch, heads, length, sources), "stored")
    with s.part("weights"):
        weights = s.new(batch, heads, length, sources, width=q.width)
        s.says(weights)
    with s.part("weighted values"):
        y = s.product(weights, v, per * size, batch, length, heads, size)
        s.says((batch, heads, length, size))
    return y


def online(
    s: Sheet,
    spec: Softmax,
    q: Signal,
    k: Signal,
    v: Signal,
    causal: bool,
    valid: Signal | None = None,
    seen: Signal | None = None,
) -> Signal:
    """Chunk by chunk, made again in the backward pass: of the scores nothing is kept."""
    batch, length, heads, size = q.shape
    sources, chunk = k.shape[1], spec.chunk
    parts, blocks = _chunks(length, chunk), _chunks(sources, chunk)
    last = length - (parts - 1) * chunk
    met = parts * (parts - 1) / 2 * chunk**2 + last * length if causal else length * sources
    visits = parts * (parts - 1) / 2 * chunk + last * parts if causal else length * blocks
    if s.conventions.causal is Causal.HALF:
        met = pairs(s, length, sources, causal)
    s.keep(q, s.given(ONE if valid is None else batch, length, width=INTEGER))
    with s.part("scores, chunk by chunk"), s.forgotten():
        flops = met * batch * heads * 2
        if isinstance(spec.position, ScorePositionSpec):
            rows = _least(length, chunk)
            term_by_chunks(s, spec.position, q, spec.heads, visits, rows, causal=causal)
        shape = (batch, heads, _least(length, chunk), _least(sources, chunk))
        scores = s.product(q, k, flops * size, *shape)
        y = s.product(scores, v, flops * v.shape[-1], batch, length, heads, v.shape[-1])
        s.says(shape, "stored one chunk at a time")
    return s.new(*y.shape, width=q.width)


def _chunks(length: Poly, size: int) -> Poly:
    """How many chunks a length has."""
    (axis,) = length.axes
    return chunks(axis, size)


def _least(length: Poly, size: int) -> Poly:
    """The length, and at most the size."""
    return length + (size - length) * beyond(length.axes[0], size)


def _steps(s: Sheet, spec: Softmax, x: Signal, name: str) -> Signal:
    """Token after token: each joins a copy of the cache, since autograd watches, and reads all of it."""
    batch, length, width = x.shape
    s.keep(x)
    with s.steps(length) as t:
        token = Signal((batch, ONE, width), x.width, x.storage, x.stored, x.grad)
        q, k, v = entering(s, spec, token, name)
        keys, values = (s.new(batch, spec.groups, t, each.shape[-1], width=s.wide) for each in (k, v))
        scaled = s.new(batch, spec.groups, spec.heads // spec.groups, q.shape[-1], width=s.wide)
        if isinstance(spec.position, ScorePositionSpec):
            score_term(s, spec.position, q, spec.heads, ONE, ONE, t, causal=True)
        scores = s.matmul(scaled, transposed(keys))
        y = s.matmul(s.by_output(scores), values)
        flat = y.view(batch, 1, spec.heads * v.shape[-1])
        s.linear(flat, int(width), bias=spec.bias, name=f"{name}.out")
    return s.new(*x.shape, width=x.width)
