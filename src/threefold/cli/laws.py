"""threefold laws"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from threefold.cli.parse import json_object, parse
from threefold.errors import InputError, nearest, require
from threefold.laws import IDS

if TYPE_CHECKING:
    from threefold.laws.law import Verdict

STYLES = {"lawful": "green", "broken": "red", "does not apply": "dim", "cannot be run": "yellow"}
Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclass
class Options:
    """Judge a sequence layer: a module, a class, a factory or a function of a (batch, time, width) tensor.

    Example: threefold laws my_layers.py:Attention --with '{"d_model": 64}' --causal

    Exit 0 lawful, 1 broken, 2 wrong use. Also: threefold laws --all; threefold laws template lstm; threefold laws
    gradient my_lstm.py:backward --like lstm.
    """

    target: Annotated[str, tyro.conf.Positional] = ""
    """path/to/file.py:Layer or package.module:Layer."""
    law: tuple[str, ...] = ()
    """Only these laws."""
    all: Flag = False
    """Judge every mixer of the catalogue."""
    options: Annotated[str, tyro.conf.arg(name="with", metavar="JSON")] = "{}"
    """The constructor's arguments, as a JSON object."""
    causal: Flag = False
    """It is meant to be causal."""
    not_causal: Flag = False
    """It is meant to see the future."""
    permutes: Flag = False
    """Outputs are meant to follow a reordering of the tokens."""
    not_permutes: Flag = False
    """Order is meant to matter."""
    relative: Flag = False
    """Its positions are meant to be relative."""
    bounded: Flag = False
    """Its state is meant not to grow."""
    growth: int | None = None
    """The degree in T that its FLOPs are meant to have."""
    width: int | None = None
    """Width of its input, where it cannot be read off."""
    ids: int | None = None
    """It takes token ids below this number."""
    case: str = ""
    """Replay one case, as a failure printed it."""
    json: Flag = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Judge, or grade a derivation."""
    if argv[:1] in (["gradient"], ["template"]):
        from threefold.cli.grade import run as grade

        return grade(argv)
    options = parse(Options, argv, "laws")
    names = _names(options.law)
    if options.all:
        require(not options.target, "--all judges the catalogue: give it no target.")
        return _all(names, options.json)
    require(bool(options.target), "give a layer, as path/to/file.py:Layer, or --all for every mixer of the catalogue.")
    return _one(options, names, argv)


def _names(asked: tuple[str, ...]) -> tuple[str, ...]:
    for name in asked:
        if name not in IDS:
            raise InputError(f"there is no law {name!r}{nearest(name, IDS) or '.'} The laws are {', '.join(IDS)}.")
    return tuple(name for name in IDS if name in asked) if asked else IDS


def _either(yes: bool, no: bool, word: str) -> bool | None:
    require(not (yes and no), f"--{word} and --not-{word} contradict each other.")
    return True if yes else False if no else None


def _one(options: Options, names: tuple[str, ...], argv: list[str]) -> int:
    from threefold.laws.all import LAWS
    from threefold.laws.case import Case
    from threefold.laws.describe import as_dict, lines, summary
    from threefold.laws.law import judging
    from threefold.laws.settings import allowances
    from threefold.laws.subject import Claims
    from threefold.laws.target import load, subject_of

    claims = Claims(
        causal=_either(options.causal, options.not_causal, "causal"),
        permutes=_either(options.permutes, options.not_permutes, "permutes"),
        relative=options.relative or None,
        bounded=options.bounded or None,
        growth=options.growth,
    )
    case = Case.parse(options.case) if options.case else None
    subject = subject_of(
        load(options.target),
        options.target.rpartition(":")[2],
        options=json_object(options.options),
        claims=claims,
        width=options.width,
        vocabulary=options.ids,
    )
    show = _printer(options.json)
    for note in subject.notes:
        show(f"{subject.name}: {note}", "")
    laws, found = tuple(law for law in LAWS if law.name in names), []
    for law, verdict in zip(laws, judging(subject, laws, case=case, allow=allowances(Path.cwd())), strict=True):
        found.append(verdict)
        for line in lines(verdict, law.says, _replay(argv, verdict)):
            show(line, STYLES[verdict.status.value])
    show(f"{subject.name}: {summary(tuple(found))}", "bold")
    if options.json:
        data = {
            "subject": subject.name,
            "notes": subject.notes,
            "verdicts": [as_dict(v, _replay(argv, v)) for v in found],
        }
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    return int(any(verdict.broken for verdict in found))


def _replay(argv: list[str], verdict: Verdict) -> str:
    """The same command for this law and its smallest case."""
    kept, skipping = [], False
    for word in argv:
        skipping = word in ("--law", "--case") or (skipping and not word.startswith("--"))
        if not skipping and word != "--json" and not word.startswith(("--law=", "--case=")):
            kept.append(word)
    case = [] if verdict.where is None else ["--case", str(verdict.where.case)]
    return shlex.join(["threefold", "laws", *kept, "--law", verdict.law, *case])


def _printer(silent: bool) -> Any:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    return (lambda *_: None) if silent else (lambda line, style: console.print(Text(line, style)))


def _all(names: tuple[str, ...], as_json: bool) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from threefold.laws.catalogue import judge_catalogue
    from threefold.laws.describe import as_dict
    from threefold.mixers.catalog import CATALOG

    found: dict[int, tuple[Verdict, ...]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=as_json) as bar:
        task = bar.add_task("judging", total=len(CATALOG))
        for index, verdicts in judge_catalogue(names):
            found[index] = verdicts
            bar.update(task, advance=1, description=f"{verdicts[0].subject[:36]:<36}" if verdicts else "")
    rows = [found[index] for index in sorted(found)]
    if as_json:
        data = [[as_dict(v, f"threefold laws --all --law {v.law}") for v in row] for row in rows]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    else:
        _table(rows)
    return int(any(verdict.broken for row in rows for verdict in row))


def _table(rows: list[tuple[Verdict, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from threefold.laws.all import LAWS
    from threefold.laws.describe import MARKS, legend, lines, summary

    console = Console(soft_wrap=True)
    says = {law.name: law.says for law in LAWS}
    table = Table(box=None, pad_edge=False)
    table.add_column("mixer", no_wrap=True)
    for verdict in rows[0]:
        table.add_column(str(IDS.index(verdict.law) + 1), justify="center", min_width=2)
    for row in rows:
        table.add_row(row[0].subject, *(Text(MARKS[v.status], STYLES[v.status.value]) for v in row))
    console.print(table)
    console.print(legend(), highlight=False)
    for verdict in (v for row in rows for v in row if v.broken):
        console.print(Text(verdict.subject, "bold"))
        for line in lines(verdict, says[verdict.law], f"threefold laws --all --law {verdict.law}"):
            console.print(Text(line, "red"))
    console.print(f"{len(rows)} mixers: {summary(tuple(v for row in rows for v in row))}", highlight=False)
