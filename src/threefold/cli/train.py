"""threefold train sentiment --model.mixer gru --data reviews.tsv"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.cli.ask import Shown, free_folder, options, parse_recipe, recipe_kind, recipes_told, shown
from threefold.cli.parse import ASK_FLAGS
from threefold.errors import InputError

if TYPE_CHECKING:
    from threefold.train.record import Run
    from threefold.train.settings import Train
    from threefold.train.task import Task

EXAMPLE = """usage: threefold train RECIPE [--data PATH] [--run FOLDER] [OPTIONS]

Train a recipe; everything about it is an option (`threefold train RECIPE --help`).

  --data PATH      your own data, of the recipe's kind; without it, data that comes along
  --run FOLDER     where to keep it all (default: runs/RECIPE, numbered)
  --progress HOW   auto, live, lines, json or none
  --processes N    train in N processes of this machine

recipes:
"""
OTHERS = (("run", Path | None, None), ("progress", Shown, "auto"), ("processes", int, 1))


def run(argv: list[str]) -> int:
    """Make the run's folder, then train in it."""
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(EXAMPLE + recipes_told() + "\nExample: threefold train sentiment --model.mixer gru\n")
        return 0
    kind = recipe_kind("sentiment" if argv[0] == ASK_FLAGS else argv[0])
    rest = argv if argv[0] == ASK_FLAGS else argv[1:]
    says = f"{kind.says}\n\nExample: threefold train {kind.name} --train.epochs 3"
    asked = parse_recipe(options(kind, *OTHERS, says=says), rest, f"train {kind.name}")
    from threefold.train.hold import holding
    from threefold.train.loop import DivergenceError
    from threefold.train.record import Run
    from threefold.train.world import joined, launched

    if not launched():
        task = None if asked.processes > 1 else asked.recipe.task()
        created = Run.create(asked.run or free_folder(kind.name), asked.recipe)
        if task is None:
            return several(created, asked.processes, ["--progress", asked.progress])
        with holding(created.folder):
            try:
                return go(created, task, asked.recipe.train, None, asked.progress)
            except DivergenceError:
                raise
            except InputError:
                created.forget()
                raise
    with joined() as world:
        made = Run.create(asked.run or free_folder(kind.name), asked.recipe).folder if world.first else None
        opened = Run.open(world.tell(made))
        with holding(opened.folder, world):
            return go(opened, asked.recipe.task(), asked.recipe.train, None, asked.progress, world)


def several(run: Run, processes: int, words: list[str]) -> int:
    """Start the processes; each continues the run."""
    from threefold.train.launch import launch

    return launch(run, processes, "threefold", ["resume", str(run.folder), *words])


def go(run: Run, task: Task[Any], train: Train, begin: str | None, how: Shown, world: Any = None) -> int:
    """Train until the end, or until a signal asks to stop; say how to continue."""
    from threefold.train.loop import fit
    from threefold.train.world import ALONE

    world = world or ALONE
    run.keep_data()
    progress = shown(how if world.first else "none")
    with _stoppable() as stop, closing(progress):
        outcome = fit(task, train, run, begin=begin, world=world, progress=progress, stop=stop)
    stopped = outcome["reason"] == "stopped"
    if not stopped:
        run.leave(world.rank)
    if world.first and how in ("auto", "live", "lines"):
        sys.stdout.write(f"continue with: threefold resume {run.folder}\n" if stopped else _told(run, outcome))
    return 130 if stopped else 0


def _told(run: Run, outcome: dict[str, Any]) -> str:
    test = ", ".join(f"{key} {value:.4g}" for key, value in outcome.get("test", {}).items())
    waited = f"{outcome['seconds']:.1f} s, {100 * outcome['idle']:.1f} % of it waiting for data"
    return f"{run.folder}: {waited}{'; test ' + test if test else ''}\n"


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM ask for a checkpoint and an end after the step in hand; a second one does not ask."""
    asked: list[int] = []
    ours = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ours}

    def ask(number: int, _: object) -> None:
        asked.append(number)
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
