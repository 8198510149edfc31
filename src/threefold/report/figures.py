"""Figures as data: what is drawn and the numbers behind it, drawn by the page itself and readable without it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Row = tuple[str | int | float | None, ...]


@dataclass(frozen=True)
class Series:
    """One line: points, and a band (low, high) where several runs were made."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A vertical line with a word at its foot: a crossover, a training length."""

    x: float
    says: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A titled picture with its numbers one click away. `says` is the sentence for those who cannot see it."""

    title: str
    says: str

    kind = "figure"

    def table(self) -> tuple[tuple[str, ...], list[Row]]:
        """Header and rows: every number that is drawn."""
        raise TypeError(f"{type(self).__name__} has no table.")

    def to_dict(self) -> dict[str, Any]:
        """What the page's drawing code reads."""
        return {"kind": self.kind} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """Curves over one axis."""

    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    marks: tuple[Mark, ...] = ()

    kind = "lines"

    def table(self) -> tuple[tuple[str, ...], list[Row]]:
        banded = any(s.low for s in self.series)
        header = ("series", self.x, self.y) + (("low", "high") if banded else ())
        rows: list[Row] = []
        for s in self.series:
            low, high = s.low or (None,) * len(s.y), s.high or (None,) * len(s.y)
            ends = zip(low, high, strict=True)
            rows += [(s.name, x, y, *(end if banded else ())) for x, y, end in zip(s.x, s.y, ends, strict=True)]
        return header, rows


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """One bar a name, with an interval where it is known, and groups by colour."""

    y: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    log_y: bool = False

    kind = "bars"

    def table(self) -> tuple[tuple[str, ...], list[Row]]:
        if not self.low:
            return ("name", self.y), list(zip(self.names, self.values, strict=True))
        return ("name", self.y, "low", "high"), list(zip(self.names, self.values, self.low, self.high, strict=True))


@dataclass(frozen=True, kw_only=True)
class Matrix(Figure):
    """A grid of numbers as shades: a confusion matrix, an alignment, a spectrogram, a position code."""

    rows: str
    columns: str
    values: tuple[tuple[float, ...], ...]
    row_names: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()
    printed: bool = False  # each cell shows its number
    signed: bool = False  # zero is the middle of the shades

    kind = "matrix"

    def table(self) -> tuple[tuple[str, ...], list[Row]]:
        columns = self.column_names or tuple(str(i) for i in range(len(self.values[0]) if self.values else 0))
        names = self.row_names or tuple(str(i) for i in range(len(self.values)))
        return (self.rows, *columns), [(name, *row) for name, row in zip(names, self.values, strict=True)]


@dataclass(frozen=True)
class Table:
    """Rows that are read, not drawn."""

    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    says: str = ""


@dataclass(frozen=True)
class Sound:
    """Speech: what was said, what was heard, and the sound itself (a wav as a data address)."""

    title: str
    reference: str
    hypothesis: str
    wav: bytes = b""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Contributions:
    """A text, each word with how much it spoke for (+) or against (-) the answer, in [-1, 1]."""

    title: str
    says: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Panel:
    """A live part: sliders that recompute a figure in the page, from exact data prepared here."""

    title: str
    says: str
    name: str  # which drawing routine of panels.js
    data: dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A part of the page under one heading."""

    slug: str
    title: str
    lead: str
    parts: tuple[Figure | Table | Sound | Contributions | Panel, ...] = ()
    sentences: tuple[str, ...] = ()
