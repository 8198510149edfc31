"""Limits that a user set in pyproject.toml, each with its reason."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.errors import nearest, require
from threefold.laws import IDS

if TYPE_CHECKING:
    from threefold.laws.law import Allowance


def allowances(start: Path) -> dict[str, Allowance]:
    """`[tool.threefold.laws.tolerance]` of the nearest pyproject.toml: `causal = { limit = 1e-9, because = "FFT" }`"""
    from threefold.laws.law import Allowance

    found: dict[str, Allowance] = {}
    for law, entry in _table(start).items():
        here = f"pyproject.toml, tool.threefold.laws.tolerance.{law}"
        require(law in IDS, f"{here}: there is no law {law!r}{nearest(law, IDS)}")
        sound = isinstance(entry, dict) and isinstance(entry.get("limit"), (int, float)) and bool(entry.get("because"))
        require(
            sound, f'{here}: write {{ limit = 1e-12, because = "the reason" }}; a limit without a reason is not taken.'
        )
        found[law] = Allowance(float(entry["limit"]), str(entry["because"]))
    return found


def _table(start: Path) -> dict[str, Any]:
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            return data.get("tool", {}).get("threefold", {}).get("laws", {}).get("tolerance", {})
    return {}
