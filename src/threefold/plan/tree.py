"""From a spec to its plan."""

from __future__ import annotations

from threefold.cost import B, Plan, S, T
from threefold.errors import InputError
from threefold.plan.conventions import Conventions
from threefold.plan.cross import ask, remember
from threefold.plan.mixers import known, run
from threefold.plan.nets import classifier, lm, seq2seq, stack
from threefold.plan.sheet import Sheet
from threefold.plan.speech import speech
from threefold.plan.vision import cnn
from threefold.specs.base import Form, MixerSpec
from threefold.specs.cross import CrossAttention
from threefold.specs.nets import ClassifierSpec, LMSpec, NetSpec, Seq2SeqSpec, StackSpec
from threefold.specs.speech import SpeechSpec
from threefold.specs.vision import CNNSpec


def mixer(spec: MixerSpec, width: int, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
    """The plan of one mixer on (B, T, width), its input wanting a gradient as inside a net."""
    if not known(spec):
        from threefold.plan.fitted import fitted  # which counts with torch

        return fitted(spec, width, form, conventions)
    s = Sheet(type(spec).__name__, conventions)
    y = run(s, spec, s.given(B, T, width, grad=True), form, "mixer")
    return s.finish(y.shape)


def cross(spec: CrossAttention, width: int, memory_width: int, conventions: Conventions | None = None) -> Plan:
    """The plan of a memory (B, S, memory_width) remembered and read by (B, T, width)."""
    s = Sheet("CrossAttention", conventions)
    memory = s.given(B, S, memory_width, grad=True)
    with s.part("memory"):
        kept = remember(s, spec, memory, width, "cross")
        s.says(memory)
    y = ask(s, spec, s.given(B, T, width, grad=True), kept, "cross")
    return s.finish(y.shape)


def net(spec: NetSpec, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
    """The plan of a whole net, its inputs being data that want no gradient. Training: dropout is on."""
    s = Sheet(type(spec).__name__.removesuffix("Spec"), conventions)
    match spec:
        case StackSpec(cross=None):
            y = stack(s, spec, s.given(B, T, spec.width, grad=True), form, "stack")
        case LMSpec():
            y = lm(s, spec, form)
        case Seq2SeqSpec():
            y = seq2seq(s, spec, form)
        case ClassifierSpec():
            y = classifier(s, spec, form)
        case SpeechSpec():
            y = speech(s, spec, form)
        case CNNSpec():
            y = cnn(s, spec)
        case _:
            raise InputError(f"{spec!r} cannot be planned alone: plan the net that it is part of.")
    return s.finish(y.shape)
