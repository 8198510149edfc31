"""Pictures that need no run: positions, the Taylor kernel beside exp, and when attention copies."""

from __future__ import annotations

from threefold.report.figures import Panel, Section


def section() -> Section:
    """Three live panels, each a formula of the library."""
    return Section(
        "concepts",
        "What the mixers do",
        "Formulas to try. Each panel computes the same expression as the library.",
        (
            Panel(
                "Position encodings",
                "Sinusoidal codes are added; rotary turns queries and keys; ALiBi is added to scores.",
                "positions",
                {},
            ),
            Panel(
                "Taylor kernel beside exp",
                "Attention weights before normalising. An even degree is positive everywhere; an odd one is not.",
                "kernel",
                {},
            ),
            Panel(
                "Copying attention",
                "Four orthogonal vectors a, b, c, d of norm β; tokens d+b, a, c+d attend to each other.",
                "copying",
                {},
            ),
        ),
    )
