"""Bytes by purpose, from a plan: what training holds at once, and what inference does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from threefold.cost import ZERO, Cost, Most, Number, Poly
from threefold.plan.conventions import Conventions


@dataclass(frozen=True)
class Memory:
    """Polynomials of bytes, by purpose; `temporary` is the one largest tensor besides."""

    parts: Mapping[str, Poly]
    temporary: Most

    def __call__(self, sizes: Mapping[str, Number]) -> int:
        """Everything, in whole bytes."""
        return sum((int(part.placed(sizes)) for part in self.parts.values()), int(self.temporary.placed(sizes)()))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes on which it depends."""
        polys = (*self.parts.values(), *self.temporary.of)
        return tuple(dict.fromkeys(axis for poly in polys for axis in poly.axes))

    def renamed(self, old: str, new: str) -> Memory:
        """One axis read as another."""
        parts = {name: poly.renamed(old, new) for name, poly in self.parts.items()}
        return Memory(parts, Most(poly.renamed(old, new) for poly in self.temporary.of))


def training(cost: Cost, conventions: Conventions) -> Memory:
    """Weights, their gradients, what the optimiser keeps of each, and what the backward pass needs.

    A frozen weight has neither gradient nor moments. Moments are in the accumulating dtype; below float32 the weights
    that learn have a float32 copy, which steps are added to.
    """
    width, wide = conventions.dtype.bytes, conventions.dtype.accumulator
    slots = conventions.optimiser.slots
    learned = cost.params - cost.frozen
    parts = {"weights": cost.params * width, "gradients": learned * width}
    if wide > width:
        parts["float32 copy of the weights"] = learned * wide
    if slots:
        parts[f"{conventions.optimiser.value}, {slots} number{'s' * (slots > 1)} a weight"] = learned * wide * slots
    return Memory(parts | {"saved activations": cost.saved}, cost.temporary)


def inference(cost: Cost, conventions: Conventions) -> Memory:
    """Weights, and the cache or state after the whole sequence."""
    parts = {"weights": cost.params * conventions.dtype.bytes, "cache or state": cost.state}
    return Memory({name: poly for name, poly in parts.items() if poly != ZERO}, cost.temporary)


def memory_law(of: Memory, sizes: Mapping[str, Number], axis: str) -> Callable[[int], int]:
    """Bytes as a function of one size, the others given."""
    fixed = sum(of.parts.values(), ZERO).placed(sizes)
    temporary = of.temporary.placed(sizes)
    return lambda size: int(fixed.placed({axis: size})) + int(temporary.placed({axis: size})())
