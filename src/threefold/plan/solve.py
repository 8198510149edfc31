"""Where one cost overtakes another, and the largest size that fits: exact, by halving intervals of whole numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from threefold.cost import Number
from threefold.errors import InputError

FURTHEST = 2**40
UNITS = {"": 1, **{f"{prefix}iB": 2 ** (10 * at) for at, prefix in enumerate("KMGTP", 1)}}
UNITS |= {f"{prefix}B": 10 ** (3 * at) for at, prefix in enumerate("kMGTP", 1)} | {"B": 1, "KB": 1000}

Law = Callable[[int], Number]


def largest(cost: Law, budget: int) -> int:
    """The largest size whose cost stays within the budget; 0 where even 1 does not. The cost must not fall."""
    if cost(1) > budget:
        return 0
    low, high = 1, 2
    while high < FURTHEST and cost(high) <= budget:
        low, high = high, 2 * high
    if high >= FURTHEST:
        return FURTHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def crossover(one: Law, other: Law) -> tuple[int, int] | None:
    """The last (T, sign) where the order of two laws changes: from T on, sign is that of one - other; None: nowhere.

    Costs in chunks may cross back and forth near the balance; the one that lasts is given.
    """
    last = _sign(one, other, FURTHEST)
    low = FURTHEST
    while low > 1 and _sign(one, other, low // 2) == last:
        low //= 2
    if low <= 1:
        return None
    low, high = low // 2, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _sign(one, other, middle) == last else (middle, high)
    return high, last


def _sign(one: Law, other: Law, at: int) -> int:
    a, b = one(at), other(at)
    return (a > b) - (a < b)


def size_in_bytes(text: str) -> int:
    """`24GiB`, `800MB` or a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    units = {name.lower(): value for name, value in UNITS.items()}
    if not found or found[2].lower() not in units:
        raise InputError(f"{text!r} is no amount of memory: write 24GiB, 800MB or a number of bytes.")
    return int(float(found[1]) * units[found[2].lower()])


def in_units(amount: float) -> str:
    """1,610,612,736 as 1.50 GiB."""
    for name in ("TiB", "GiB", "MiB", "KiB"):
        if amount >= UNITS[name]:
            return f"{amount / UNITS[name]:,.2f} {name}"
    return f"{int(amount):,} B"
