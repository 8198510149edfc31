"""Exact polynomials in named axes. Integers and fractions only, so that "planned = counted" means to the unit.

Axes are the letters of `shapes.AXES`. Work done in chunks is not a polynomial in T; it is one in T and the number of
chunks, so `chunks("T", 64)` is an axis of its own that reads its value from T. So is `beyond("T", 64)`, which is 1
where T > 64 and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from threefold.errors import require

Number = int | Fraction
Monomial = tuple[tuple[str, int], ...]
_ORDER = {name: place for place, name in enumerate("BTS")}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Poly:
    """An exact polynomial in named axes: immutable, hashable, printed as `8,945,401,856·T + 2,752,512·T²`."""

    __slots__ = ("_hash", "_terms")

    def __init__(self, terms: Mapping[Monomial, Number]) -> None:
        kept = {key: _plain(value) for key, value in terms.items() if value}
        self._terms: dict[Monomial, Number] = dict(sorted(kept.items(), key=lambda term: _place(term[0])))
        self._hash = hash(tuple(self._terms.items()))

    @property
    def terms(self) -> dict[Monomial, Number]:
        """Coefficient by monomial, lowest degree first."""
        return dict(self._terms)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that occur; what is read from an axis counts as that axis."""
        return tuple(dict.fromkeys(_source(axis) for key in self._terms for axis, _ in key))

    def __add__(self, other: Poly | Number) -> Poly:
        terms = dict(self._terms)
        for key, value in as_poly(other)._terms.items():
            terms[key] = terms.get(key, 0) + value
        return Poly(terms)

    def __mul__(self, other: Poly | Number) -> Poly:
        if isinstance(other, int | Fraction):
            return Poly({key: value * other for key, value in self._terms.items()})
        terms: dict[Monomial, Number] = {}
        for left, a in self._terms.items():
            for right, b in other._terms.items():
                key = _join(left, right)
                terms[key] = terms.get(key, 0) + a * b
        return Poly(terms)

    def __sub__(self, other: Poly | Number) -> Poly:
        return self + as_poly(other) * -1

    def __rsub__(self, other: Number) -> Poly:
        return as_poly(other) - self

    def __neg__(self) -> Poly:
        return self * -1

    def __truediv__(self, number: Number) -> Poly:
        return self * (Fraction(1) / number)

    def __pow__(self, power: int) -> Poly:
        result = as_poly(1)
        for _ in range(power):
            result = result * self
        return result

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly | int | Fraction) and self._terms == as_poly(other)._terms

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self._terms)

    def at(self, **sizes: Number) -> Poly:
        """The polynomial with some axes given a size."""
        return self.placed(sizes)

    def placed(self, sizes: Mapping[str, Number]) -> Poly:
        """The same, the sizes as a mapping."""
        if not any(_source(axis) in sizes for key in self._terms for axis, _ in key):
            return self
        terms: dict[Monomial, Number] = {}
        for key, value in self._terms.items():
            left = []
            for axis, power in key:
                size = _size(axis, sizes)
                if size is None:
                    left.append((axis, power))
                else:
                    value *= size**power
            terms[tuple(left)] = terms.get(tuple(left), 0) + value
        return Poly(terms)

    def __call__(self, **sizes: Number) -> Number:
        """The exact value, every axis given."""
        value = self.placed(sizes)
        require(not value.axes, f"{self} needs a size for {', '.join(value.axes)}.")
        return value._terms.get((), 0)

    def __int__(self) -> int:
        value = self()
        require(isinstance(value, int), f"{self} is not a whole number.")
        return int(value)

    def settled(self, sizes: Mapping[str, Number]) -> Poly:
        """The law around these sizes: every [T>C] takes its value there, and T itself stays open."""
        found = {axis for key in self._terms for axis, _ in key if axis[0] == "["}
        return self._replaced({axis: value for axis in found if (value := _size(axis, sizes)) is not None})

    def _replaced(self, values: Mapping[str, Number]) -> Poly:
        if not values:
            return self
        result = Poly({})
        for key, value in self._terms.items():
            term = Poly({tuple(pair for pair in key if pair[0] not in values): value})
            for axis, power in key:
                term = term * values.get(axis, 1) ** power
            result += term
        return result

    def smooth(self) -> Poly:
        """The law of long sequences: ⌈T/C⌉ read as T/C, which is exact at multiples of C, and [T>C] as 1."""
        result = Poly({})
        for key, value in self._terms.items():
            term = Poly({(): value})
            for axis, power in key:
                if axis[0] != "[":
                    term = term * Poly({((_source(axis), 1),): Fraction(1, _step(axis))}) ** power
            result += term
        return result

    def renamed(self, old: str, new: str) -> Poly:
        """One axis read as another: both sides of an encoder-decoder as long as each other."""
        if old not in self.axes:
            return self
        result = Poly({})
        for key, value in self._terms.items():
            term = Poly({(): value})
            for axis, power in key:
                name = axis.replace(old, new, 1) if _source(axis) == old else axis
                term = term * Poly({((name, 1),): 1}) ** power
            result += term
        return result

    def degree(self, axis: str) -> int:
        """The highest power of the axis."""
        return max((dict(key).get(axis, 0) for key in self.smooth()._terms), default=0)

    def coefficient(self, axis: str, power: int) -> Poly:
        """What multiplies axis^power."""
        found = {key: value for key, value in self._terms.items() if dict(key).get(axis, 0) == power}
        return Poly({tuple(pair for pair in key if pair[0] != axis): value for key, value in found.items()})

    def derivative(self, axis: str) -> Poly:
        """d/d axis."""
        smooth, axis_ = self.smooth(), axis_poly(axis)
        powers = range(1, smooth.degree(axis) + 1)
        parts = (smooth.coefficient(axis, p) * axis_ ** (p - 1) * p for p in powers)
        return sum(parts, Poly({}))

    def exponent(self, axis: str, **sizes: Number) -> float:
        """d log F / d log axis at these sizes: 1 where F grows linearly, 2 where doubling the axis costs fourfold."""
        value = self.smooth().placed(sizes)()
        require(value != 0, f"{self} is 0 there, and 0 has no growth exponent.")
        return float(sizes[axis] * self.derivative(axis).placed(sizes)() / value)

    def balance(self, axis: str) -> float | None:
        """Where the highest power of the axis overtakes the next lower one; None when there is only one."""
        smooth = self.smooth()
        powers = [p for p in range(1, smooth.degree(axis) + 1) if smooth.coefficient(axis, p)]
        if len(powers) < 2:
            return None
        low, high = powers[-2:]
        ratio = smooth.coefficient(axis, low)() / Fraction(smooth.coefficient(axis, high)())
        return float(ratio) ** (1 / (high - low)) if ratio > 0 else None

    def __repr__(self) -> str:
        text = ""
        for key, value in self._terms.items():
            sign = (" − " if text else "−") if value < 0 else " + " if text else ""
            text += sign + _term(value if value > 0 else -value, key)
        return text or "0"


