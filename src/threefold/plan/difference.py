"""Two plans side by side, weight by weight: why one model has more parameters than the other."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from threefold.cost import Plan
from threefold.plan.show import aligned


@dataclass(frozen=True)
class Line:
    """Weights of one kind: how many numbers they have in either model."""

    name: str
    one: int
    other: int

    @property
    def more(self) -> int:
        """What the second has more."""
        return self.other - self.one


def difference(one: Plan, other: Plan) -> list[Line]:
    """What is equal, as one line, then every kind of weight whose size differs."""
    left, right = _weights(one), _weights(other)
    every = [Line(name, left[name], right[name]) for name in {**left, **right}]
    same = sum(line.one for line in every if not line.more)
    changed = [line for line in every if line.more]
    return [*([Line("equal in both", same, same)] if same else []), *changed]


def _weights(plan: Plan) -> Counter[str]:
    """Numbers by kind of weight: the layers' numbers left out."""
    found: Counter[str] = Counter()
    for _, part in plan.walk():
        for name, size in part.weights:
            found[re.sub(r"\.\d+\.", " layers, ", name).replace(".", " ")] += size
    return found


def explained(one: Plan, other: Plan, names: tuple[str, str]) -> list[str]:
    """The table of differences, and their sum."""
    lines = difference(one, other)
    total = Line("in all", sum(line.one for line in lines), sum(line.other for line in lines))
    table = [("weights", *names, "difference")]
    table += [(line.name, _said(line.one), _said(line.other), _signed(line.more)) for line in [*lines, total]]
    return aligned(table, left=1)


def _said(amount: int) -> str:
    return f"{amount:,}" if amount else "–"


def _signed(amount: int) -> str:
    return f"{amount:+,}".replace("-", "−") if amount else "0"
