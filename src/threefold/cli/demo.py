"""threefold demo"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from threefold.cli.parse import parse


@dataclass
class Options:
    """Train, judge, plan and report on embedded data, in about three minutes on two cores.

    Example: threefold demo

    Interrupted, the same command continues.
    """

    run: Path = Path("runs") / "demo"
    """Where everything is kept."""


def run(argv: list[str]) -> int:
    """Do the jobs with one bar, write the page, say what was found."""
    options = parse(Options, argv, "demo")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from threefold import demo
    from threefold.report.build import page
    from threefold.report.page import write

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("two jobs at a time; the first takes the longest", total=None)

        def heard(says: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"done: {says}" if says else "starting")
            if says and not console.is_terminal:
                console.print(f"{done}/{total} {says}")

        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped in any way, what runs stops too
        try:
            demo.run(options.run, heard)
        finally:
            signal.signal(signal.SIGTERM, before)
    found = tuple(demo.lines(options.run))
    path = write(page([options.run], "Threefold: a demonstration", found), options.run / "index.html")
    after = f"next: open {path}, then try `threefold explore` or `threefold --help`."
    sys.stdout.write("\n".join([*found, after]) + "\n")
    return 0
