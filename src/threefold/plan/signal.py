"""Tensors on paper: named axes, and the storage that views share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from threefold.cost import ONE, Poly, as_poly, axis_poly, beyond

Size = Poly | int


@dataclass(frozen=True)
class Signal:
    """A tensor on paper. Views share a `storage`; `grad` says whether a gradient flows back through it."""

    shape: tuple[Poly, ...]
    width: int  # bytes of one number
    storage: int
    stored: Poly  # bytes of the storage
    grad: bool = True
    of: Signal | None = None  # what it is a view of, where it needs no rows of its own
    apart: Poly = ONE  # 1 where it is a copy of `of`

    @property
    def numbers(self) -> Poly:
        """How many numbers."""
        return volume(self.shape)

    def view(self, *shape: Size) -> Signal:
        """The same numbers under other axes."""
        return replace(self, shape=tuple(map(as_poly, shape)))


def volume(shape: tuple[Size, ...]) -> Poly:
    """The product of the axes."""
    total = as_poly(1)
    for size in shape:
        total = total * size
    return total


def broadcast(*of: Signal) -> tuple[Poly, ...]:
    """The shape of an elementwise op."""
    shape: tuple[Poly, ...] = ()
    for signal in of:
        shape = leading(shape, signal.shape)
    return shape


def leading(a: tuple[Poly, ...], b: tuple[Poly, ...]) -> tuple[Poly, ...]:
    one = as_poly(1)
    rank = max(len(a), len(b))
    left, right = ((one,) * (rank - len(s)) + tuple(s) for s in (a, b))
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def several(size: Poly) -> Poly:
    """1 where an axis is longer than 1: only then do its rows lie apart."""
    (axis,) = size.axes or ("",)
    return beyond(axis, 1) if axis and size == axis_poly(axis) else ONE
