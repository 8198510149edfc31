"""threefold bench recurrent"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from threefold.cli.parse import parse
from threefold.errors import require

if TYPE_CHECKING:
    from threefold.bench.race import Row

Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclass
class Options:
    """Time the mixers on this machine beside what torch offers: attention, recurrent, step, memory, or all of them.

    Example: threefold bench recurrent --repeats 15

    Numbers mean something on a quiet machine only; ratios hold better than times. Exit 0 when every promise is kept, 1
    naming those that are not, 2 for a wrong use or a mixer that breaks its laws.
    """

    which: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Suites: attention, recurrent, step, memory. None: all."""
    repeats: int = 7
    """Turns at least; more while a work's time is not used up."""
    seconds: float = 0.7
    """Time for each work, where it is short enough for more turns."""
    into: Path | None = None
    """Write targets.json into this folder."""
    json: Flag = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Race, show, keep."""
    options = parse(Options, argv, "bench")
    require(options.repeats >= 1, f"--repeats {options.repeats}: give at least 1.")
    from threefold.bench import suites

    chosen = options.which or suites.SUITES
    every = suites.races(tuple(chosen))
    rows: list[Row] = []
    with _heard(quiet=options.json) as heard:
        for row in suites.raced(every, options.repeats, options.seconds, heard):
            rows.append(row)
            if not options.json:
                _show(row, first=len(rows) == 1)
    kept = [row.to_dict() for row in rows]
    if options.into is not None:
        suites.write(options.into / "targets.json", kept)
    found = suites.where()
    if options.json:
        sys.stdout.write(json.dumps({"where": found, "rows": kept}, indent=1) + "\n")
    else:
        sys.stdout.write(f"\n{suites.in_words(found)}\n{_ending(rows)}")
    return int(any(row.met is False for row in rows))


@contextmanager
def _heard(*, quiet: bool) -> Iterator[Callable[[str], object]]:
    """What is being timed, on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield str
        return
    with console.status("") as status:
        yield lambda words: status.update(words)


def _show(row: Row, *, first: bool) -> None:
    """One line as it comes: a terminal's width is not ours to know, so columns are fixed."""
    from threefold.bench.race import number

    if first:
        sys.stdout.write(f"{'ours':>10} {'theirs':>10} {'':<8}{'ratio':>8}  promised\n")
    mark = {True: "kept", False: "NOT kept", None: ""}[row.met]
    sys.stdout.write(
        f"{number(row.ours):>10} {number(row.theirs):>10} {row.unit:<8}{number(row.ratio) + 'x':>8}  "
        f"{row.promise:<16}{mark:<9} {row.race.work} against {row.race.against}\n"
    )
    sys.stdout.flush()


def _ending(rows: list[Row]) -> str:
    promised = [row for row in rows if row.met is not None]
    missed = [row for row in promised if not row.met]
    return f"{len(promised) - len(missed)} of {len(promised)} promises kept.\n" if promised else ""
