"""Mixers made of other mixers."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from threefold.mixers.base import Mixer
from threefold.specs.base import Form
from threefold.specs.cross import Bidirectional


class BidirectionalMixer(Mixer):
    """forward(x) + reversed(backward(reversed(x))), each with weights of its own. Padding may stand anywhere."""

    spec: Bidirectional

    def __init__(self, spec: Bidirectional, width: int) -> None:
        super().__init__(spec, width)
        self.ahead = spec.mixer.build(width)
        self.back = spec.mixer.build(width)

    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        form = self._asked(x, valid, form)
        seen = None if valid is None else valid.flip(1)
        return self.ahead.whole(x, valid, form=form) + self.back.whole(x.flip(1), seen, form=form).flip(1)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        return self.ahead.path(x, masked=masked)
