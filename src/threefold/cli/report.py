"""threefold report runs/demo -o page.html"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from threefold.cli.parse import parse


@dataclass
class Options:
    """One self-contained page about one or more runs.

    Example: threefold report runs/demo -o page.html

    Files laws.json, claims.json and speed.json beside the runs (as `threefold demo` writes them) are shown too.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders that hold some."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """Where the page is written."""
    title: str = "Threefold report"
    """The page's heading."""


def run(argv: list[str]) -> int:
    """Write the page and say where it is."""
    options = parse(Options, argv, "report")
    from threefold.errors import require
    from threefold.report.build import page
    from threefold.report.page import write

    require(bool(options.runs), "no run was given: name run folders, for example `threefold report runs/demo`.")
    path = write(page(options.runs, options.title), options.output)
    sys.stdout.write(f"{path}\n")
    return 0
