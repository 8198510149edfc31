"""Speech to text as a declaration: log-mel frames, a convolutional front, an encoder over any mixer, a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.base import Spec
from threefold.specs.nets import LMSpec, NetSpec, StackSpec
from threefold.specs.positions import InputPositionSpec, Sinusoidal

if TYPE_CHECKING:
    from threefold.nets.logmel import LogMel
    from threefold.nets.speech import Speech


class Floor(Enum):
    """Over what the maximum is taken, below which (minus 8) log-mel values are cut."""

    UTTERANCE = "utterance"  # all frames: needs the whole recording
    RUNNING = "running"  # the frames so far: can be computed as sound comes in


@dataclass(frozen=True)
class LogMelSpec(Spec):
    """Frames of (max(log10(mel power), max - 8) + 4) / 4: slaney-scale, slaney-normalised triangles on a Hann STFT."""

    sample_rate: int = 16000
    n_fft: int = 400
    hop: int = 160
    bins: int = 80
    floor: Floor = Floor.UTTERANCE

    def __post_init__(self) -> None:
        for field in ("sample_rate", "n_fft", "hop", "bins"):
            require(getattr(self, field) >= 1, f"LogMelSpec({field}={getattr(self, field)}): give at least 1.")

    def build(self) -> LogMel:
        """The module: (B, samples) -> (B, frames, bins)."""
        from threefold.nets.logmel import LogMel

        return LogMel(self)


@dataclass(frozen=True)
class SpeechSpec(NetSpec):
    """log-mel - conv - conv of stride 2 - encoder; the decoder writes characters and reads the encoder by its `cross`.

    LSTM mixers make it the LSTM-with-attention decoder, softmax mixers the transformer decoder. `ctc` adds
    a second, alignment-free reading of the encoder (Graves et al. 2006), which steadies training and streams.
    """

    vocab: int
    encoder: StackSpec
    decoder: StackSpec
    front: LogMelSpec = LogMelSpec()
    position: InputPositionSpec | None = Sinusoidal()
    decoder_position: InputPositionSpec | None = None
    ctc: bool = False

    def __post_init__(self) -> None:
        require(self.vocab >= 2, f"SpeechSpec(vocab={self.vocab}): give at least 2.")
        require(self.encoder.cross is None, "SpeechSpec: the encoder has no memory to read; give it no cross.")
        require(self.decoder.cross is not None, "SpeechSpec: the decoder must read the sound; give its stack a cross.")
        _ = self.target

    @property
    def target(self) -> LMSpec:
        """The decoder's two ends, as the language model that it would be without sound."""
        return LMSpec(
            vocab=self.vocab,
            stack=replace(self.decoder, cross=None),
            position=self.decoder_position,
            tied=False,
            output_bias=True,
        )

    @property
    def streams(self) -> bool:
        """Whether the encoder can follow sound as it comes."""
        return self.encoder.causal

    def build(self) -> Speech:
        from threefold.nets.speech import Speech

        return Speech(self)