@lru_cache(maxsize=4096)
def _place(key: Monomial) -> tuple:
    total = sum(power for _, power in key)
    return (total, [(_ORDER.get(_source(axis), 9), axis, power) for axis, power in key])


@lru_cache(maxsize=65536)
def _join(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for axis, power in right:
        powers[axis] = 1 if axis[0] == "[" else powers.get(axis, 0) + power  # [T>C] is its own square
    return tuple(sorted(powers.items(), key=lambda pair: (_ORDER.get(_source(pair[0]), 9), pair[0])))


def _plain(value: Number) -> Number:
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def _source(axis: str) -> str:
    return axis[1:-1].split("/")[0].split(">")[0] if axis[0] in "⌈⌊[" else axis


def _step(axis: str) -> int:
    return int(axis[:-1].replace(">", "/").split("/")[1]) if axis[0] in "⌈⌊[" else 1


def _size(axis: str, sizes: Mapping[str, Number]) -> Number | None:
    size = sizes.get(_source(axis))
    if size is None or axis == _source(axis):
        return size
    if axis[0] == "[":
        return int(size > _step(axis))
    return size // _step(axis) if axis[0] == "⌊" else -(-size // _step(axis))


def _term(value: Number, key: Monomial) -> str:
    factors = [axis + (str(power).translate(_RAISED) if power > 1 else "") for axis, power in key]
    shown = f"{value:,}" if isinstance(value, int) else f"{value.numerator:,}/{value.denominator:,}"
    return "·".join(factors if factors and value == 1 else [shown, *factors])


def axis_poly(name: str) -> Poly:
    """The axis itself."""
    return Poly({((name, 1),): 1})


def chunks(name: str, size: int) -> Poly:
    """⌈name/size⌉, the number of chunks: an axis that reads its value from another."""
    return Poly({((f"⌈{name}/{size}⌉", 1),): 1}) if size > 1 else axis_poly(name)


def ragged(name: str, size: int) -> Poly:
    """1 where the last chunk is shorter than the others, else 0."""
    return chunks(name, size) - Poly({((f"⌊{name}/{size}⌋", 1),): 1}) if size > 1 else Poly({})


def beyond(name: str, size: int) -> Poly:
    """[name>size]: 1 where the axis is longer, else 0."""
    return Poly({((f"[{name}>{size}]", 1),): 1})


def as_poly(value: Poly | Number) -> Poly:
    """A number as the constant polynomial."""
    return value if isinstance(value, Poly) else Poly({(): value})


B, T, S = axis_poly("B"), axis_poly("T"), axis_poly("S")
