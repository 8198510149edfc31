"""threefold predict runs/sentiment "a fine film" """

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from threefold.cli.parse import parse


@dataclass
class Options:
    """Apply a run to inputs: sentences, image files, sound files, beginnings of a text.

    Example: threefold predict runs/sentiment "a fine film" "not my day"
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    inputs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """What to apply it to; - reads one input a line from the standard input."""
    checkpoint: str | None = None
    """Such as best-300; by default the best by validation."""
    json: bool = False
    """One object a line."""


def run(argv: list[str]) -> int:
    """One line for each input."""
    options = parse(Options, argv, "predict")
    from threefold.errors import require
    from threefold.recipes.saved import reopen

    inputs = [line for word in options.inputs for line in (_lines() if word == "-" else [word])]
    require(
        bool(inputs), "nothing to predict from: give sentences or files, or - to read them from the standard input."
    )
    for row in reopen(options.run, checkpoint=options.checkpoint).predict(inputs):
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n" if options.json else _told(row))
    return 0


def _lines() -> list[str]:
    return [line.rstrip("\n") for line in sys.stdin if line.strip()]


def _told(row: dict[str, Any]) -> str:
    """The answer, its probabilities from the largest down, and what was asked."""
    answer = str(row.get("text", row.get("label", row.get("value", ""))))
    chances = sorted(row.get("probabilities", {}).items(), key=lambda pair: -pair[1])[:3]
    told = "  ".join(f"{name} {chance:.3f}" for name, chance in chances)
    return "\t".join(part for part in (answer, told, row["input"]) if part) + "\n"
