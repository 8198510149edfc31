"""Models by name, at the sizes of the documents, and the conventions under which their parameters were counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from threefold.errors import InputError, nearest
from threefold.specs.attention import Softmax
from threefold.specs.cross import CrossAttention
from threefold.specs.nets import FFN, Bend, NetSpec, Norm, Seq2SeqSpec, StackSpec, Tying, transformer
from threefold.specs.positions import Learned, Sinusoidal
from threefold.specs.recurrent import LSTM
from threefold.specs.speech import SpeechSpec
from threefold.specs.vision import CNNSpec, Shrink

LENGTH = 2048  # rows of each learned table of positions


@dataclass(frozen=True)
class Preset:
    """A named model: one net or several variants of one, and the sizes at which the documents use it."""

    says: str
    nets: Mapping[str, NetSpec]
    sizes: Mapping[str, int]

    @property
    def main(self) -> NetSpec:
        """The net that is planned when only the name is given."""
        return next(iter(self.nets.values()))


TYINGS = {"tied3": Tying.THREE, "tied-out": Tying.OUTPUT, "untied": Tying.NONE}


def _projections(spec: Seq2SeqSpec, change: Callable[[Softmax], Softmax]) -> Seq2SeqSpec:
    """The net with every attention changed."""

    def stack(of: StackSpec) -> StackSpec:
        mixers = tuple(change(each) if isinstance(each, Softmax) else each for each in of.mixers)
        cross = of.cross
        if cross is not None and isinstance(cross.over, Softmax):
            cross = CrossAttention(change(cross.over))
        return replace(of, mixers=mixers, cross=cross)

    return replace(spec, encoder=stack(spec.encoder), decoder=stack(spec.decoder))


def _unbiased_attention(spec: Seq2SeqSpec) -> Seq2SeqSpec:
    return _projections(spec, lambda each: replace(each, bias=False))


def _unbiased(spec: Seq2SeqSpec) -> Seq2SeqSpec:
    bare = _unbiased_attention(spec)
    stacks = (replace(s, ffn=replace(s.ffn, bias=False) if s.ffn else None) for s in (bare.encoder, bare.decoder))
    encoder, decoder = stacks
    return replace(bare, encoder=encoder, decoder=decoder)


def _wide_heads(spec: Seq2SeqSpec) -> Seq2SeqSpec:
    """The sum over heads read as the size of each."""
    return _projections(
        spec,
        lambda each: replace(
            each, key_dim=each.heads * (each.key_dim or 0), value_dim=each.heads * (each.value_dim or 0)
        ),
    )


def _normed(spec: Seq2SeqSpec) -> Seq2SeqSpec:
    encoder, decoder = (replace(s, final_norm=True) for s in (spec.encoder, spec.decoder))
    return replace(spec, encoder=encoder, decoder=decoder)


CHANGES: dict[str, tuple[str, Callable[[Seq2SeqSpec], Seq2SeqSpec]]] = {
    "b": ("an output bias", lambda spec: replace(spec, output_bias=True)),
    "embbias": ("a bias in each embedding", lambda spec: replace(spec, embedding_bias=True)),
    "norms": ("a norm behind encoder and decoder", _normed),
    "learned": ("a learned table of positions on each side", lambda spec: replace(spec, position=Learned(LENGTH))),
    "unbiased-attention": ("no biases in attention", _unbiased_attention),
    "unbiased": ("no biases but those of the norms", _unbiased),
    "wide-heads": ("d_h = 768 read per head", _wide_heads),
}


def convention(words: str, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    """The encoder-decoder under a counting convention: `tied3`, `tied-out` or `untied`, then `+b`, `+embbias`, ..."""
    first, *rest = words.split("+")
    if first not in TYINGS:
        raise InputError(f"no convention {first!r}{nearest(first, TYINGS) or '.'} It begins with {', '.join(TYINGS)}.")
    spec = replace(spec, tying=TYINGS[first])
    for word in rest:
        if word not in CHANGES:
            raise InputError(f"no convention '+{word}'{nearest(word, CHANGES) or '.'} Known: +{', +'.join(CHANGES)}.")
        spec = CHANGES[word][1](spec)
    return spec


def _speech(recurrent: bool) -> SpeechSpec:
    """log-mel of 80 bins, two convolutions of which the second has stride 2, 2 blocks of width 200."""
    attention = Softmax(heads=2, causal=False, bias=True)
    ffn = FFN(400, Bend.GELU)
    encoder = StackSpec(200, (attention,) * 2, ffn)
    over = CrossAttention(attention)
    if recurrent:
        decoder = StackSpec(200, (LSTM(),), None, cross=over)
        return SpeechSpec(35, encoder, decoder)
    decoder = StackSpec(200, (replace(attention, causal=True),), ffn, cross=over)
    return SpeechSpec(35, encoder, decoder, decoder_position=Sinusoidal())


_ENCDEC = {"B": 32, "T": 2048, "S": 2048}
_SPEECH = {"B": 64, "T": 99, "S": 1377}
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "encdec-12-8": Preset(
            "the documents' transformer: 12 and 8 blocks of width 1024, 4 heads of 192",
            {"encdec-12-8": transformer()},
            _ENCDEC,
        ),
        "encdec-pre": Preset(
            "the same, each branch normalised before instead of after",
            {"encdec-pre": transformer(norm=Norm.PRE)},
            _ENCDEC,
        ),
        "cnn-octmnist": Preset(
            "the documents' two convolutional nets on 28 x 28 images",
            {
                "max-pool": CNNSpec(4),
                "strides": CNNSpec(4, shrink=Shrink.STRIDE),
                "max-pool, conv1 without padding": CNNSpec(4, padding=0),
                "strides, conv1 without padding": CNNSpec(4, shrink=Shrink.STRIDE, padding=0),
            },
            {"B": 8},
        ),
        "speech-attention": Preset(
            "speech to text, a transformer decoder: 27.5 s of sound, 99 characters",
            {"speech-attention": _speech(False)},
            _SPEECH,
        ),
        "speech-lstm": Preset("speech to text, an LSTM decoder that attends", {"speech-lstm": _speech(True)}, _SPEECH),
    }
)
