"""Nets of tokens as declarations: the residual stack that they share, and what stands before and after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.attention import Softmax
from threefold.specs.base import Form, MixerSpec, Spec
from threefold.specs.cross import CrossAttention
from threefold.specs.positions import InputPositionSpec, Sinusoidal

if TYPE_CHECKING:
    from torch import nn

    from threefold.cost import Plan
    from threefold.nets.classifier import Classifier
    from threefold.nets.lm import LM
    from threefold.nets.seq2seq import Seq2Seq
    from threefold.nets.stack import Stack
    from threefold.plan.conventions import Conventions


class Norm(Enum):
    """Where a block normalises: its branches' inputs, or the residual stream after each sum."""

    PRE = "pre"
    POST = "post"


class Bend(Enum):
    """The nonlinearity of a feed-forward part."""

    RELU = "relu"
    GELU = "gelu"


class Pool(Enum):
    """How a classifier makes one vector of many: over valid tokens only."""

    MEAN = "mean"
    MAX = "max"
    LAST = "last"


class Tying(Enum):
    """Which of a sequence-to-sequence net's three vocabulary matrices are one."""

    THREE = "three"  # source embedding = target embedding = output
    OUTPUT = "output"  # target embedding = output; the source has its own
    NONE = "none"


@dataclass(frozen=True)
class FFN(Spec):
    """W_2 bend(W_1 x + b_1) + b_2, each token alone."""

    hidden: int
    bend: Bend = Bend.GELU
    bias: bool = True

    def __post_init__(self) -> None:
        require(self.hidden >= 1, f"FFN(hidden={self.hidden}): give at least 1.")


