"""threefold claims C5"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from threefold.cli.parse import parse
from threefold.errors import InputError, nearest, require

if TYPE_CHECKING:
    from threefold.claims.claim import Claim
    from threefold.claims.judge import Judged

Flag = tyro.conf.FlagCreatePairsOff[bool]
COLOURS = {"true": "green", "false": "red", "true under a condition": "yellow", "undecided": "magenta"}


@dataclass
class Options:
    """The source documents' statements, each adjudicated by code that runs now; or your own.

    Examples: threefold claims C5 · threefold claims --source 003 --verdict false · threefold claims my_claims.py

    Exit 0 when every verdict is as recorded, 1 naming those that moved, 2 wrong use.
    """

    which: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Ids (000-1.4-dpc, C5) to show in detail, or a Python file of your own claims."""
    source: str = ""
    """Only statements of this document: 000 to 004."""
    subject: str = ""
    """Only this subject: lstm, counting, attention, positions, ..."""
    verdict: str = ""
    """Only statements with this verdict: true, false, condition, undecided, not-run, definition, blank."""
    runs: Path = Path("runs")
    """Where run records lie, for statements that only runs decide."""
    json: Flag = False
    """For another program."""
    html: Path | None = None
    """Write one page with formulas, numbers and pictures."""


def run(argv: list[str]) -> int:
    """Choose, judge, show."""
    options = parse(Options, argv, "claims")
    from threefold.claims.judge import judge, tally

    chosen, own = _chosen(options)
    wanted = _verdict(options.verdict)
    with _Progress(len(chosen), quiet=options.json) as heard:
        every = judge(chosen, options.runs, heard)
    judged = [each for each in every if wanted in ("", each.verdict.outcome.value)]
    if options.html is not None:
        from threefold.claims.page import write

        write(options.html, judged)
    if options.json:
        sys.stdout.write(json.dumps([each.to_dict() for each in judged], ensure_ascii=False, indent=1) + "\n")
    elif options.html is not None:
        sys.stdout.write(f"{options.html}\n")
    elif own or options.which:
        _details(judged, own)
    else:
        _table(judged)
    moved = [each for each in judged if each.moved]
    if not options.json:
        sys.stdout.write(_ending(tally(judged), moved, own))
    return 1 if moved else 0


def _chosen(options: Options) -> tuple[list[Claim], bool]:
    """The claims that were asked for, and whether they are the user's own."""
    files = [word for word in options.which if word.endswith(".py")]
    if files:
        from threefold.claims.judge import from_file

        require(len(files) == len(options.which), "give ids or files, not both.")
        return [claim for name in files for claim in from_file(Path(name))], True
    from threefold.claims import CLAIMS, SUBJECTS, find

    if options.subject and options.subject not in SUBJECTS:
        raise InputError(
            f"no subject {options.subject!r}{nearest(options.subject, SUBJECTS)} Known: {', '.join(SUBJECTS)}."
        )
    sources = sorted({source for claim in CLAIMS for source in claim.sources if source.isdigit()})
    require(
        not options.source or options.source in sources,
        f"no source {options.source!r}: give one of {', '.join(sources)}.",
    )
    claims = [find(id) for id in options.which] if options.which else list(CLAIMS)
    return [
        claim
        for claim in claims
        if (not options.source or options.source in claim.sources) and options.subject in ("", claim.subject)
    ], False


def _verdict(word: str) -> str:
    """The verdict that a word means."""
    from threefold.claims.claim import Outcome

    known = {outcome.name.lower().replace("_", "-"): outcome.value for outcome in Outcome}
    known |= {"condition": Outcome.CONDITIONAL.value, "": ""}
    if word.lower() not in known:
        raise InputError(
            f"no verdict {word!r}{nearest(word.lower(), known)} Known: {', '.join(sorted(filter(None, known)))}."
        )
    return known[word.lower()]


class _Progress:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self.total, self.quiet = total, quiet or not sys.stderr.isatty()

    def __enter__(self) -> Callable[[Judged], object]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.bar = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            disable=self.quiet,
        )
        self.bar.start()
        task = self.bar.add_task("", total=self.total)
        return lambda judged: self.bar.update(task, advance=1, description=judged.claim.id)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()


def _table(judged: Sequence[Judged]) -> None:
    """By subject: id, statement, verdict, one number."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from threefold.claims import SUBJECTS
    from threefold.claims.judge import plain

    console = Console(file=sys.stdout, highlight=False)
    for subject, (title, _) in SUBJECTS.items():
        rows = [each for each in judged if each.claim.subject == subject]
        if not rows:
            continue
        table = Table(
            title=title, title_justify="left", title_style="bold", expand=True, padding=(0, 1, 0, 0), box=None
        )
        table.add_column("id", min_width=max(len(each.claim.id) for each in rows), no_wrap=True)  # to be typed again
        table.add_column("statement", ratio=8)
        table.add_column("verdict", ratio=3)
        table.add_column("number", ratio=7)
        for each in rows:
            outcome = each.verdict.outcome.value
            mark = " (moved)" if each.moved else ""
            verdict = Text(outcome + mark, style="reverse" if mark else COLOURS.get(outcome, "dim"))
            table.add_row(each.claim.id, Text(plain(each.claim.says)), verdict, Text(each.headline))
        console.print(table)
        console.print()


def _details(judged: Sequence[Judged], own: bool) -> None:
    from threefold.claims.judge import in_words

    for each in judged:
        sys.stdout.write("\n".join(in_words(each, own=own)) + "\n\n")


def _ending(told: str, moved: Sequence[Judged], own: bool) -> str:
    """The tally, and what moved."""
    if not moved:
        return f"{told}.\n" if own else f"{told}; all as recorded.\n"
    lines = [
        f"  {m.claim.id}: recorded {m.claim.recorded.value}, found {m.verdict.outcome.value}"
        for m in moved
        if m.claim.recorded
    ]
    return "\n".join([f"{told}; {len(moved)} moved:", *lines]) + "\n"
