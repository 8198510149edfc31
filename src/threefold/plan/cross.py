"""Reading a memory, on paper, as `mixers.cross` runs it."""

from __future__ import annotations

from threefold.cost import ZERO, as_poly
from threefold.plan.attend import joined, whole
from threefold.plan.features import head_norm
from threefold.plan.linear import Read, recalled, remembered, state_bytes
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal
from threefold.specs.attention import Attention, Linear, Softmax
from threefold.specs.cross import CrossAttention


def remember(
    s: Sheet, spec: CrossAttention, memory: Signal, width: int, name: str, valid: Signal | None = None
) -> tuple[Signal, ...]:
    """What is kept of a memory (B, S, M): its keys and values, or a state of fixed size."""
    over = spec.over
    if valid is not None:
        memory = s.chosen(valid, memory)
    k, v = (_source(s, over, memory, label, width, name) for label in "kv")
    if isinstance(over, Linear):
        s.add(state=state_bytes(s, over, memory.shape[0], width))
        return (remembered(s, Read(over.features, over.normalised, False, over.chunk), k, v, valid),)
    if isinstance(over, Softmax) and over.qk_norm:
        k = head_norm(s, k, name=f"{name}.k norm")
    if valid is not None:
        k, v = s.chosen(valid, k), s.chosen(valid, v)
    s.add(state=k.stored + v.stored + (ZERO if valid is None else valid.numbers))  # the mask: a byte a token
    return k, v


def _source(s: Sheet, over: Attention, memory: Signal, label: str, width: int, name: str) -> Signal:
    groups = over.groups if isinstance(over, Softmax) else over.heads
    size = over.key_size(width) if label == "k" else over.value_size(width)
    with s.part(label):
        flat = s.linear(memory, groups * size, bias=over.bias, name=f"{name}.{label}")
        s.says((memory.shape[0], groups, memory.shape[1], size))
    return flat.view(*memory.shape[:2], groups, size)


def ask(
    s: Sheet, spec: CrossAttention, x: Signal, kept: tuple[Signal, ...], name: str, valid: Signal | None = None
) -> Signal:
    """Each token of x reads the memory."""
    over, width = spec.over, int(x.shape[-1])
    K, V, H = over.key_size(width), over.value_size(width), over.heads
    with s.part("q"):
        q = s.linear(x, H * K, bias=over.bias, name=f"{name}.q").view(*x.shape[:2], H, K)
        s.says((x.shape[0], H, x.shape[1], K))
    if isinstance(over, Linear):
        read = Read(over.features, over.normalised, False, over.chunk)
        y = recalled(s, read, q, kept[0], as_poly(V), None)
        return joined(s, over, s.new(*y.shape, width=x.width), width, name)
    assert isinstance(over, Softmax)
    if over.qk_norm:
        q = head_norm(s, q, name=f"{name}.q norm")
    k, v = kept
    return joined(s, over, whole(s, over, q, k, v, False, seen=valid), width, name)
