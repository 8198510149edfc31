"""Speech to text: one encoder over any mixer, and a decoder of LSTM with attention or of transformer blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Self

from threefold.data.espeak import Synthetic
from threefold.recipes.recipe import DataSpec, ModelSpec, Recipe
from threefold.specs.attention import Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.cross import CrossAttention
from threefold.specs.nets import FFN, StackSpec
from threefold.specs.positions import InputPositionSpec, Sinusoidal
from threefold.specs.speech import Floor, LogMelSpec, SpeechSpec
from threefold.train.settings import AdamW, Decay, Schedule, Train
from threefold.train.task import Assets

if TYPE_CHECKING:
    from threefold.recipes.speech_task import SpeechTask


class Letters(Enum):
    """Which characters are written."""

    DOCUMENTS = "documents"  # the 35 symbols of the source documents' experiments
    DATA = "data"  # those of the training texts, any script


@dataclass(frozen=True)
class SpeechData(DataSpec):
    """An LJSpeech-format folder (or one with such folders `train`, `valid`, `test`); without a path, espeak-ng speaks.

    Training sounds are augmented: time is stretched by up to `stretch` either way, `gaps` spans of time and `bands` of
    frequency are silenced (Park et al. 2019). All of it is a function of (seed, epoch, utterance).
    """

    synthetic: Synthetic = Synthetic()
    letters: Letters = Letters.DATA
    seconds: float = 30.0  # a longer utterance is refused by name
    characters: int = 400
    stretch: float = 0.1
    gaps: int = 2
    bands: int = 2
    choose: int = 200  # validation utterances that are transcribed while training


@dataclass(frozen=True)
class SpeechModel(ModelSpec):
    """The documents' sizes: width 200, 2 heads, 400 between. `streaming` makes the encoder read forward only."""

    encoder: MixerSpec = Softmax(heads=2)
    decoder: MixerSpec = Softmax(heads=2)
    layers: int = 2
    decoder_layers: int = 1
    width: int = 200
    ffn: int = 400
    dropout: float = 0.1
    streaming: bool = False
    ctc: float = 0.3  # share of the alignment-free loss; 0: none
    beams: int = 1  # hypotheses kept while transcribing; 1 is greedy

    def spec(self, vocab: int) -> SpeechSpec:
        """The net."""
        from threefold.recipes.common import both_ways

        mixer = self.encoder if self.streaming else both_ways(self.encoder)
        ffn = FFN(self.ffn)
        encoder = StackSpec(self.width, (mixer,) * self.layers, ffn, dropout=self.dropout)
        decoder = StackSpec(
            self.width,
            (self.decoder,) * self.decoder_layers,
            ffn,
            dropout=self.dropout,
            cross=CrossAttention(Softmax(heads=2, causal=False)),
        )
        return SpeechSpec(
            vocab,
            encoder,
            decoder,
            front=LogMelSpec(floor=Floor.RUNNING if self.streaming else Floor.UTTERANCE),
            decoder_position=self._decoder_position(),
            ctc=self.ctc > 0,
        )

    def _decoder_position(self) -> InputPositionSpec | None:
        """Attention needs to be told the order; a recurrence knows it."""
        return Sinusoidal() if isinstance(self.decoder, Softmax) and self.decoder.position is None else None


@dataclass(frozen=True)
class SpeechRecipe(Recipe):
    """Speech recognition by characters."""

    name: ClassVar[str] = "speech"
    says: ClassVar[str] = (
        "sound to text: an LSTM decoder with attention or a transformer's; your own LJSpeech-format folder"
    )

    data: SpeechData = SpeechData()
    model: SpeechModel = SpeechModel()
    train: Train = Train(
        lr=1e-3,
        epochs=15,
        batch=16,
        optimiser=AdamW(),
        schedule=Schedule(warmup=0.15, decay=Decay.LINEAR),
        smoothing=0.1,
        clip=1.0,
        watch="cer",
    )

    def task(self, assets: Assets | None = None) -> SpeechTask:
        from threefold.recipes.speech_task import SpeechTask

        return SpeechTask(self, assets)

    def smoke(self) -> Self:
        return replace(
            self,
            data=replace(self.data, synthetic=Synthetic(count=40, shortest=1, longest=2), stretch=0.0, gaps=0, bands=0),
            model=replace(self.model, width=32, ffn=64, layers=1, dropout=0.0),
            train=replace(self.train, steps=24, batch=8, lr=3e-3),
        )
