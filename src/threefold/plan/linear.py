"""Linear attention on paper, form by form, as `mixers.linear` and `ops.linear` run it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from threefold.cost import Poly, as_poly, beyond, chunks, ragged
from threefold.plan.attend import joined, project
from threefold.plan.features import INTEGER, phi, scores, transposed, turned
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal
from threefold.specs.attention import Linear
from threefold.specs.base import Form
from threefold.specs.features import FeatureMap, Identity, Sign
from threefold.specs.positions import Decay, Rotary

ONE = as_poly(1)


@dataclass(frozen=True)
class Read:
    """What one reading needs to know: the map, whether a mass divides, whether the state fades, the chunk."""

    features: FeatureMap
    normalised: bool
    fades: bool
    chunk: int


def linear(s: Sheet, spec: Linear, x: Signal, form: Form, name: str, valid: Signal | None = None) -> Signal:
    """(B, T, D) -> (B, T, D)."""
    width = int(x.shape[-1])
    if spec.causal:
        s.add(state=state_bytes(s, spec, x.shape[0], width))
    if form is Form.STEP:
        return _steps(s, spec, x, name)
    if valid is not None:
        x = s.chosen(valid, x)
    q, k, v = project(s, spec, x, x, spec.heads, name)
    heads = _attended(s, spec, q, k, v, form, valid)
    y = joined(s, spec, s.new(*heads.shape, width=x.width), width, name)
    return y if valid is None else s.chosen(valid, y)


def state_bytes(s: Sheet, spec: Linear, batch: Poly, width: int) -> Poly:
    """S and z in the accumulating dtype, and two counts a row: the same after any number of tokens."""
    features = spec.features.dim(spec.key_size(width))
    columns = spec.value_size(width) + spec.normalised
    return batch * spec.heads * features * columns * s.wide + batch * 2 * INTEGER


def _attended(s: Sheet, spec: Linear, q: Signal, k: Signal, v: Signal, form: Form, valid: Signal | None) -> Signal:
    """Heads in, heads out: (B, T, H, K), (B, T, H, V) -> a signal of (B, T, H, V) in a layout that is not its own."""
    read = Read(spec.features, spec.normalised, isinstance(spec.position, Decay), spec.chunk)
    batch = q.shape[0]
    if not isinstance(spec.position, Rotary):
        return _read(s, spec, read, q, k, v, form, valid)
    if spec.features.of_dot:
        return _read(s, spec, read, turned(s, q, batch), turned(s, k, batch), v, form, valid)
    with s.part("features"):
        q, k = phi(s, q, spec.features), phi(s, k, spec.features)
        s.says((batch, spec.heads, q.shape[1], q.shape[-1]))
    plain = Read(Identity(), False, False, spec.chunk)
    top = _read(s, spec, plain, turned(s, q, batch), turned(s, k, batch), v, form, valid)
    if not spec.normalised:
        return top
    ones = s.new(*v.shape[:-1], 1, grad=False, width=s.wide)
    below = _read(s, spec, plain, q, k, ones, form, valid)
    s.over(top, _safe(s, below, spec.features, valid))
    return s.new(*top.shape, width=v.width)


def _read(
    s: Sheet, spec: Linear, read: Read, q: Signal, k: Signal, v: Signal, form: Form, valid: Signal | None
) -> Signal:
    if not spec.causal:
        if form is Form.PARALLEL:
            return _everywhere(s, read, q, k, v, valid)
        sums = remembered(s, read, k, v, valid)
        return recalled(s, read, q, sums, v.shape[-1], valid)
    return (_parallel if form is Form.PARALLEL else _by_chunks)(s, read, q, k, v, valid)


def _heads_first(s: Sheet, x: Signal, valid: Signal | None, *more: Poly, length: Poly | None = None) -> Signal:
    """(B, T, H, K) -> a copy (B, H, T, K) in the accumulating dtype, with the axes that chunks add."""
    if valid is not None:
        x = s.chosen(valid, x)
    batch, own, heads, size = x.shape
    return s.new(batch, heads, *(more or (length or own,)), size, grad=x.grad, width=max(x.width, s.wide))


def _widened(s: Sheet, read: Read, x: Signal) -> Signal:
    """The values with a column of ones, whose sum is the mass."""
    columns = x.shape[-1] + 1 if read.normalised else x.shape[-1]
    return s.new(*x.shape[:-1], columns, grad=x.grad, width=x.width)


def _gained(s: Sheet, read: Read, k: Signal, w: Signal) -> Signal:
    with s.part("state, phi(k) v"):
        sums = s.matmul(transposed(phi(s, k, read.features)), w)
        s.says(sums)
    return sums


def _asked(s: Sheet, read: Read, q: Signal, sums: Signal) -> Signal:
    with s.part("read, phi(q) S"):
        y = s.matmul(phi(s, q, read.features), sums)
        s.says(y)
    return y


def _divided(
    s: Sheet, read: Read, y: Signal, values: Poly, valid: Signal | None, *, known: Signal | None = None
) -> Signal:
    """Values over mass, both columns of one product."""
    real = known or valid
    top = Signal((*y.shape[:-1], values), y.width, y.storage, y.stored, y.grad)
    if read.normalised:
        below = _safe(s, top.view(*y.shape[:-1], 1), read.features, real)
        s.over(top, below)
    if real is not None:
        s.chosen(real, top)
    return top if real is None and not read.normalised else s.new(*top.shape, width=y.width)


def _safe(s: Sheet, below: Signal, features: FeatureMap, real: Signal | None) -> Signal:
    """The mass, with 1 in place of what may be 0 for a known reason."""
    if features.sign is Sign.NONNEGATIVE:
        return s.chosen(s.given(*below.shape, width=1), below)
    return below if real is None else s.chosen(real, below)


def _everywhere(s: Sheet, read: Read, q: Signal, k: Signal, v: Signal, valid: Signal | None) -> Signal:
    q, k, v = (_heads_first(s, x, valid) for x in (q, k, v))
    w = _widened(s, read, v)
    with s.part("scores"):
        pairs = scores(s, s.like(q), k, read.features)
        s.says(pairs)
    with s.part("weighted values"):
        y = s.matmul(pairs, w)
        s.says(y)
    return _swapped(_divided(s, read, y, v.shape[-1], valid))


def remembered(s: Sheet, read: Read, k: Signal, v: Signal, valid: Signal | None) -> Signal:
    """S and z of a whole sequence."""
    k, v = (_heads_first(s, x, valid) for x in (k, v))
    s.like(k)
    return _gained(s, read, k, _widened(s, read, v))


def recalled(s: Sheet, read: Read, q: Signal, sums: Signal, values: Poly, valid: Signal | None) -> Signal:
    """Queries to a remembered sequence, which may be empty: known is whether it is, for each row."""
    scaled = _heads_first(s, q, valid)
    if read.normalised:
        sums = s.new(*sums.shape, grad=sums.grad, width=sums.width)
    known = s.given(q.shape[0], 1, 1, 1, width=1) if valid is None else s.given(*q.shape[:2], 1, 1, width=1)
    return _swapped(_divided(s, read, _asked(s, read, scaled, sums), values, valid, known=known))


def _parallel(s: Sheet, read: Read, q: Signal, k: Signal, v: Signal, valid: Signal | None) -> Signal:
    """All pairs, and what an empty state brings; the state after is made too, and no gradient flows from it."""
    batch, length, heads, _ = q.shape
    q, k, v = (_heads_first(s, x, valid) for x in (q, k, v))
    q, w = s.like(q), _widened(s, read, v)
    rows = ONE if valid is None else batch
    into = s.given(rows, heads, length, 1, width=q.width)
    between = s.given(*((rows, heads) if read.fades else ()), length, length, width=q.width)
    with s.part("scores"):
        pairs = s.times(scores(s, q, k, read.features), between)
        s.says(pairs)
    with s.part("weighted values"):
        y = s.matmul(pairs, w)
        s.says(y)
    start = s.given(batch, heads, _features(read, q), w.shape[-1], width=q.width)
    before = _asked(s, read, q, start)
    if read.fades:
        s.times(before, into)
    with s.part("state, phi(k) v"):
        faded = s.times(w, s.given(rows, heads, length, 1, width=q.width)) if read.fades else s.like(w)
        keys = phi(s, k, read.features)
        flops = keys.numbers * w.shape[-1] * 2
        s.add(forward=flops)
        s.new(batch, heads, keys.shape[-1], w.shape[-1], width=q.width)
        s.keep(*([faded] if keys.grad else []), *([keys] if faded.grad else []))
        s.says((batch, heads, keys.shape[-1], w.shape[-1]), "no gradient flows from it")
    return _swapped(_divided(s, read, s.like(y), v.shape[-1], valid))


def _features(read: Read, q: Signal) -> int:
    return read.features.dim(int(q.shape[-1]))


def _by_chunks(s: Sheet, read: Read, q: Signal, k: Signal, v: Signal, valid: Signal | None) -> Signal:
    """One chunk is all pairs at once; with a second one the state carries what the first has gathered."""
    (axis,) = q.shape[1].axes
    several = beyond(axis, read.chunk)
    with s.only(1 - several):
        one = _parallel(s, read, q, k, v, valid)
    with s.only(several):
        return replace(_chunked(s, read, q, k, v, valid), of=one, apart=several)


def _chunked(s: Sheet, read: Read, q: Signal, k: Signal, v: Signal, valid: Signal | None) -> Signal:
    """Pairs inside each chunk, the rest through the state at its start. The last chunk is filled up."""
    batch, length, heads, _ = q.shape
    (axis,), chunk = length.axes, read.chunk
    count = chunks(axis, chunk)
    q, k, v = (_heads_first(s, x, valid, count, as_poly(chunk)) for x in (q, k, v))
    q, w = s.like(q), _widened(s, read, v)
    lead = (batch, heads, count) if valid is not None else (heads, 1 + ragged(axis, chunk) * (count - 1))
    into = s.given(*lead, chunk, 1, width=q.width)
    between = s.given(*(lead if read.fades else ()), chunk, chunk, width=q.width)
    faded = s.times(w, s.given(*lead, chunk, 1, width=q.width)) if read.fades else s.like(w)
    gains = _gained(s, read, k, faded)
    if read.fades:
        s.keep(into)
    with s.part("scores, inside chunks"):
        pairs = scores(s, q, k, read.features)
        s.keep(between)
        pairs = s.like(pairs)
        s.says(pairs)
    with s.part("weighted values"):
        y = s.matmul(pairs, w)
        s.says(y)
    _asked(s, read, q, s.new(*gains.shape, width=gains.width))
    filled = s.like(y).view(batch, heads, length, w.shape[-1])
    return _swapped(_divided(s, read, filled, v.shape[-1], valid))


def _swapped(y: Signal) -> Signal:
    batch, heads, length, size = y.shape
    return y.view(batch, length, heads, size)


def _steps(s: Sheet, spec: Linear, x: Signal, name: str) -> Signal:
    """Token after token: every token keeps the whole state, since each reads another."""
    batch, length, width = x.shape
    H, fades = spec.heads, isinstance(spec.position, Decay)
    s.keep(x)
    with s.steps(length):
        token = Signal((batch, ONE, width), x.width, x.storage, x.stored, x.grad)
        y = _token(s, spec, *project(s, spec, token, token, H, name))
        s.linear(y.view(batch, 1, H * spec.value_size(int(width))), int(width), bias=spec.bias, name=f"{name}.out")
    if fades:
        s.add(saved=(length - 1) * H * s.wide)
    return s.new(*x.shape, width=x.width)


def _token(s: Sheet, spec: Linear, q: Signal, k: Signal, v: Signal) -> Signal:
    batch = q.shape[0]
    read = Read(spec.features, spec.normalised, False, 1)
    if isinstance(spec.position, Rotary) and spec.features.of_dot:
        q, k = turned(s, q, batch), turned(s, k, batch)
    elif isinstance(spec.position, Rotary):
        q, k = phi(s, q, spec.features), phi(s, k, spec.features)
        plain = Read(Identity(), False, False, 1)
        top = _one(s, plain, turned(s, q, batch), turned(s, k, batch), v)
        if not spec.normalised:
            return top
        below = _one(s, plain, q, k, s.new(*v.shape[:-1], 1, grad=False, width=s.wide))
        s.over(top, _safe(s, below, spec.features, None))
        return s.new(*top.shape, width=v.width)
    return _one(s, read, q, k, v)


def _one(s: Sheet, read: Read, q: Signal, k: Signal, v: Signal) -> Signal:
    """One token's recurrence and reading; with one token heads come first for free."""
    q, k, v = (x.view(x.shape[0], x.shape[2], 1, x.shape[3]) for x in (q, k, v))
    q, w = s.like(q), _widened(s, read, v) if read.normalised else v
    sums = s.like(_gained(s, read, k, w))
    y = _asked(s, read, q, sums)
    return _swapped(_divided(s, read, y, v.shape[-1], None) if read.normalised else y)
