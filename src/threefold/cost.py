"""What a model costs: a tree of exact polynomials in named axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from threefold.poly import B, Number, Poly, S, T, as_poly, axis_poly, beyond, chunks, ragged

__all__ = [
    "ZERO",
    "B",
    "Cost",
    "Most",
    "Number",
    "Plan",
    "Poly",
    "S",
    "T",
    "as_poly",
    "axis_poly",
    "beyond",
    "chunks",
    "ragged",
]


class Most:
    """The largest of several polynomials, decided when sizes are known."""

    __slots__ = ("of",)

    def __init__(self, of: Iterable[Poly] = ()) -> None:
        self.of = frozenset(poly for poly in of if poly)

    def __or__(self, other: Most) -> Most:
        return Most(self.of | other.of)

    def __call__(self, **sizes: Number) -> Number:
        return max((poly.placed(sizes)() for poly in self.of), default=0)

    def at(self, **sizes: Number) -> Most:
        """The same with some axes given a size."""
        return self.placed(sizes)

    def placed(self, sizes: Mapping[str, Number]) -> Most:
        """The same, the sizes as a mapping."""
        return Most(poly.placed(sizes) for poly in self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Most) and self.of == other.of

    def __hash__(self) -> int:
        return hash(self.of)

    def __repr__(self) -> str:
        shown = sorted(map(repr, self.of))
        return shown[0] if len(shown) == 1 else f"max({', '.join(shown)})" if shown else "0"


ZERO, ONE = Poly({}), as_poly(1)


@dataclass(frozen=True)
class Cost:
    """What one part costs. FLOPs are those of contractions, 2 for each multiply-add; bytes are exact."""

    params: Poly = ZERO
    frozen: Poly = ZERO  # of these, the parameters that want no gradient
    forward: Poly = ZERO  # FLOPs
    backward: Poly = ZERO  # FLOPs
    saved: Poly = ZERO  # bytes kept for the backward pass, each storage once
    state: Poly = ZERO  # bytes of the state or cache after T tokens
    temporary: Most = field(default_factory=Most)  # bytes of the largest tensor made on the way

    def __add__(self, other: Cost) -> Cost:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "temporary"}
        return Cost(**sums, temporary=self.temporary | other.temporary)

    def mapped(self, change: Callable[[Poly], Poly]) -> Cost:
        """The same with every polynomial changed."""
        return Cost(
            **{f.name: change(getattr(self, f.name)) for f in fields(self) if f.name != "temporary"},
            temporary=Most(change(poly) for poly in self.temporary.of),
        )

    def placed(self, sizes: Mapping[str, Number]) -> Cost:
        """The same with some axes given a size."""
        return self.mapped(lambda poly: poly.placed(sizes))

    def at(self, **sizes: Number) -> Cost:
        """The same with some axes given a size."""
        return self.placed(sizes)


@dataclass(frozen=True)
class Plan:
    """A tree of costs: total = own + parts. `shape` is the signal that the part hands on, in named axes."""

    name: str
    own: Cost = Cost()
    parts: tuple[Plan, ...] = ()
    shape: tuple[Poly | int, ...] = ()
    note: str = ""
    when: Poly = ONE  # 0 at sizes where another way is taken; there the part is left out

    weights: tuple[tuple[str, int], ...] = ()  # the names and numbers of its own parameters

    @cached_property
    def total(self) -> Cost:
        """Own cost and that of every part."""
        return sum((part.total for part in self.parts), self.own)

    def walk(self, path: str = "") -> Iterator[tuple[str, Plan]]:
        """Every part with its path, parents first."""
        here = f"{path}.{self.name}" if path else self.name
        yield here, self
        for part in self.parts:
            yield from part.walk(here)

    def mapped(self, change: Callable[[Poly], Poly]) -> Plan:
        """The same tree with every polynomial changed. Ways that are then not taken are left out."""
        shape = tuple(change(as_poly(size)) for size in self.shape)
        parts = tuple(part for part in (each.mapped(change) for each in self.parts) if part.when)
        return replace(self, own=self.own.mapped(change), parts=parts, shape=shape, when=change(self.when))

    def placed(self, sizes: Mapping[str, Number]) -> Plan:
        """The same tree with some axes given a size."""
        return self.mapped(lambda poly: poly.placed(sizes))

    def at(self, **sizes: Number) -> Plan:
        """The same tree with some axes given a size."""
        return self.placed(sizes)
