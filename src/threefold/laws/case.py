"""A case: the few numbers from which a law draws everything it feeds to its subject. Numbers shrink; tensors do not."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from threefold.errors import InputError, nearest


@dataclass(frozen=True)
class Case:
    """`at` is the one position that a law disturbs and `feature` the one feature of it; None means each in turn."""

    T: int = 1
    B: int = 2
    seed: int = 0
    scale: float = 1.0
    at: int | None = None
    feature: int | None = None
    n: int | None = None  # how many of what the law adds: pads, cuts, neighbours
    how: str = ""  # which variant of the law: a form, a side, a precision

    def __str__(self) -> str:
        """`T=2,B=1,at=1`: what `parse` reads back; numbers at their defaults are left out."""
        shown = [("T", self.T), ("B", self.B)]
        shown += [(f.name, getattr(self, f.name)) for f in fields(self)[2:] if getattr(self, f.name) != f.default]
        return ",".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in shown)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The case that `str` wrote."""
        kinds = {f.name: f.type for f in fields(cls)}
        values: dict[str, Any] = {}
        for part in text.split(","):
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in kinds or not value:
                raise InputError(
                    f"--case {text!r}: cannot read {part!r}{nearest(name, kinds) or '.'} Write T=2,B=1,at=1."
                )
            try:
                values[name] = value if name == "how" else float(value) if name == "scale" else int(value)
            except ValueError:
                raise InputError(f"--case {text!r}: {value!r} is not a number. Write T=2,B=1,at=1.") from None
        return cls(**values)


def lengths(blocks: tuple[int, ...]) -> tuple[int, ...]:
    """1, 2, 3, and around every block size C: C-1, C, C+1, 2C+1; always past 256, the largest block in common use."""
    around = {T for C in blocks for T in (C - 1, C, C + 1, 2 * C + 1)}
    return tuple(sorted({1, 2, 3, 257, *(T for T in around if 1 <= T <= 520)}))
