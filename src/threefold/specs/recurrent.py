"""Recurrent mixers as declarations: a hidden state of fixed size, one token after another."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.base import Form, MixerSpec, Traits

if TYPE_CHECKING:
    from threefold.mixers.base import CausalMixer


class Activation(Enum):
    """What an RNN does to its pre-activation."""

    TANH = "tanh"
    IDENTITY = "identity"


class Reset(Enum):
    """Where a GRU's reset gate acts. The two are different functions of the same weights."""

    BEFORE = "before"  # tanh(W_x x + W_h (r * h) + b): the published cell
    AFTER = "after"  # tanh(W_x x + b + r * (W_h h + b_h)): torch and cuDNN


@dataclass(frozen=True)
class Recurrent(MixerSpec, ABC):
    """Shared by all cells. `hidden` None is the width; any other size is projected back to the width by one matrix.

    No parallel form is faked: CHUNKED hoists the input products out of a loop that is still serial.
    """

    hidden: int | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        require(
            self.hidden is None or self.hidden >= 1,
            f"{type(self).__name__}(hidden={self.hidden}): give at least 1, or None for the width.",
        )

    @property
    def traits(self) -> Traits:
        return Traits(
            causal=True,
            bounded_state=True,
            forms=(Form.CHUNKED, Form.STEP),
            accepts=frozenset(),
            permutes=False,
        )

    def size(self, width: int) -> int:
        """N, the hidden width."""
        return self.hidden or width


@dataclass(frozen=True)
class RNN(Recurrent):
    """h_t = act(W [h_{t-1}; x_t] + b)."""

    activation: Activation = Activation.TANH

    def build(self, width: int) -> CausalMixer:
        from threefold.mixers.recurrent import RNNMixer

        return RNNMixer(self, width)


@dataclass(frozen=True)
class LSTM(Recurrent):
    """c_t = G_u * c~ + G_f * c_{t-1}, a_t = G_o * tanh(c_t); gates and candidate over [a_{t-1}; x_t]."""

    def build(self, width: int) -> CausalMixer:
        from threefold.mixers.recurrent import LSTMMixer

        return LSTMMixer(self, width)


@dataclass(frozen=True)
class GRU(Recurrent):
    """h_t = G_u * c~ + (1 - G_u) * h_{t-1}; `reset` names the published variant."""

    reset: Reset = Reset.AFTER

    def build(self, width: int) -> CausalMixer:
        from threefold.mixers.recurrent import GRUMixer

        return GRUMixer(self, width)
