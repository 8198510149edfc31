"""Mixers on paper: the one place that knows which paper belongs to which spec."""

from __future__ import annotations

from threefold.errors import InputError
from threefold.plan.attend import softmax
from threefold.plan.linear import linear
from threefold.plan.recur import recurrent
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Form, MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.recurrent import Recurrent


def known(spec: MixerSpec) -> bool:
    """Whether a paper belongs to this spec; what has none is counted instead."""
    if isinstance(spec, Bidirectional):
        return known(spec.mixer)
    return isinstance(spec, Softmax | Recurrent | Linear)


def run(s: Sheet, spec: MixerSpec, x: Signal, form: Form | None, name: str, valid: Signal | None = None) -> Signal:
    """The mixer on paper, in one form; None is its first."""
    form = form or spec.traits.forms[0]
    match spec:
        case Softmax():
            return softmax(s, spec, x, form, name, valid)
        case Bidirectional(mixer=inner):
            return _both(s, inner, x, form, name, valid)
        case Recurrent():
            return recurrent(s, spec, x, form, name, valid)
        case Linear():
            return linear(s, spec, x, form, name, valid)
    raise InputError(
        f"{spec!r} cannot be planned inside a net: it is none of the library's mixers. Plan it alone, or count the net."
    )


def _both(s: Sheet, inner: MixerSpec, x: Signal, form: Form, name: str, valid: Signal | None) -> Signal:
    """One copy reads x, another reads it reversed; no state outlives a whole sequence."""
    with s.part("forward"), s.stateless():
        y = run(s, inner, x, form, f"{name}.ahead", valid)
    with s.part("backward"), s.stateless():
        flipped = None if valid is None else s.given(*valid.shape, grad=False, width=1)
        back = run(s, inner, s.like(x), form, f"{name}.back", flipped)
        s.like(back)
    return s.like(y)
