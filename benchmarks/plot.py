"""docs/lengths.svg from results/lengths.json: time against length, log-log. Run: python benchmarks/plot.py"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

HERE = Path(__file__).parent
TARGET = HERE.parent / "docs" / "lengths.svg"
INK = "#7a7a7a"  # readable on white and on black alike
COLOURS = ("#d1495b", "#b8860b", "#2a9d8f", "#4c86c6")


def main() -> None:
    """Draw on nothing, so that the page's own background shows."""
    found = json.loads((HERE / "results" / "lengths.json").read_text(encoding="utf-8"))
    matplotlib.rcParams["svg.hashsalt"] = "threefold"  # the same numbers give the same file
    figure, axes = pyplot.subplots(figsize=(7.2, 4.2))
    names = list(dict.fromkeys(row["work"] for row in found["rows"]))
    for name, colour in zip(names, COLOURS, strict=True):
        points = [(row["T"], row["ms"]) for row in found["rows"] if row["work"] == name]
        axes.loglog(*zip(*points, strict=True), "o-", color=colour, linewidth=2, markersize=4, label=name)
    axes.legend(frameon=False, labelcolor="linecolor", loc="upper left", fontsize=9)  # at their ends the names collide
    axes.set_xlabel("tokens", color=INK)
    axes.set_ylabel("milliseconds, forward, 8 heads", color=INK)
    axes.tick_params(colors=INK, which="both")
    axes.grid(True, which="major", color=INK, alpha=0.25)
    for side, spine in axes.spines.items():
        spine.set_color(INK)
        spine.set_visible(side in ("left", "bottom"))
    figure.savefig(TARGET, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
