"""Numbers as a person writes them: three digits that count, and an interval's ends with the same places."""

from __future__ import annotations

from math import floor, isfinite, log10

from threefold.train.metrics import Interval

SMALLEST = 1e-4  # below it, a power of ten


def number(value: float) -> str:
    """Three digits that count, thousands grouped; a whole number as one."""
    size = abs(value)
    if not isfinite(value):
        return f"{value:g}"
    if value == floor(value):
        return f"{value:,.0f}"
    if size < SMALLEST:
        return f"{value:.1e}"
    return f"{value:,.{max(0, 2 - floor(log10(size)))}f}"


def signed(value: float) -> str:
    """A difference: as `number`, with its sign."""
    return ("+" if value > 0 else "") + number(value)


def ends(interval: Interval) -> tuple[str, str, str]:
    """Mean, low and high of a difference, to the places that three digits of the interval's width take."""
    width = interval.high - interval.low
    if width < SMALLEST:
        return signed(interval.mean), signed(interval.low), signed(interval.high)
    places = max(0, 2 - floor(log10(width)))
    return _placed(interval.mean, places), _placed(interval.low, places), _placed(interval.high, places)


def counted(count: int, what: str) -> str:
    """1 seed, 2 seeds."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _placed(value: float, places: int) -> str:
    return f"{value:+,.{places}f}" if round(value, places) else "0"
