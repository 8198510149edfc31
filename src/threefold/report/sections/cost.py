"""Cost against length, live: the planned polynomials travel with the page, so its curves are the plan's own numbers."""

from __future__ import annotations

from typing import Any

from threefold.cost import Most, Poly
from threefold.report.figures import Panel, Section
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.features import Elu1, Taylor
from threefold.specs.recurrent import GRU, LSTM

WIDTHS = (64, 128, 256, 512, 1024)
DEGREES = (1, 2, 3, 4)
HEAD = 16  # key entries of a Taylor head: its features are C(16 + degree, degree)
MEASURES = {
    "FLOPs of a forward pass": "forward",
    "FLOPs, forward and backward": "both",
    "bytes saved for the backward pass": "saved",
    "bytes of state or cache": "state",
}


def section() -> Section:
    """Sliders over T, B, D, degree: forward FLOPs, training FLOPs, saved bytes and state of six mixers."""
    return Section(
        "cost",
        "Cost against length",
        "Planned before anything is built, exact to the unit; the accounting law holds it against what is counted.",
        (
            Panel(
                "Which mixer is cheaper, from which length", "Move the sliders; a curve is its plan.", "cost", panel()
            ),
        ),
    )


def panel() -> dict[str, Any]:
    """Every mixer's polynomials for every width and degree of the sliders."""
    models = [_model(name, spec, width, degree) for width in WIDTHS for name, spec, degree in _mixers(width)]
    return {
        "models": models,
        "widths": list(WIDTHS),
        "degrees": list(DEGREES),
        "measures": list(MEASURES),
        "start": {"width": 256, "degree": 2},
    }


def _mixers(width: int) -> list[tuple[str, MixerSpec, int | None]]:
    heads = max(1, width // 64)
    fixed: list[tuple[str, MixerSpec, int | None]] = [
        ("softmax", Softmax(heads=heads), None),
        ("LSTM", LSTM(), None),
        ("GRU", GRU(), None),
        ("linear, elu+1", Linear(heads=heads, features=Elu1()), None),
    ]
    taylor = [
        (f"Taylor {k}", Linear(heads=heads, key_dim=HEAD, features=Taylor(k, odd=k % 2 == 1)), k) for k in DEGREES
    ]
    return fixed + taylor


def _model(name: str, spec: MixerSpec, width: int, degree: int | None) -> dict[str, Any]:
    total = spec.plan(width).total
    costs = {
        "forward": total.forward,
        "both": total.forward + total.backward,
        "saved": total.saved,
        "state": total.state,
    }
    return {
        "name": name,
        "width": width,
        "degree": degree,
        "reference": isinstance(spec, Softmax),
        "costs": {says: terms(costs[key]) for says, key in MEASURES.items()},
    }


def terms(poly: Poly | Most) -> list[list[Any]]:
    """A polynomial for the page: [[coefficient, {axis: power}], ...]; a count of chunks stays an axis of its own."""
    assert isinstance(poly, Poly), "only a polynomial can be drawn"
    return [[float(value) if value != int(value) else int(value), dict(key)] for key, value in poly.terms.items()]
