"""The contract that every mixer keeps. No mathematics here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.ops.scan import accumulator, cleared, scan
from threefold.specs.base import Form, MixerSpec

S = TypeVar("S", bound=tuple)


def fits(name: str, what: str, x: Tensor, width: int, valid: Tensor | None) -> None:
    """Refuse a sequence that is not (B, T, width), or a mask that does not belong to it."""
    if x.ndim != 3 or x.shape[-1] != width:
        raise InputError(f"{name} of width {width} got {what} of shape {tuple(x.shape)}: give (B, T, {width}).")
    if valid is not None and (valid.dtype != torch.bool or valid.shape != x.shape[:2]):
        raise InputError(
            f"{name} got `valid` of shape {tuple(valid.shape)} and {valid.dtype}: give booleans of shape "
            f"{tuple(x.shape[:2])}, True where a token is real."
        )


class Mixer(nn.Module, ABC):
    """(B, T, D) -> (B, T, D). `valid` (B, T) is True where a token is real; an invalid token's output is 0."""

    def __init__(self, spec: MixerSpec, width: int) -> None:
        super().__init__()
        require(width >= 1, f"width {width}: give at least 1.")
        self.spec = spec
        self.width = width
        self._forms = spec.traits.forms

    @abstractmethod
    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        """Mix a whole sequence in one form; `form` None is the spec's first form."""

    def forward(self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None) -> Float[Tensor, "b t d"]:
        return self.whole(x, valid)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        """Which code mixes a whole sequence like x in the first form, and why not a faster one."""
        return "torch"

    def _asked(self, x: Tensor, valid: Tensor | None, form: Form | None) -> Form:
        """The form to run; what cannot be mixed is refused here."""
        name, forms = type(self.spec).__name__, self._forms
        form = form or forms[0]
        if form not in forms:
            said = f"no {form.value} form" if isinstance(form, Form) else f"no form {form!r}"
            raise InputError(f"{name} has {said}; it has {', '.join(map(str, forms))}.")
        fits(name, "x", x, self.width, valid)
        return form

    def extra_repr(self) -> str:
        return f"{self.spec!r}, width={self.width}"


class CausalMixer(Mixer, Generic[S]):
    """A mixer whose output at t depends on tokens up to t only, through a state of type S."""

    @abstractmethod
    def init_state(self, batch: int) -> S:
        """The state before the first token: float32 or wider wherever it accumulates."""

    @abstractmethod
    def mix(
        self, x: Float[Tensor, "b t d"], state: S, valid: Bool[Tensor, "b t"] | None, form: Form
    ) -> tuple[Float[Tensor, "b t d"], S]:
        """The mixer in one form. Invalid tokens arrive as 0. STEP is asked with T = 1 only."""

    @final
    def scan(
        self,
        x: Float[Tensor, "b t d"],
        state: S,
        *,
        valid: Bool[Tensor, "b t"] | None = None,
        form: Form | None = None,
    ) -> tuple[Float[Tensor, "b t d"], S]:
        """Continue from `state`: any split of T gives the same result. `form` None is the spec's first form."""
        form = self._asked(x, valid, form)
        x = cleared(x, valid)
        if form is Form.STEP and x.shape[1] != 1:
            y, state = scan(self._step, x, state, valid=valid)
        else:
            y, state = self.mix(x, state, valid, form)
        return cleared(y, valid), state

    @final
    def step(
        self, x_t: Float[Tensor, "b d"], state: S, valid: Bool[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b d"], S]:
        """One token: the definition."""
        mask = None if valid is None else valid[:, None]
        y, state = self.scan(x_t.unsqueeze(1), state, valid=mask, form=Form.STEP)
        return y.squeeze(1), state

    def _step(self, x_t: Tensor, state: S, valid: Tensor | None) -> tuple[Tensor, S]:
        y, state = self.mix(x_t[:, None], state, None if valid is None else valid[:, None], Form.STEP)
        return y[:, 0], state

    @final
    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        return self.scan(x, self.init_state(len(x)), valid=valid, form=form)[0]

    def _zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Zeros beside the parameters; by default in the dtype in which they accumulate."""
        like = next(self.parameters())
        return like.new_zeros(shape, dtype=dtype or accumulator(like.dtype))


class CrossMixer(nn.Module, ABC, Generic[S]):
    """Encoder-decoder mixing: a memory is remembered once, then asked any number of times."""

    @abstractmethod
    def remember(self, memory: Float[Tensor, "b s m"], valid: Bool[Tensor, "b s"] | None = None) -> S:
        """What is kept of the memory."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "b t d"], memory_state: S) -> Float[Tensor, "b t d"]:
        """Each token of x reads the memory."""
