"""threefold evaluate runs/sentiment --data reviews.tsv"""

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
    """Measure a run on its own test set, or on other data of the same kind.

    Example: threefold evaluate runs/sentiment --data reviews.tsv
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    data: Path | None = None
    """Other data; without it, the run's own."""
    split: str = "test"
    """train, valid or test."""
    checkpoint: str | None = None
    """Such as best-300; by default the best by validation."""
    json: bool = False
    """Everything that was measured, for another program."""


def run(argv: list[str]) -> int:
    """Measure and tell."""
    options = parse(Options, argv, "evaluate")
    from threefold.recipes.saved import reopen

    saved = reopen(options.run, data=options.data, checkpoint=options.checkpoint)
    found = saved.evaluate(options.split)
    if options.json:
        about = {"run": str(options.run), "checkpoint": saved.checkpoint, "split": options.split}
        sys.stdout.write(json.dumps(about | found, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{options.run} ({saved.checkpoint}) on {options.data or 'its own data'}, {options.split}\n")
        sys.stdout.write(_told(found))
    return 0


def _told(found: dict[str, Any]) -> str:
    """Numbers one a line; then the classes and the confusion matrix, where there are some."""
    from rich.console import Console
    from rich.table import Table

    numbers = {key: value for key, value in found.items() if isinstance(value, float)}
    text = "".join(f"  {key:<20} {value:.4f}\n" for key, value in numbers.items())
    if "per_class" not in found:
        return text
    names = found["names"]
    classes = Table("class", "precision", "recall", "F1", "support", *(f"said {name}" for name in names[:12]))
    for name, counts in zip(names, found["confusion"], strict=True):
        row = found["per_class"][name]
        shares = (f"{row[key]:.4f}" for key in ("precision", "recall", "f1"))
        classes.add_row(str(name), *shares, str(row["support"]), *map(str, counts[:12]))
    console = Console(width=max(100, Console().width), highlight=False)
    with console.capture() as shown:
        console.print(classes)
    return text + shown.get()
