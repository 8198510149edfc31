"""A whole mixer in one file: a leaky average, with its declaration, cost, two forms, and the laws that judge it.

y_t = a * y_{t-1} + (1 - a) * x_t for each channel, a = sigmoid(w), y_0 = 0.

Run it: python examples/add_a_mixer.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.cost import B, Cost, Most, Plan, T
from threefold.laws import LAWS, judge
from threefold.laws.law import Verdict
from threefold.laws.ours import MixerSubject
from threefold.mixers.base import CausalMixer
from threefold.ops.scan import accumulator
from threefold.plan.conventions import Conventions
from threefold.specs.base import Form, MixerSpec, Traits


@dataclass(frozen=True)
class Leaky(MixerSpec):
    """What a user writes: frozen, printable, JSON round trip."""

    @property
    def traits(self) -> Traits:
        return Traits(
            causal=True,
            bounded_state=True,
            forms=(Form.PARALLEL, Form.STEP),
            accepts=frozenset(),
            permutes=False,
        )

    def build(self, width: int) -> LeakyMixer:
        return LeakyMixer(self, width)

    def plan(self, width: int, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
        """No contraction, so no FLOPs are charged. The bytes kept for a backward pass were counted at a few sizes.

        The law of accounting holds these formulas against more sizes.
        """
        D = width
        if (form or Form.PARALLEL) is Form.PARALLEL:
            saved = 8 * D + B * (4 * D + T * (8 + 12 * D) + T * T * (9 + 8 * D))
        else:
            saved = T * (8 * D + B * (1 + 8 * D))
        own = Cost(params=D + 0 * B, forward=0 * B, backward=0 * B, saved=saved, state=4 * B * D, temporary=Most())
        return Plan("leaky", own, shape=(B, T, width))


class LeakyState(NamedTuple):
    """The last average."""

    y: Tensor  # (B, D)


class LeakyMixer(CausalMixer[LeakyState]):
    """Holds w; both forms live in `mix`."""

    def __init__(self, spec: Leaky, width: int) -> None:
        super().__init__(spec, width)
        self.w = nn.Parameter(torch.linspace(-1.0, 2.0, width))

    def init_state(self, batch: int) -> LeakyState:
        return LeakyState(self._zeros(batch, self.width))

    def mix(
        self, x: Float[Tensor, "b t d"], state: LeakyState, valid: Bool[Tensor, "b t"] | None, form: Form
    ) -> tuple[Float[Tensor, "b t d"], LeakyState]:
        if x.shape[1] == 0:
            return x, state
        wide = accumulator(x.dtype)
        keep = torch.sigmoid(self.w.to(wide))
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid
        read = x.to(wide) * (1 - keep)
        if form is Form.STEP:
            y = torch.where(real, keep * state.y + read[:, 0], state.y)
            return y[:, None].to(x.dtype), LeakyState(y)
        age = real.long().cumsum(1)  # a padded token ages nothing
        between = (age[:, :, None] - age[:, None, :]).clamp(min=0)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril() & real[:, None, :]
        weights = torch.where(later[..., None], keep ** between[..., None], torch.zeros((), dtype=wide))
        y = (weights * read[:, None]).sum(2) + keep ** age[..., None] * state.y[:, None]
        return y.to(x.dtype), LeakyState(y[:, -1])


def verdicts() -> tuple[Verdict, ...]:
    """Every law on the new mixer."""
    return judge(MixerSubject(Leaky()), LAWS)


if __name__ == "__main__":
    for verdict in verdicts():
        print(f"{verdict.law:<14}{verdict.status.value}")
