"""Pictures as inline SVG: drawn here where they are grids, by matplotlib where they are curves."""

from __future__ import annotations

from collections.abc import Sequence

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
            parts.append(f'<path d="M{left + at} 24v{len(rows) * CELL}M{left} {24 + at}h{size}" stroke="#555" fill="none"/>')
        left += size + GAP
    width = left - GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2} {height + 26}" width="{width + 2}" role="img" '
        f'font-family="sans-serif" font-size="13">{"".join(parts)}</svg>'
    )


def _colour(value: float) -> str:
    fade = round(255 * (1 - abs(value) ** 0.5))
    return f"rgb(255,{fade},{fade})" if value > 0 else f"rgb({fade},{fade},255)" if value < 0 else "#fff"
