"""Nets of tokens on paper, as `nets.stack`, `nets.lm`, `nets.seq2seq` and `nets.classifier` run them."""

from __future__ import annotations

from contextlib import nullcontext

from threefold.cost import B, Poly, S, T, as_poly
from threefold.plan.conventions import Recompute
from threefold.plan.cross import ask, remember
from threefold.plan.features import INTEGER
from threefold.plan.mixers import run
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal
from threefold.specs.base import Form
from threefold.specs.nets import Bend, ClassifierSpec, LMSpec, Norm, Pool, Seq2SeqSpec, StackSpec
from threefold.specs.positions import InputPositionSpec, Learned

Memory = tuple[Signal, ...]


def residual(s: Sheet, spec: StackSpec, x: Signal, y: Signal, name: str) -> Signal:
    """The stream after a branch has said y; with post-norm it is normalised here."""
    x = s.like(x, dropped(s, y, spec.dropout))
    return x if spec.norm is Norm.PRE else _norm(s, x, name)


def _norm(s: Sheet, x: Signal, name: str) -> Signal:
    with s.part("norm"):
        y = s.normed(x, name=name)
        s.says(y)
    return y


def dropped(s: Sheet, x: Signal, chance: float) -> Signal:
    """Dropout while training keeps its noise; without a chance it is nothing."""
    return s.times(x, s.given(*x.shape, width=x.width)) if chance > 0 else x


def feedforward(s: Sheet, spec: StackSpec, x: Signal, name: str) -> Signal:
    """W_2 bend(W_1 x)."""
    assert spec.ffn is not None
    with s.part("hidden"):
        h = s.linear(x, spec.ffn.hidden, bias=spec.ffn.bias, name=f"{name}.inner")
        s.says(h)
    with s.part("second"):
        h = s.by_output(h) if spec.ffn.bend is Bend.RELU else s.by_input(h)
        y = s.linear(h, int(x.shape[-1]), bias=spec.ffn.bias, name=f"{name}.outer")
        s.says(y)
    return y


def block(
    s: Sheet,
    spec: StackSpec,
    at: int,
    x: Signal,
    form: Form | None,
    name: str,
    memory: Memory | None = None,
    valid: Signal | None = None,
    memory_valid: Signal | None = None,
) -> Signal:
    """One layer: mixer, perhaps a memory, perhaps a feed-forward part, each in residual form."""
    pre, mixer = spec.norm is Norm.PRE, spec.mixers[at]
    with s.part(type(mixer).__name__.lower()):
        y = _norm(s, x, f"{name}.mixed") if pre else x
        y = run(s, mixer, y, form, f"{name}.mixer", valid)
        x = residual(s, spec, x, y, f"{name}.mixed")
        s.says(x)
    if spec.cross is not None and memory is not None:
        with s.part("cross-attention"):
            y = _norm(s, x, f"{name}.crossed") if pre else x
            y = ask(s, spec.cross, y, memory, f"{name}.cross", memory_valid)
            x = residual(s, spec, x, y, f"{name}.crossed")
            s.says(x)
    if spec.ffn is not None:
        with s.part("feed-forward"):
            y = _norm(s, x, f"{name}.fed") if pre else x
            x = residual(s, spec, x, feedforward(s, spec, y, f"{name}.ffn"), f"{name}.fed")
            s.says(x)
    return x


def stack(
    s: Sheet,
    spec: StackSpec,
    x: Signal,
    form: Form | None,
    name: str,
    memories: list[Memory] | None = None,
    valid: Signal | None = None,
    memory_valid: Signal | None = None,
) -> Signal:
    """All layers, and the norm behind them; a layer that is recomputed keeps its input only."""
    again = s.conventions.recompute is Recompute.LAYERS
    if valid is not None:
        x = s.chosen(valid, x)
    for at in range(len(spec.mixers)):
        if again:
            s.keep(x)
        with s.part(f"layer {at + 1}"), s.forgotten() if again else nullcontext():
            memory = memories[at] if memories else None
            x = block(s, spec, at, x, form, f"{name}.{at}", memory, valid, memory_valid)
            s.says(x)
    if spec.ends_normed:
        with s.part("final norm"):
            x = s.normed(x, name=f"{name}.norm")
            s.says(x)
    return x if valid is None else s.chosen(valid, x)


def embedded(s: Sheet, vocab: int, width: int, batch: Poly, length: Poly, name: str, *, bias: bool) -> Signal:
    """Rows of a table, scaled; the ids are kept to know which rows the gradient goes to."""
    with s.part("embedding"):
        s.weight(name, vocab, width)
        if bias:
            s.weight(f"{name} bias", width)
        s.keep(s.given(batch, length, width=INTEGER))
        with s.part("tokens, as one-hot"):
            s.says((batch, length, vocab), "in memory one number each")
        x = s.new(batch, length, width)
        s.says(x)
    return x


