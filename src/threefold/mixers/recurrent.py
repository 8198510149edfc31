"""Recurrent mixers: one cell, one state of fixed size, and a projection back when N is not the width."""

from __future__ import annotations

from math import sqrt
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.kernels import recurrent as native
from threefold.mixers.base import CausalMixer
from threefold.ops import onednn, recurrence
from threefold.ops.cells import Cell, State, Weights
from threefold.ops.gru import ResetAfter, ResetBefore
from threefold.ops.lstm import LSTMCell
from threefold.ops.rnn import IdentityCell, TanhCell
from threefold.ops.scan import accumulator, cleared
from threefold.specs.base import Form
from threefold.specs.recurrent import GRU, LSTM, RNN, Activation, Recurrent, Reset


class RNNState(NamedTuple):
    """h_t."""

    h: Float[Tensor, "b n"]


class LSTMState(NamedTuple):
    """a_t, what the cell says, and c_t, what it remembers."""

    a: Float[Tensor, "b n"]
    c: Float[Tensor, "b n"]


class GRUState(NamedTuple):
    """h_t."""

    h: Float[Tensor, "b n"]


S = TypeVar("S", RNNState, LSTMState, GRUState)


class RecurrentMixer(CausalMixer[S], Generic[S]):
    """Shared by all cells: y_t = W_out h_t, or h_t itself when N is the width. Gates are stacked by rows."""

    cell: Cell
    state_type: type[S]

    def __init__(self, spec: Recurrent, width: int, cell: Cell) -> None:
        super().__init__(spec, width)
        self.cell = cell
        n = self.hidden = spec.size(width)
        rows = len(cell.gates) * n
        self.input_weight = nn.Parameter(torch.empty(rows, width))
        self.state_weight = nn.Parameter(torch.empty(rows, n))
        self.bias = nn.Parameter(torch.empty(rows)) if spec.bias else None
        self.inner_bias = nn.Parameter(torch.empty(n)) if spec.bias and isinstance(cell, ResetAfter) else None
        self.out = nn.Linear(n, width, bias=False) if n != width else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(N), as torch's recurrent modules."""
        bound = 1 / sqrt(self.hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    @property
    def weights(self) -> Weights:
        """The cell's weights as its ops take them."""
        return Weights(self.input_weight, self.state_weight, self.bias, self.inner_bias)

    def init_state(self, batch: int) -> S:
        return self.state_type(*(self._zeros(batch, self.hidden) for _ in self.cell.parts))

    def mix(
        self, x: Float[Tensor, "b t d"], state: S, valid: Bool[Tensor, "b t"] | None, form: Form
    ) -> tuple[Float[Tensor, "b t d"], S]:
        if form is Form.STEP:
            new = self._stepped(x, state, self.weights, valid)
            return self._project(new[0].unsqueeze(1), x), self.state_type(*new)
        h, last = self._sequence(x, state, valid)
        return self._project(h, x), self.state_type(*last)

    def _stepped(self, x: Tensor, state: S, w: Weights, valid: Tensor | None) -> State:
        if native.supports(x, state, w):
            return native.step(self.cell.name, x, state, w, valid)
        return recurrence.step(self.cell, x[:, 0], state, w, None if valid is None else valid[:, 0])

    def _sequence(self, x: Tensor, state: S, valid: Tensor | None) -> tuple[Float[Tensor, "b t n"], State]:
        states, last = recurrence.sequence(self.cell, x, state, self.weights, valid)
        return states[0], last

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        """Which code runs a whole sequence like x, and why not a faster one."""
        wide = accumulator(torch.promote_types(x.dtype, self.state_weight.dtype))
        reason = native.why_not(x, self.state_weight.new_empty(0, dtype=wide))
        return f"torch; not native: {reason}" if reason else "native"

    def _project(self, h: Float[Tensor, "b t n"], x: Tensor) -> Float[Tensor, "b t d"]:
        h = h if h.dtype == x.dtype else h.to(x.dtype)
        return h if self.out is None else self.out(h)

    def trace(self, x: Float[Tensor, "b t d"], state: S, *, valid: Bool[Tensor, "b t"] | None = None) -> S:
        """The state after every token, each part (B, T, N): what a plain sequence call throws away."""
        states, _ = recurrence.sequence(self.cell, cleared(x, valid), state, self.weights, valid)
        return self.state_type(*states)


class RNNMixer(RecurrentMixer[RNNState]):
    """h_t = act(W_h h_{t-1} + W_x x_t + b)."""

    state_type = RNNState

    def __init__(self, spec: RNN, width: int) -> None:
        super().__init__(spec, width, TanhCell() if spec.activation is Activation.TANH else IdentityCell())


class LSTMMixer(RecurrentMixer[LSTMState]):
    """Gates u, f, c, o over [a; x]; y is a."""

    state_type = LSTMState

    def __init__(self, spec: LSTM, width: int) -> None:
        super().__init__(spec, width, LSTMCell())

    def _sequence(self, x: Tensor, state: LSTMState, valid: Tensor | None) -> tuple[Float[Tensor, "b t n"], State]:
        if onednn.why_not(x, self.weights, masked=valid is not None):
            return super()._sequence(x, state, valid)
        return onednn.lstm(x, state, self.weights)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        reason = onednn.why_not(x, self.weights, masked=masked)
        return f"{super().path(x)}; not oneDNN: {reason}" if reason else "oneDNN"

    def cells(
        self, x: Float[Tensor, "b t d"], state: LSTMState, *, valid: Bool[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b t n"]:
        """c_t after every token."""
        return self.trace(x, state, valid=valid).c


class GRUMixer(RecurrentMixer[GRUState]):
    """Gates r, u, c over [h; x]; the spec says whether r acts before or after the product."""

    state_type = GRUState

    def __init__(self, spec: GRU, width: int) -> None:
        super().__init__(spec, width, ResetBefore() if spec.reset is Reset.BEFORE else ResetAfter())
