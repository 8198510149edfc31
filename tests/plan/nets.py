"""Small nets of every kind: what the tests of planning loop over."""

from dataclasses import replace
from functools import partial

from threefold.specs.attention import Linear, Softmax
from threefold.specs.cross import Bidirectional, CrossAttention
from threefold.specs.features import Taylor
from threefold.specs.nets import (
    FFN,
    Bend,
    ClassifierSpec,
    LMSpec,
    NetSpec,
    Norm,
    Pool,
    Seq2SeqSpec,
    StackSpec,
    Tying,
    transformer,
)
from threefold.specs.positions import Alibi, Learned, Rotary, Sinusoidal
from threefold.specs.recurrent import GRU, LSTM
from threefold.specs.speech import LogMelSpec, SpeechSpec
from threefold.specs.vision import CNNSpec, Shrink

SOFT, LIN = Softmax(heads=2, chunk=3), Linear(heads=2, chunk=3, features=Taylor(2))
WHOLE, WHOLE_LIN = replace(SOFT, causal=False), replace(LIN, causal=False)
GROUPED = replace(SOFT, kv_heads=1, qk_norm=True)


stack = partial(StackSpec, 12)


def reading(mixers: tuple, over, norm: Norm = Norm.PRE, dropout: float = 0.0) -> StackSpec:
    return StackSpec(12, mixers, FFN(7), norm, dropout, cross=CrossAttention(over))


def speech(mixer, decoder, over, ctc: bool, dropout: float = 0.0) -> SpeechSpec:
    encoder = StackSpec(12, (mixer,), FFN(5), dropout=dropout)
    return SpeechSpec(9, encoder, reading((decoder,), over, dropout=dropout), LogMelSpec(bins=4), ctc=ctc)


UNTIED = replace(transformer(31, 12, 2, 3, 8, (1, 1), Norm.PRE, Tying.NONE), output_bias=True, embedding_bias=True)

NETS: dict[str, NetSpec] = {
    "stack": stack((SOFT, LSTM()), ffn=FFN(10)),
    "hybrid lm": LMSpec(11, stack((SOFT, LIN, GRU()), ffn=FFN(10))),
    "post-norm lm": LMSpec(
        11,
        stack((SOFT,), ffn=FFN(10, Bend.RELU), norm=Norm.POST, dropout=0.1),
        Sinusoidal(),
        tied=False,
        output_bias=True,
        embedding_bias=True,
    ),
    "learned positions": LMSpec(11, stack((LSTM(),), final_norm=False), Learned(50)),
    "transformer": transformer(31, 12, 2, 3, 8, (2, 2)),
    "transformer, untied": replace(UNTIED, position=Learned(40)),
    "linear transformer": Seq2SeqSpec(
        13, stack((WHOLE_LIN, LSTM())), reading((LIN, GRU()), WHOLE_LIN), Sinusoidal(), Tying.OUTPUT
    ),
    "grouped transformer": Seq2SeqSpec(
        13,
        stack((replace(WHOLE, position=Rotary()),)),
        reading((GROUPED,), replace(GROUPED, causal=False), Norm.POST, 0.2),
        None,
        Tying.OUTPUT,
    ),
    "classifier, mean": ClassifierSpec(9, 3, stack((WHOLE,), ffn=FFN(5)), pool=Pool.MEAN),
    "classifier, max": ClassifierSpec(9, 3, stack((Bidirectional(LSTM()),), dropout=0.1), Sinusoidal(), pool=Pool.MAX),
    "classifier, last": ClassifierSpec(9, 3, stack((GRU(),)), pool=Pool.LAST),
    "cnn, pooled": CNNSpec(4),
    "cnn, strided": CNNSpec(4, shrink=Shrink.STRIDE),
    "speech, recurrent": speech(LSTM(), LSTM(), WHOLE, ctc=True),
    "speech, attention": speech(WHOLE, SOFT, WHOLE, ctc=False, dropout=0.1),
    "speech, linear": speech(WHOLE_LIN, LIN, WHOLE_LIN, ctc=False),
    "speech, both directions": speech(Bidirectional(GRU()), replace(SOFT, position=Alibi()), WHOLE_LIN, ctc=True),
}
