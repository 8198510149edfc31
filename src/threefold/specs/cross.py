"""Mixers made of mixers, as declarations: reading a memory, and reading in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.attention import Attention, Softmax
from threefold.specs.base import Form, MixerSpec, Spec, Traits

if TYPE_CHECKING:
    from threefold.cost import Plan
    from threefold.mixers.base import CrossMixer, Mixer
    from threefold.plan.conventions import Conventions


@dataclass(frozen=True)
class CrossAttention(Spec):
    """Each token of x reads a remembered memory: over softmax K and V, over linear a state of fixed size."""

    over: Attention = Softmax(causal=False)

    def __post_init__(self) -> None:
        require(
            not self.over.causal,
            "CrossAttention reads a whole memory, with no order relative to x: give an attention with causal=False.",
        )
        require(
            self.over.position is None,
            f"CrossAttention cannot take {self.over.position!r}: x and the memory count their positions apart. "
            "Give the memory its positions at its own input.",
        )

    def build(self, width: int, memory_width: int | None = None) -> CrossMixer:
        """The module; `memory_width` None means that the memory is as wide as x."""
        from threefold.mixers.cross import build_cross

        return build_cross(self, width, memory_width or width)

    def plan(self, width: int, memory_width: int | None = None, conventions: Conventions | None = None) -> Plan:
        """Exact cost of a memory (B, S, memory_width) remembered, and of (B, T, width) reading it."""
        from threefold.plan.tree import cross

        return cross(self, width, memory_width or width, conventions)


@dataclass(frozen=True)
class Bidirectional(MixerSpec):
    """One copy of a causal mixer reads forward, another backward; their outputs are added."""

    mixer: MixerSpec

    def __post_init__(self) -> None:
        require(
            self.mixer.traits.causal,
            f"Bidirectional({self.mixer!r}): that mixer already sees the whole sequence. Use it alone.",
        )

    @property
    def traits(self) -> Traits:
        inner = self.mixer.traits
        return Traits(
            causal=False,
            bounded_state=inner.bounded_state,
            forms=tuple(form for form in inner.forms if form is not Form.STEP),
            accepts=inner.accepts,
            permutes=False,
        )

    def build(self, width: int) -> Mixer:
        from threefold.mixers.wrap import BidirectionalMixer

        return BidirectionalMixer(self, width)
