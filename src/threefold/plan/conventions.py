"""The choices that a number depends on, as named switches. They are printed above every plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Scores(Enum):
    """What attention does with its T x S scores."""

    FUSED = "fused"  # made and used block by block: never stored, made again in the backward pass
    MATERIALISED = "materialised"  # written to memory, and kept for the backward pass


class Causal(Enum):
    """How many of the T x T pairs causal attention is charged for."""

    FULL = "full"  # all: what dense kernels and common counters count
    HALF = "half"  # the T (T + 1) / 2 that can be non-zero


class Optimiser(Enum):
    """What is kept for every parameter between steps."""

    ADAMW = "adamw"  # two running moments
    SGD = "sgd"  # nothing
    MOMENTUM = "momentum"  # one running mean

    @property
    def slots(self) -> int:
        """Numbers kept for each parameter."""
        return {Optimiser.ADAMW: 2, Optimiser.SGD: 0, Optimiser.MOMENTUM: 1}[self]


class Recompute(Enum):
    """What is thrown away after forward and made again in the backward pass."""

    NONE = "none"
    LAYERS = "layers"  # every layer keeps its input only


class Dtype(Enum):
    """The numbers of weights and signals."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def bytes(self) -> int:
        """Bytes of one number."""
        return {Dtype.FLOAT64: 8, Dtype.FLOAT32: 4}.get(self, 2)

    @property
    def accumulator(self) -> int:
        """Bytes of one number of a running sum: float32 or wider."""
        return max(4, self.bytes)


@dataclass(frozen=True)
class Conventions:
    """FLOP = 2 per multiply-add, contractions only: said once, everywhere. The rest are switches."""

    scores: Scores = Scores.FUSED
    causal: Causal = Causal.FULL
    dtype: Dtype = Dtype.FLOAT32
    optimiser: Optimiser = Optimiser.ADAMW
    recompute: Recompute = Recompute.NONE

    @property
    def header(self) -> str:
        """One line for the top of a plan."""
        return (
            f"FLOP = 2 per multiply-add · contractions only · causal = {self.causal.value} · "
            f"attention = {self.scores.value} · {self.dtype.value} · optimiser = {self.optimiser.value} · "
            f"recompute = {self.recompute.value}"
        )
