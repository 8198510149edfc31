"""Speech to text: log-mel frames, two convolutions, an encoder over any mixer, a decoder that reads it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from threefold.errors import require
from threefold.nets.lm import Decoder, DecoderState, positioned
from threefold.nets.logmel import LogMel, LogMelState
from threefold.nets.stack import Stack, StackState
from threefold.ops.scan import cleared
from threefold.specs.speech import SpeechSpec
from threefold.specs.words import say


class Sound(NamedTuple):
    """The encoder's reading: `memory` (B, S, D) and which of its frames are `valid` (B, S)."""

    memory: Tensor
    valid: Tensor


class Spoken(NamedTuple):
    """Logits of the next token after each token, and of a token (0: none) in each frame; no frames without `ctc`."""

    written: Tensor
    letters: Tensor


class SoundState(NamedTuple):
    """All that an encoder following live sound remembers; its size does not grow if its mixers' states do not."""

    mel: LogMelState
    first: Tensor
    second: Tensor
    at: Tensor
    stack: StackState


class Speech(nn.Module):
    """`listen` to frames once, then `step` the decoder; `forward` does both. `hear` is `listen` for live sound."""

    def __init__(self, spec: SpeechSpec) -> None:
        super().__init__()
        self.spec = spec
        width = spec.encoder.width
        self.front = LogMel(spec.front)
        self.conv1 = nn.Conv1d(spec.front.bins, width, 3)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2)
        for conv in (self.conv1, self.conv2):  # torch's own start leaves sound a tenth as loud as its positions
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        self.position = spec.position.build(width) if spec.position else None
        self.encoder = Stack(spec.encoder)
        self.decoder = Decoder(spec.target, spec.decoder)
        self.letters = nn.Linear(width, spec.vocab) if spec.ctc else None

    def listen(self, frames: Float[Tensor, "b t bins"], valid: Bool[Tensor, "b t"] | None = None) -> Sound:
        """The memory: one vector for every two frames."""
        valid = frames.new_ones(frames.shape[:2], dtype=torch.bool) if valid is None else valid
        x = _convolved(self.conv1, functional.pad(cleared(frames, valid), (0, 0, 1, 1)))
        x = _convolved(self.conv2, functional.pad(cleared(x, valid), (0, 0, 1, 1)))
        half = valid[:, ::2]
        at = torch.zeros(len(x), dtype=torch.long, device=x.device)
        x, _ = positioned(cleared(x, half), self.position, at, half)
        return Sound(self.encoder(x, half), half)

    def init_state(self, sound: Sound) -> DecoderState:
        """The decoder's state before its first token."""
        return self.decoder.init_state(len(sound.memory), sound.memory, sound.valid)

    def step(self, token: Int[Tensor, " b"], state: DecoderState) -> tuple[Float[Tensor, "b v"], DecoderState]:
        """One token of text."""
        return self.decoder.step(token, state)

    def forward(
        self,
        frames: Float[Tensor, "b t bins"],
        tokens: Int[Tensor, "b n"],
        frames_valid: Bool[Tensor, "b t"] | None = None,
        tokens_valid: Bool[Tensor, "b n"] | None = None,
    ) -> Spoken:
        """Both readings of a recording whose text is known."""
        sound = self.listen(frames, frames_valid)
        written, _ = self.decoder.scan(tokens, self.init_state(sound), valid=tokens_valid)
        return Spoken(written, self.read(sound))

    def read(self, sound: Sound) -> Float[Tensor, "b s v"]:
        """The alignment-free logits of each encoder frame; none without `ctc`."""
        if self.letters is None:
            return sound.memory.new_zeros(len(sound.memory), 0, self.spec.vocab)
        return self.letters(sound.memory)

    def init_hearing(self, batch: int) -> SoundState:
        """Before the first sample."""
        late = [say(mixer) for mixer in self.spec.encoder.mixers if not mixer.traits.causal]
        require(
            not late,
            f"this encoder cannot follow live sound, for {', '.join(late[:1])} reads the future. Train one of causal "
            "mixers (`threefold train speech --model.streaming`).",
        )
        device = self.conv1.weight.device
        return SoundState(
            mel=self.front.init_state(batch),
            first=torch.zeros(batch, 1, self.spec.front.bins, device=device),
            second=torch.zeros(batch, 1, self.spec.encoder.width, device=device),
            at=torch.zeros(batch, dtype=torch.long, device=device),
            stack=self.encoder.init_state(batch),
        )

    def hear(
        self, samples: Float[Tensor, "b n"], state: SoundState, *, last: bool = False
    ) -> tuple[Float[Tensor, "b s d"], SoundState]:
        """The memory that these samples complete: any split equals `listen` with Floor.RUNNING and causal mixers."""
        frames, mel = self.front.scan(samples, state.mel, last=last)
        x, first = _followed(self.conv1, frames, state.first, last)
        x, second = _followed(self.conv2, x, state.second, last)
        x, at = positioned(x, self.position, state.at, None)
        stack = state.stack
        if x.shape[1]:
            x, stack = self.encoder.scan(x, stack)
        return x, SoundState(mel, first, second, at, stack)


def _convolved(conv: nn.Conv1d, x: Tensor) -> Tensor:
    return functional.gelu(conv(x.transpose(1, 2))).transpose(1, 2)


def _followed(conv: nn.Conv1d, x: Tensor, kept: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """The convolution of what is kept and new, and what later outputs still need; zeros stand at both ends."""
    x = torch.cat([kept, x, torch.zeros_like(kept[:, :1])] if last else [kept, x], 1)
    stride = conv.stride[0]
    count = max(0, (x.shape[1] - 3) // stride + 1)
    if count == 0:
        return x.new_zeros(len(x), 0, conv.out_channels), x
    return _convolved(conv, x), x[:, count * stride :]
