"""threefold laws gradient, threefold laws template"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from threefold.cli.parse import parse
from threefold.errors import InputError, require

if TYPE_CHECKING:
    from threefold.laws.derivation import Grade, Report

STYLES = {"right": "green", "follows": "yellow", "missing": "dim", "wrong": "red", "wrong shape": "red"}
SIGNS = {"right": "✓", "follows": "~", "missing": "?", "wrong": "✗", "wrong shape": "✗"}
WIDTH = 110
Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclass
class Options:
    """Grade a backward that somebody wrote by hand, signal by signal.

    Example: threefold laws gradient my_lstm.py:backward --like lstm

    The function takes the named signals of a forward pass and returns a dict of named gradients. `threefold laws
    template lstm` writes the file to start from. Exit 0 when nothing is wrong and nothing owed is missing, else 1.
    """

    target: Annotated[str, tyro.conf.Positional]
    """path/to/file.py:function."""
    like: str
    """The cell: rnn, lstm, gru-before or gru-after."""
    json: Flag = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Grade, or write the template."""
    if argv[0] == "template":
        return _template(argv[1:])
    options = parse(Options, argv[1:], "laws gradient")
    from threefold.laws.derivation import cell_of, grade
    from threefold.laws.target import load

    cell_of(options.like)
    backward = load(options.target)
    require(callable(backward), f"{options.target} is no function: give one that takes the signals and returns a dict.")
    report = grade(backward, options.like)
    if options.json:
        data = asdict(report) | {"right": report.right}
        data["grades"] = [asdict(g) | {"mark": g.mark.value} for g in report.grades]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    else:
        _show(report)
    return int(not report.right)


def _template(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0].startswith("-"):
        raise InputError("write `threefold laws template lstm` (or rnn, gru-before, gru-after), and `> my_lstm.py`.")
    from threefold.laws.template import template

    sys.stdout.write(template(argv[0]))
    return 0


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style))

    if report.raised:
        say(f"the backward raised {report.raised}", "red")
        if any(grade.mark.value != "missing" for grade in report.grades):
            say(f"judged where it runs: {report.sizes}", "red")
    for grade in report.grades:
        for line in lines(grade):
            say(line, STYLES[grade.mark.value])
    for name in report.unknown:
        say(f"? {name:<11}is no signal of this cell: `threefold laws template {report.like}` lists them", "dim")
    counts = {mark: sum(g.mark.value == mark for g in report.grades) for mark in STYLES}
    owed = ", ".join(g.name for g in report.grades if g.needed and g.mark.value == "missing")
    say(", ".join(f"{mark}: {count}" for mark, count in counts.items() if count), "bold")
    if owed:
        say(f"owed and missing: {owed}", "bold")


def lines(grade: Grade) -> list[str]:
    """One signal as a person reads it."""
    mark = grade.mark.value
    head = f"{SIGNS[mark]} {grade.name:<11}{mark:<13}"
    if mark == "missing":
        return [f"{head}{'owed' if grade.needed else 'a step on the way'}"]
    if mark == "follows":
        return [f"{head}{grade.remark}"]
    if mark == "right":
        return [head.rstrip()]
    if mark == "wrong":
        head += f"off by {grade.error:.3g} of its largest entry"
    found = [f"{head}{'; ' if mark == 'wrong' and grade.remark else ''}{grade.remark}"]
    if (least := grade.smallest) is None:
        return found
    if mark == "wrong shape":
        return [*found, f"    smallest case  {least.sizes}: {least.place}"]
    found += [
        f"    smallest case  {least.sizes}",
        f"    where          {least.place}: expected {least.expected:.6g}, got {least.got:.6g}",
    ]
    row = ""
    for name, value in least.around:
        word = f"{name} {value:.4g}"
        if len(row) + len(word) > WIDTH - 17:
            found.append(f"    {'there':<13}  {row}")
            row = ""
        row += f"{', ' if row else ''}{word}"
    return [*found, *([f"    {'there':<13}  {row}"] if row else [])]
