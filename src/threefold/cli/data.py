"""What data is here; fetch it, check it, make speech.

threefold data list
threefold data fetch tinyshakespeare
threefold data check my-recordings/
threefold data speak lines.txt my-voice/ --voice pt-br
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from threefold.cli.parse import parse
from threefold.errors import InputError, nearest, require


@dataclass(frozen=True)
class Listing:
    """What is embedded, what has been fetched, and what can be, with licences and sizes."""

    json: bool = False


@dataclass(frozen=True)
class Fetch:
    """Download data by name, verify its checksum, and say where it is."""

    name: Annotated[str, tyro.conf.Positional]


@dataclass(frozen=True)
class Check:
    """Say everything that is wrong with a file or folder, at once; exit 1 if there is anything.

    `text` and `label` name the columns of a table, or number them from 0.
    """

    path: Annotated[Path, tyro.conf.Positional]
    text: str | None = None
    label: str | None = None
    json: bool = False


@dataclass(frozen=True)
class Speak:
    """Let espeak-ng read a text file, line by line, into an LJSpeech-format folder."""

    lines: Annotated[Path, tyro.conf.Positional]
    folder: Annotated[Path, tyro.conf.Positional]
    voice: tuple[str, ...] = ("en-us",)
    rate: tuple[int, ...] = (160,)


ACTIONS = {"list": Listing, "fetch": Fetch, "check": Check, "speak": Speak}


def run(argv: list[str]) -> int:
    """One of `list`, `fetch`, `check`, `speak`."""
    if not argv or argv[0] in ("-h", "--help"):
        says = "\n".join(f"  {name:<7}{(kind.__doc__ or '').splitlines()[0]}" for name, kind in ACTIONS.items())
        sys.stdout.write(
            f"usage: threefold data ACTION ...\n\n{says}\n\n{(__doc__ or '').partition(chr(10))[2].strip(chr(10))}\n"
        )
        return 0
    name, *rest = argv
    if name not in ACTIONS:
        raise InputError(f"data has no action {name!r}{nearest(name, ACTIONS)} Known: {', '.join(ACTIONS)}.")
    match parse(ACTIONS[name], rest, f"data {name}"):
        case Listing() as asked:
            return _list(asked)
        case Fetch() as asked:
            return _fetch(asked)
        case Check() as asked:
            return _check(asked)
        case Speak() as asked:
            return _speak(asked)
    return 2


def _list(asked: Listing) -> int:
    from threefold.data.listing import entries

    rows = entries()
    if asked.json:
        sys.stdout.write(json.dumps([row.to_dict() for row in rows]) + "\n")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    for heading in ("data", "what", "size", "licence", "recipe", "here"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("size", "recipe"))
    for row in rows:
        table.add_row(row.name, row.says, row.size, row.licence, row.recipe, row.here)
    console = Console(file=sys.stdout)
    console.width = console.width if console.is_terminal else 160
    console.print(table)
    sys.stdout.write("`threefold data fetch NAME` downloads; `threefold data check PATH` judges your own.\n")
    return 0


def _fetch(asked: Fetch) -> int:
    from threefold.data.fetch import fetch, source

    path = fetch(source(asked.name), progress=sys.stderr.isatty())
    sys.stdout.write(f"{path}\n")
    return 0


def _check(asked: Check) -> int:
    from threefold.data.check import check
    from threefold.data.tables import Columns

    found = check(asked.path, Columns(asked.text, asked.label))
    if asked.json:
        problems = [{"where": p.where, "what": p.what} for p in found.problems]
        said = {"path": str(asked.path), "kind": found.kind, "holds": found.holds, "problems": problems}
        sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")
        return 1 if problems else 0
    sys.stdout.write(f"{asked.path}: {found.kind}{': ' if found.holds else ''}{found.holds}\n")
    for problem in found.problems:
        sys.stdout.write(f"  {problem}\n")
    if found.problems:
        sys.stdout.write(f"{len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}\n")
        return 1
    sys.stdout.write(f"nothing wrong; for example: threefold train {found.recipe} --data {asked.path}\n")
    return 0


def _speak(asked: Speak) -> int:
    from threefold.data.cache import make_once
    from threefold.data.espeak import speak
    from threefold.data.text import read_plain

    texts = [line.strip() for line in read_plain(asked.lines).splitlines() if line.strip()]
    require(not asked.folder.exists(), f"{asked.folder} exists already: give a new folder.")
    require(bool(asked.voice) and bool(asked.rate), "give at least one voice and one rate.")
    said = [
        (text, asked.voice[at % len(asked.voice)], asked.rate[at // len(asked.voice) % len(asked.rate)], 50)
        for at, text in enumerate(texts)
    ]
    make_once(asked.folder.resolve(), lambda draft: speak(draft, said))
    sys.stdout.write(f"{asked.folder}: {len(said)} utterances\n")
    return 0