class NetSpec(Spec, ABC):
    """What a user writes to choose a whole net."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The module."""

    def plan(self, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
        """Exact cost, allocating nothing. `form` None means each mixer's default form."""
        from threefold.plan.tree import net

        return net(self, form, conventions)


@dataclass(frozen=True)
class StackSpec(NetSpec):
    """Blocks in residual form: mixer, then (with `cross`) a reading of a memory, then (with `ffn`) a feed-forward part.

    `mixers` has one spec a layer, so a hybrid is a tuple of different ones. `final_norm` None means: with pre-norm
    only, where the stream would otherwise leave unnormalised.
    """

    width: int
    mixers: tuple[MixerSpec, ...]
    ffn: FFN | None = None
    norm: Norm = Norm.PRE
    dropout: float = 0.0
    cross: CrossAttention | None = None
    final_norm: bool | None = None

    def __post_init__(self) -> None:
        require(self.width >= 1, f"StackSpec(width={self.width}): give at least 1.")
        require(len(self.mixers) >= 1, "StackSpec(mixers=()): give one mixer a layer.")
        _probability("StackSpec", "dropout", self.dropout)

    @property
    def causal(self) -> bool:
        """Whether every layer reads the past only, so that the stack can be continued token by token."""
        return all(mixer.traits.causal for mixer in self.mixers)

    @property
    def ends_normed(self) -> bool:
        """Whether a norm follows the last block."""
        return self.norm is Norm.PRE if self.final_norm is None else self.final_norm

    def build(self) -> Stack:
        from threefold.nets.stack import Stack

        return Stack(self)


@dataclass(frozen=True)
class LMSpec(NetSpec):
    """Tokens in, logits of the next token out. `tied` makes the output matrix the embedding."""

    vocab: int
    stack: StackSpec
    position: InputPositionSpec | None = None
    tied: bool = True
    output_bias: bool = False
    embedding_bias: bool = False

    def __post_init__(self) -> None:
        _tokens("LMSpec", self.vocab, self.stack)
        require(self.stack.cross is None, "LMSpec: a language model has no memory to read; give a stack without cross.")

    def build(self) -> LM:
        from threefold.nets.lm import LM

        return LM(self)


@dataclass(frozen=True)
class ClassifierSpec(NetSpec):
    """Each token is a bag of up to J ids whose vectors are summed; stack; pool over valid tokens; logits of classes.

    With J = 1 the ids are words. More ids describe one token further (its neighbours, its letters); id 0 is "nothing".
    `drop_ids` is the chance that a training step does not see an id.
    """

    vocab: int
    classes: int
    stack: StackSpec
    position: InputPositionSpec | None = None
    pool: Pool = Pool.MEAN
    drop_ids: float = 0.0

    def __post_init__(self) -> None:
        require(self.vocab >= 2, f"ClassifierSpec(vocab={self.vocab}): give at least 2 (id 0 is padding).")
        require(self.classes >= 2, f"ClassifierSpec(classes={self.classes}): give at least 2.")
        require(self.stack.cross is None, "ClassifierSpec: there is no memory to read; give a stack without cross.")
        _probability("ClassifierSpec", "drop_ids", self.drop_ids)

    def build(self) -> Classifier:
        from threefold.nets.classifier import Classifier

        return Classifier(self)


@dataclass(frozen=True)
class Seq2SeqSpec(NetSpec):
    """Encoder-decoder: the decoder's stack has `cross` and reads the encoder's output.

    `embedding_bias` counts embeddings as linear layers with a bias on one-hot input, as some published counts do.
    """

    vocab: int
    encoder: StackSpec
    decoder: StackSpec
    position: InputPositionSpec | None = None
    tying: Tying = Tying.THREE
    output_bias: bool = False
    embedding_bias: bool = False

    def __post_init__(self) -> None:
        require(self.encoder.cross is None, "Seq2SeqSpec: the encoder has no memory to read; give it no cross.")
        require(
            self.decoder.cross is not None, "Seq2SeqSpec: the decoder must read the memory; give its stack a cross."
        )
        _tokens("Seq2SeqSpec", self.vocab, self.decoder)
        require(
            self.tying is not Tying.THREE or self.encoder.width == self.decoder.width,
            f"Seq2SeqSpec: one matrix for source and target needs equal widths, not {self.encoder.width} and "
            f"{self.decoder.width}; give Tying.OUTPUT or equal widths.",
        )

    @property
    def target(self) -> LMSpec:
        """The decoder's two ends, as the language model that it would be without a memory."""
        return LMSpec(
            vocab=self.vocab,
            stack=replace(self.decoder, cross=None),
            position=self.position,
            tied=self.tying is not Tying.NONE,
            output_bias=self.output_bias,
            embedding_bias=self.embedding_bias,
        )

    def build(self) -> Seq2Seq:
        from threefold.nets.seq2seq import Seq2Seq

        return Seq2Seq(self)


def transformer(
    vocab: int = 30000,
    width: int = 1024,
    heads: int = 4,
    head_dim: int = 192,
    hidden: int = 512,
    depth: tuple[int, int] = (12, 8),
    norm: Norm = Norm.POST,
    tying: Tying = Tying.THREE,
) -> Seq2SeqSpec:
    """The documents' encoder-decoder transformer: 12 and 8 blocks, heads * head_dim = 768 != width; or smaller."""

    def attention(causal: bool) -> Softmax:
        return Softmax(heads=heads, key_dim=head_dim, value_dim=head_dim, causal=causal, bias=True)

    ffn = FFN(hidden, Bend.RELU)
    encoder = StackSpec(width, (attention(False),) * depth[0], ffn, norm)
    decoder = StackSpec(width, (attention(True),) * depth[1], ffn, norm, cross=CrossAttention(attention(False)))
    return Seq2SeqSpec(vocab, encoder, decoder, Sinusoidal(), tying)


def _tokens(name: str, vocab: int, stack: StackSpec) -> None:
    require(vocab >= 2, f"{name}(vocab={vocab}): give at least 2.")
    late = [mixer for mixer in stack.mixers if not mixer.traits.causal]
    require(not late, f"{name} writes token after token, but {late[:1]} reads the future; give causal mixers.")


def _probability(name: str, field: str, value: float) -> None:
    require(0.0 <= value < 1.0, f"{name}({field}={value}): give a probability in [0, 1).")
