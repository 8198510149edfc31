"""threefold export runs/sentiment out"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from threefold.cli.parse import parse


@dataclass
class Options:
    """A trained run as a folder that loads with one line of Python, and as graphs where its ops allow it.

    Example: threefold export runs/sentiment out

    In Python: `threefold.load("out").predict(["a fine film"])`.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    out: Annotated[Path, tyro.conf.Positional]
    """The folder to write; it must not exist."""
    json: bool = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Write the folder; one line for each form and format."""
    options = parse(Options, argv, "export")
    from threefold.recipes.export import export
    from threefold.recipes.saved import reopen

    found = export(reopen(options.run), options.out)
    if options.json:
        sys.stdout.write(json.dumps([asdict(made) for made in found]) + "\n")
        return 0
    sys.stdout.write(f'{options.out}: threefold.load("{options.out}")\n')
    for made in found:
        told = f"{made.file}  (error {made.error:.1e})" if made.file else f"not as {made.format}: {made.reason}"
        sys.stdout.write(f"  {made.form:<7}{told}\n")
    return 0
