"""The speech net on paper, as `nets.speech` runs it from log-mel frames. The log-mel front end is not learned.

S counts the encoder's positions, one for two frames: a recording of 2S frames.
"""

from __future__ import annotations

from threefold.cost import B, S
from threefold.plan.nets import decoder, positioned, stack
from threefold.plan.sheet import Sheet
from threefold.plan.signal import Signal
from threefold.plan.vision import convolved
from threefold.specs.base import Form
from threefold.specs.speech import SpeechSpec


def speech(s: Sheet, spec: SpeechSpec, form: Form | None) -> Signal:
    """Frames (B, 2S, bins) and tokens (B, T) to logits of the next token."""
    width, bins = spec.encoder.width, spec.front.bins
    valid = s.given(B, 2 * S, width=1)
    frames = s.given(B, bins, 2 * S + 2)
    with s.part("conv1"):
        x = s.by_input(convolved(s, frames, width, 2 * S, kernel=3, name="conv1"))
        s.says((B, 2 * S, width))
    with s.part("conv2, stride 2"):
        s.keep(valid)
        x = s.by_input(convolved(s, s.new(B, width, 2 * S + 2), width, S, kernel=3, name="conv2"))
        x, valid = x.view(B, S, width), valid.view(B, S)
        s.says(x)
    with s.part("encoder"), s.stateless():
        x = positioned(s, spec.position, s.chosen(valid, x), "source positions")
        memory = stack(s, spec.encoder, x, form, "encoder", None, valid)
        s.says(memory)
    y = decoder(s, spec.target, spec.decoder, memory, form, valid)
    if spec.ctc:
        with s.part("letters"):
            s.says(s.linear(memory, spec.vocab, bias=True, name="letters"))
    return y