def positioned(s: Sheet, spec: InputPositionSpec | None, x: Signal, name: str) -> Signal:
    """x + code; a learned table has rows for every position."""
    if spec is None:
        return x
    with s.part("positions"):
        if isinstance(spec, Learned):
            s.weight(name, spec.length, int(x.shape[-1]))
            s.keep(s.given(*x.shape[:2], width=INTEGER))
        else:
            s.new(*x.shape, grad=False, width=8)  # sines of float64 angles
        y = s.like(x)
        s.says(y)
    return y


def lm(s: Sheet, spec: LMSpec, form: Form | None) -> Signal:
    """Tokens (B, T) to logits."""
    x = embedded(s, spec.vocab, spec.stack.width, B, T, "target table", bias=spec.embedding_bias)
    x = positioned(s, spec.position, x, "target positions")
    with s.part("stack"):
        x = stack(s, spec.stack, x, form, "stack")
        s.says(x)
    s.add(state=B * INTEGER)
    return logits(s, spec, x)


def logits(s: Sheet, spec: LMSpec, x: Signal) -> Signal:
    """The output matrix: the embedding's own when tied."""
    with s.part("logits"):
        name = "target table" if spec.tied else "output"
        y = s.linear(x, spec.vocab, bias=False, name=name)
        if spec.output_bias:
            s.weight("output bias", spec.vocab)
        s.says(y, "the embedding's matrix; softmax keeps the shape" if spec.tied else "softmax keeps the shape")
    return y


def decoder(
    s: Sheet,
    target: LMSpec,
    spec: StackSpec,
    memory: Signal,
    form: Form | None,
    memory_valid: Signal | None = None,
) -> Signal:
    """What each layer keeps of the memory, then a language model that reads it."""
    with s.part("memory, k and v of each layer" if len(spec.mixers) else "memory"):
        memories = []
        for at in range(len(spec.mixers)):
            assert spec.cross is not None
            with s.part(f"layer {at + 1}"):
                memories.append(remember(s, spec.cross, memory, spec.width, f"decoder.{at}.cross", memory_valid))
        s.says(memory)
    with s.part("decoder"):
        x = embedded(s, target.vocab, spec.width, B, T, "target table", bias=target.embedding_bias)
        x = positioned(s, target.position, x, "target positions")
        x = stack(s, spec, x, form, "decoder", memories, None, memory_valid)
        s.says(x)
    s.add(state=B * INTEGER)
    return logits(s, target, x)


def seq2seq(s: Sheet, spec: Seq2SeqSpec, form: Form | None) -> Signal:
    """Sources (B, S) and targets (B, T) to logits."""
    from threefold.specs.nets import Tying

    table = "target table" if spec.tying is Tying.THREE else "source table"
    with s.part("encoder"), s.stateless():
        x = embedded(s, spec.vocab, spec.encoder.width, B, S, table, bias=spec.embedding_bias)
        x = positioned(s, spec.position, x, "source positions")
        memory = stack(s, spec.encoder, x, form, "encoder")
        s.says(memory)
    return decoder(s, spec.target, spec.decoder, memory, form)


def classifier(s: Sheet, spec: ClassifierSpec, form: Form | None) -> Signal:
    """Bags of ids (B, T) to logits of classes."""
    width = spec.stack.width
    x = embedded(s, spec.vocab, width, B, T, "table", bias=False)
    s.keep(*(s.given(B, T, width=each) for each in (s.width, INTEGER, INTEGER, INTEGER)))  # which ids are seen; bags
    x = positioned(s, spec.position, x, "positions")
    with s.part("stack"), s.stateless():
        x = stack(s, spec.stack, x, form, "stack")
        s.says(x)
    with s.part(f"{spec.pool.value} over time"):
        x = _pooled(s, spec.pool, x)
        s.says(x)
    with s.part("classes"):
        y = s.linear(dropped(s, x, spec.stack.dropout), spec.classes, bias=True, name="head")
        s.says(y)
    return y


def _pooled(s: Sheet, pool: Pool, x: Signal) -> Signal:
    batch, length, width = x.shape
    real = s.given(batch, length, 1, width=1)
    y = s.new(batch, width)
    match pool:
        case Pool.MEAN:
            s.keep(real, s.given(batch, as_poly(1), width=INTEGER))
        case Pool.MAX:
            s.keep(real, s.like(x), y, s.given(batch, width=1))
        case Pool.LAST:
            s.keep(s.given(batch, width=INTEGER), s.given(batch, width=INTEGER), s.given(batch, width=1))
    return s.new(batch, width)
