"""The convolutional net on paper, as `nets.cnn` runs it."""

from __future__ import annotations

from threefold.cost import B
from threefold.plan.features import INTEGER
from threefold.plan.nets import dropped
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal, Size
from threefold.specs.vision import CNNSpec, Shrink


def cnn(s: Sheet, spec: CNNSpec) -> Signal:
    """Images (B, C, side, side) to logits. Images want no gradient, so the first convolution has half a backward."""
    pool = spec.shrink is Shrink.POOL
    made, after = (spec.sides[::2], spec.sides[1::2]) if pool else (spec.sides, spec.sides)
    x = s.given(B, spec.channels, spec.side, spec.side)
    for at, out in enumerate((8, 16)):
        with s.part(f"conv{at + 1}"):
            x = convolved(s, x, out, made[at], made[at], kernel=9, name=f"conv{at + 1}")
            s.says(x)
            x = s.by_output(x)
        if pool:
            with s.part(f"max-pool {at + 1}"):
                s.keep(s.given(B, out, after[at], after[at], width=INTEGER))
                x = s.new(B, out, after[at], after[at])
                s.says(x)
    x = x.view(B, spec.flat)
    with s.part("flattened"):
        s.says(x, f"16 × {spec.sides[-1]} × {spec.sides[-1]}")
    for at, out in enumerate((320, 120)):
        with s.part(f"fc{at + 1}"):
            x = s.by_output(s.linear(x, out, bias=True, name=f"fc{at + 1}"))
            s.says(x)
        x = dropped(s, x, spec.dropout) if at == 0 else x
    with s.part("fc3"):
        x = s.linear(x, spec.classes, bias=True, name="fc3")
        s.says(x)
    return x


def convolved(s: Sheet, x: Signal, out: int, *sides: Size, kernel: int, name: str) -> Signal:
    """Each output meets one kernel of `kernel` places in every channel; zeros at the border are multiplied too."""
    channels = int(x.shape[1])
    s.weight(name, out, channels, kernel)
    s.weight(f"{name} bias", out)
    y = s.new(x.shape[0], out, *sides, width=x.width)
    flops = y.numbers * channels * kernel * 2
    s.add(forward=flops, backward=flops * (1 + x.grad))
    s.keep(x)
    return y
