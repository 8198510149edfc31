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
    from threefold.train.hold import holding
    from threefold.train.record import Run
    from threefold.train.world import joined, launched

    opened = Run.open(options.run)
    if opened.done and not options.begin:
        sys.stdout.write(f"{opened.folder} is done: {opened.done['reason']} at step {opened.done['step']}.\n")
        return 0
    begin = options.begin or opened.newest
    require(
        not (begin or "").startswith("best-"),
        f"--from {begin}: it holds weights only; continue from {' or '.join(opened.shelf.names('last'))}.",
    )
    processes = options.processes or (opened.shelf.load(begin).state["processes"] if begin else 1)
    if processes > 1 and not launched():
        words = ["--progress", options.progress, *(["--from", options.begin] if options.begin else [])]
        return several(opened, processes, words)
    recipe = recipe_of(opened)
    task = recipe.task()
    with joined() as world, holding(opened.folder, world):
        require(
            opened.assets in (None, task.assets()),
            f"the training data is no longer what {opened.folder} was trained on: its vocabulary or labels differ.",
        )
        if opened.done and not options.begin:  # meanwhile
            return 0
        return go(opened, task, recipe.train, options.begin or opened.newest, options.progress, world)
