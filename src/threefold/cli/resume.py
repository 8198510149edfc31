"""threefold resume runs/sentiment"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from threefold.cli.ask import Shown
from threefold.cli.parse import parse


@dataclass
class Options:
    """Continue a run that was stopped or killed: same losses, same weights, to the bit.

    Example: threefold resume runs/sentiment
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    begin: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """The checkpoint to continue from, such as last-300; by default the newest."""
    progress: Shown = "auto"
    """How to tell of it."""
    processes: int | None = None
    """How many processes; by default as many as it was trained with."""


def run(argv: list[str]) -> int:
    """Open, check that the data is what it was, and continue."""
    options = parse(Options, argv, "resume")
    from threefold.cli.train import go, several
    from threefold.errors import require
    from threefold.recipes.saved import recipe_of
    from threefold.train.record import Run
    from threefold.train.world import joined, launched

    opened = Run.open(options.run)
    if opened.done:
        sys.stdout.write(f"{opened.folder} is done: {opened.done['reason']} at step {opened.done['step']}.\n")
        return 0
    recipe = recipe_of(opened)
    begin = options.begin or next(iter(opened.shelf.names("last")), None)
    require(
        not (begin or "").startswith("best-"),
        f"--from {begin}: it holds weights only; continue from {' or '.join(opened.shelf.names('last'))}.",
    )
    before = opened.shelf.load(begin).state["processes"] if begin else 1
    processes = options.processes or before
    if processes > 1 and not launched():
        words = ["--progress", options.progress, *(["--from", begin] if options.begin and begin else [])]
        return several(opened, processes, words)
    task = recipe.task()
    require(
        opened.assets in (None, task.assets()),
        f"the training data is no longer what {opened.folder} was trained on: its vocabulary or labels differ.",
    )
    with joined() as world:
        return go(opened, task, recipe.train, begin, options.progress, world)
