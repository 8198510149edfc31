"""Pictures as inline SVG: drawn here where they are grids, by matplotlib where they are curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threefold.errors import InputError

CELL = 12
GAP = 60


def grid(matrices: Sequence[tuple[str, list[list[float]]]], N: int) -> str:
    """Matrices side by side: blue below zero, red above, white for exactly 0, lines between the N x N blocks."""
    parts, left, height = [], 0, 0
    for title, rows in matrices:
        top = max(abs(value) for row in rows for value in row) or 1.0
        size = len(rows[0]) * CELL
        height = max(height, len(rows) * CELL)
        parts.append(f'<text x="{left}" y="14">{title}</text>')
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                place = f'x="{left + j * CELL}" y="{24 + i * CELL}" width="{CELL}" height="{CELL}"'
                parts.append(f'<rect {place} fill="{_colour(value / top)}"/>')
        for line in range(N + 1):
            at = line * size // N
            parts.append(
                f'<path d="M{left + at} 24v{len(rows) * CELL}M{left} {24 + at}h{size}" stroke="#555" fill="none"/>'
            )
        left += size + GAP
    width = left - GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2} {height + 26}" '
        f'role="img" style="max-width:44rem" '
        f'font-family="sans-serif" font-size="13">{"".join(parts)}</svg>'
    )


def _colour(value: float) -> str:
    fade = round(255 * (1 - abs(value) ** 0.5))
    return f"rgb(255,{fade},{fade})" if value > 0 else f"rgb({fade},{fade},255)" if value < 0 else "#fff"


@dataclass(frozen=True)
class Panel:
    """One set of axes: lines by name over a common x."""

    title: str
    x: list[float]
    lines: dict[str, list[float]]
    x_label: str = ""
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None


def curves(panels: Sequence[Panel]) -> str:
    """Panels side by side, as SVG with its text as text."""
    import io

    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InputError("pictures need matplotlib: pip install 'threefold[report]'.") from missing
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "threefold", "font.size": 9}):
        figure = Figure(figsize=(4.2 * len(panels), 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        for place, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), place)
            for name, y in panel.lines.items():
                axes.plot(panel.x, y, label=name, linewidth=1.3)
            axes.set_title(panel.title)
            axes.set_xlabel(panel.x_label)
            axes.set_xscale("log" if panel.log_x else "linear")
            axes.set_yscale("log" if panel.log_y else "linear")
            if panel.y_range:
                axes.set_ylim(*panel.y_range)
                axes.axhline(0, color="#888", linewidth=0.6)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]
