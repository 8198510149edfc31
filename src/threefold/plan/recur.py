"""Recurrent cells on paper: one closed-form op for a sequence, or token after token."""

from __future__ import annotations

from threefold.cost import as_poly
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal, several
from threefold.specs.base import Form
from threefold.specs.recurrent import GRU, LSTM, RNN, Activation, Recurrent, Reset

ONE = as_poly(1)


def gates(spec: Recurrent) -> int:
    """Blocks of N rows in each weight."""
    return 4 if isinstance(spec, LSTM) else 3 if isinstance(spec, GRU) else 1


def recurrent(s: Sheet, spec: Recurrent, x: Signal, form: Form, name: str, valid: Signal | None = None) -> Signal:
    """(B, T, D) -> (B, T, D), in either form."""
    batch, _, width = x.shape
    n = spec.size(int(width))
    s.add(state=batch * n * max(s.wide, 4) * (2 if isinstance(spec, LSTM) else 1))
    if valid is not None:
        x = s.chosen(valid, x)
    y = (_steps if form is Form.STEP else _sequence)(s, spec, x, n, name, valid)
    if valid is not None:
        y = s.chosen(valid, y)
    return y


def _numbers(spec: Recurrent, width: int, n: int) -> int:
    """Parameters of the cell alone."""
    inner = spec.bias and isinstance(spec, GRU) and spec.reset is Reset.AFTER
    return gates(spec) * n * (width + n + spec.bias) + n * inner


def _weights(s: Sheet, spec: Recurrent, width: int, n: int, name: str) -> None:
    rows = gates(spec) * n
    s.weight(f"{name}.input weight", rows, width)
    s.weight(f"{name}.state weight", rows, n)
    if spec.bias:
        s.weight(f"{name}.bias", rows)
        if isinstance(spec, GRU) and spec.reset is Reset.AFTER:
            s.weight(f"{name}.inner bias", n)


def _sequence(s: Sheet, spec: Recurrent, x: Signal, n: int, name: str, valid: Signal | None) -> Signal:
    """One op for all tokens, with a closed-form backward: it keeps its inputs, its states and its gates."""
    batch, length, width = x.shape
    rows = gates(spec) * n
    with s.part("W_x x, all tokens"):
        _weights(s, spec, int(width), n, name)
        inward = batch * length * rows * width * 2
        s.add(forward=inward, backward=inward * (1 + x.grad))
        s.says((batch, length, rows))
    with s.part("W_h h, token after token"):
        across = batch * length * rows * n * 2
        s.add(forward=across, backward=across * 2)
        s.says((batch, n))
    with s.part("states and gates"):
        states = 2 if isinstance(spec, LSTM) else 1
        made = [s.new(batch, length, n, width=s.wide) for _ in range(states)]
        if s.width < s.wide:  # computed in the accumulating dtype: of x and of every weight there is a copy
            x = s.like(x, width=s.wide)
            s.add(saved=_numbers(spec, int(width), n) * s.wide)
        kept = s.new(length, batch, _kept(spec) * n, width=s.wide)
        start = [s.given(batch, n, width=s.wide) for _ in range(states)]
        s.keep(x, *made, kept, *start, *([valid] if valid else []))
        s.says(made[0])
    h = made[0] if s.width == s.wide else s.like(made[0], width=s.width)
    return _out(s, spec, h, int(width), name)


def _kept(spec: Recurrent) -> int:
    """Widths of N that the backward pass needs of the gates."""
    match spec:
        case LSTM():
            return 4
        case GRU(reset=Reset.AFTER):
            return 4
        case GRU():
            return 3
    return 0


def _out(s: Sheet, spec: Recurrent, h: Signal, width: int, name: str) -> Signal:
    if spec.size(width) == width:
        return h
    with s.part("W_out"):
        batch, length, _ = h.shape
        rows = s.copy(h, *h.shape, apart=several(batch) * several(length))
        y = s.linear(rows, width, bias=False, name=f"{name}.out")
        s.says(y)
    return y


def _steps(s: Sheet, spec: Recurrent, x: Signal, n: int, name: str, valid: Signal | None) -> Signal:
    """Differentiable steps. The first starts from a constant, into which no gradient flows."""
    batch, length, width = x.shape
    rows, projected = gates(spec) * n, n != int(width)
    _weights(s, spec, int(width), n, name)
    s.keep(x)
    inward, across = batch * length * rows * width * 2, batch * rows * n * 2
    first = across * 2 / 3 if isinstance(spec, GRU) and spec.reset is Reset.BEFORE else across
    s.add(forward=inward + across * length, backward=inward * (1 + x.grad) + across * length * 2 - first)
    per, once = _activations(spec, projected)
    s.add(saved=(length * per + once) * batch * n * s.wide)
    after = isinstance(spec, GRU) and spec.reset is Reset.AFTER  # W_x x and W_h h of the candidate stand apart
    s.new(batch, rows + n * after, width=s.wide)
    if projected:
        s.weight(f"{name}.out", int(width), n)
        out = batch * length * n * width * 2
        s.add(forward=out, backward=2 * out)
    return s.new(*x.shape, width=x.width)


def _activations(spec: Recurrent, projected: bool) -> tuple[int, int]:
    """Vectors of N numbers that autograd keeps of each step, and once: h_T where it is projected, and less at t = 1."""
    match spec:
        case LSTM():
            return 7, projected  # a and c before, u, f, c~, o, tanh c
        case GRU(reset=Reset.BEFORE):
            return 6, projected - 1  # h before, r and u, r * h, c~, 1 - u
        case GRU():
            return 6 if spec.bias else 8, projected - 1  # m is a view of all three products when it has no bias
        case RNN(activation=Activation.TANH):
            return 1, 1
    return 1, projected
