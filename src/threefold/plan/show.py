"""A plan as aligned lines: its tree with shares, how it grows, and its memory by purpose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from threefold.cost import Cost, Number, Plan, Poly, as_poly
from threefold.plan.memory import Memory
from threefold.plan.solve import in_units

Sizes = Mapping[str, int]
_RAISED = ("", "", "²", "³", "⁴")
HEADER = ("part", "signal", "parameters", "%", "forward FLOPs", "%", "in length", "saved bytes")


@dataclass(frozen=True)
class Row:
    """One line of the tree."""

    depth: int
    name: str
    part: Plan
    times: int = 1  # how many parts like it there are


def rows(plan: Plan, deepest: int = 9) -> list[Row]:
    """Parents first. Parts that are alike stand once, with how many there are."""
    return [Row(0, plan.name, plan), *_inside(plan, 1, deepest, 1)]


def _inside(plan: Plan, depth: int, deepest: int, times: int) -> list[Row]:
    found: list[Row] = []
    if depth > deepest:
        return found
    for _, alike in groupby(plan.parts, key=_likeness):
        parts = list(alike)
        first, count = parts[0], len(parts)
        name = first.name if count == 1 else f"{first.name} to {_number(parts[-1].name)}, each"
        row = Row(depth, name, first, times * count)
        found += [row, *_inside(first, depth + 1, deepest, row.times)]
    return found


def _number(name: str) -> str:
    return name.rsplit(" ", 1)[-1]


def _likeness(part: Plan) -> tuple[object, ...]:
    """What two layers that may stand for each other share."""
    total = part.total
    name = re.sub(r" \d+$", " n", part.name)
    return name, part.shape, total.params, total.forward, tuple(each.name for _, each in part.walk())[1:]


def tree(plan: Plan, sizes: Sizes, deepest: int = 9, *, lawful: bool = True) -> list[str]:
    """The table at these sizes. Where parts are alike, the amounts are of one and the shares of all.

    `lawful`: the FLOPs are laws, not counts at these sizes alone.
    """
    taken = plan.mapped(lambda poly: poly.settled(sizes))
    whole = taken.total
    table, notes = [HEADER], [""]
    for row in rows(taken, deepest):
        cost, part = row.part.total, row.part
        here = {name: getattr(cost, name).placed(sizes) for name in ("params", "forward", "saved")}
        table.append(
            (
                "  " * row.depth + row.name,
                times(tuple(as_poly(size).placed(sizes) for size in part.shape)),
                _amount(here["params"]),
                _share(here["params"] * row.times, whole.params.placed(sizes)),
                _amount(here["forward"]),
                _share(here["forward"] * row.times, whole.forward.placed(sizes)),
                _powers(cost.forward) if lawful else "?" if cost.forward != 0 else "",
                _amount(here["saved"]),
            )
        )
        notes.append(part.note)
    return [f"{line}  {note}".rstrip() for line, note in zip(aligned(table, left=2), notes, strict=True)]


def _powers(law: Poly) -> str:
    """Which powers of the lengths there are: `T + T²`."""
    kept = (tuple(pair for pair in key if pair[0] != "B") for key in law.smooth().terms)
    return " + ".join("·".join(axis + _RAISED[power] for axis, power in key) or "1" for key in dict.fromkeys(kept))


def times(shape: tuple[Poly | int, ...]) -> str:
    """32×2048×1024."""
    return "×".join(repr(size).replace(",", "") for size in shape)


def aligned(table: Sequence[tuple[str, ...]], left: int) -> list[str]:
    """Columns of one width each; the first `left` of them to the left."""
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]


def _amount(poly: Poly) -> str:
    return "–" if poly == 0 else f"{int(poly):,}"


def _share(poly: Poly, whole: Poly) -> str:
    return "" if whole == 0 or poly == 0 else f"{100 * float(int(poly) / int(whole)):.1f}"


def growth(cost: Cost, sizes: Sizes, axis: str = "T", lost: Sequence[str] = ()) -> list[str]:
    """The laws in the length, their exponents, and where the highest powers take over; what is `lost` has none."""
    others: dict[str, Number] = {name: size for name, size in sizes.items() if name != axis}
    said = []
    for name, key in (("forward FLOPs", "forward"), ("saved bytes", "saved"), ("state bytes", "state")):
        if key in lost:
            said.append(f"{name}: no polynomial was found")
            continue
        poly: Poly = getattr(cost, key)
        law = poly.settled(sizes).placed(others)
        if law == 0:
            continue
        text = f"{name}: {law!r}"
        if law.degree(axis):
            text += f"; exponent {law.exponent(axis, **{axis: sizes[axis]}):.2f} at {axis} = {sizes[axis]:,}"
        if (balance := law.balance(axis)) is not None:
            text += f"; {axis}{_RAISED[law.degree(axis)]} leads from {balance:,.0f}"
        said.append(text)
    return said


def memory(says: str, of: Memory, sizes: Sizes) -> list[str]:
    """One line a purpose, and the sum."""
    lines = [(f"{says}, in all", in_units(of(sizes)), f"{of(sizes):,} B")]
    for name, poly in of.parts.items():
        amount = int(poly.placed(sizes))
        lines.append((f"  {name}", in_units(amount), f"{amount:,} B"))
    temporary = int(of.temporary.placed(sizes)())
    lines.append(("  largest tensor made on the way", in_units(temporary), f"{temporary:,} B"))
    return aligned(lines, left=1)
