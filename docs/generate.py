"""Fill the generated parts of README and docs from CATALOG, LAWS, RECIPES, COMMANDS and benchmark results.

A generated part stands between `<!-- generated: name -->` and `<!-- end -->`. Run: make docs
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.errors import InputError
from threefold.specs.base import Spec
from threefold.specs.words import say

if TYPE_CHECKING:
    from threefold.cli.main import Command
    from threefold.specs.base import MixerSpec
    from threefold.specs.positions import Position

REPOSITORY = Path(__file__).parents[1]
LAW_PAGES = REPOSITORY / "docs" / "laws"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def mixers() -> str:
    """Mixers by forms and positions: the specs' own traits, and which positions each may be written down with."""
    from threefold.mixers.catalog import CATALOG
    from threefold.specs.base import Form
    from threefold.specs.cross import Bidirectional
    from threefold.specs.positions import Alibi, Decay, Relative, Rotary, Shaw

    positions = (Rotary(), Decay(), Alibi(), Relative(), Shaw())
    rows: dict[str, list[str]] = {}
    for spec in CATALOG:
        features, traits = getattr(spec, "features", None), spec.traits
        name = type(spec).__name__ + (f"({type(features).__name__})" if features else "")
        name += f"({type(spec.mixer).__name__})" if isinstance(spec, Bidirectional) else ""
        name += ", both ways" if not traits.causal and not isinstance(spec, Bidirectional) else ""
        state = "–" if not traits.causal else "fixed" if traits.bounded_state else "grows with T"
        cells = [form in traits.forms for form in Form] + [_accepts(spec, position) for position in positions]
        rows.setdefault(name, [f"`{name}`", *("✓" if cell else "" for cell in cells), state])
    header = ["mixer", *(form.value for form in Form), *(type(each).__name__ for each in positions), "state"]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows.values()])


def _accepts(spec: MixerSpec, position: Position) -> bool:
    """Whether this pair may be written down."""
    try:
        return hasattr(spec, "position") and bool(replace(spec, position=position))  # type: ignore[call-arg]
    except InputError:
        return False


def laws() -> str:
    """One line a law, with its page."""
    from threefold.laws.all import LAWS
    from threefold.laws.describe import listing

    return listing(LAWS, "laws/")


def recipes() -> str:
    """One row a recipe."""
    from threefold.recipes import RECIPES

    return "\n".join(["| recipe | |", "|---|---|", *(f"| `{kind.name}` | {kind.says} |" for kind in RECIPES)])


def commands() -> str:
    """One row a command, with the example of its help."""
    from threefold.cli.main import COMMANDS

    rows = [f"| {c.group} | `threefold {c.name}` | {c.says} | {_example(c)} |" for c in COMMANDS]
    return "\n".join(["| to | command | | example |", "|---|---|---|---|", *rows])


def _example(command: Command) -> str:
    from threefold.cli.main import examples

    return "<br>".join(f"`{line}`".replace("|", "\\|") for line in examples(command))


def names() -> str:
    """One row a public name: how it is made, and the first line of what it says."""
    import threefold

    rows, bar = ["| name | |", "|---|---|"], "\\|"
    for name in threefold.__all__:
        thing = getattr(threefold, name)
        says = (inspect.getdoc(thing) or "").splitlines()[0] if callable(thing) else SAYS[name]
        rows.append(f"| `{_signature(name, thing)}` | {says.replace('|', bar)} |")
    return "\n".join(rows)


SAYS = {"CATALOG": "every mixer that the laws judge", "LAWS": "every law"}


def _signature(name: str, thing: Any) -> str:
    """A name with its parameters and their defaults, without annotations."""
    if not callable(thing) or (isinstance(thing, type) and issubclass(thing, Enum | Exception)):
        return name
    told = []
    for each in inspect.signature(thing).parameters.values():
        told.append(each.name if each.default is each.empty else f"{each.name}={_default(each.default)}")
    return f"{name}({', '.join(told)})"


def _default(value: Any) -> str:
    match value:
        case Enum():
            return repr(value.value)
        case Spec():
            return say(value)
    return repr(value)


def results() -> str:
    """The newest race's ratios, as they were measured."""
    found = _recorded("targets")
    if not found:
        return "The races have not been recorded on this machine yet: `make bench` runs them."
    keys = ("work", "against", "ours", "theirs", "ratio", "wanted")
    rows = [
        [*(str(row[key]) for key in keys[:-1]), row["wanted"] + ("" if row["met"] in (True, None) else ", **missed**")]
        for row in found["rows"]
    ]
    return _table(keys, rows, found["conditions"])


def lengths() -> str:
    """Milliseconds by length, as they were measured."""
    found = _recorded("lengths")
    if not found:
        return "Times by length have not been recorded yet: `python benchmarks/bench_lengths.py` records them."
    took = {(row["work"], row["T"]): row["ms"] for row in found["rows"]}
    works, sizes = (list(dict.fromkeys(key[at] for key in took)) for at in (0, 1))
    shown = sizes[::2]
    rows = [[work, *(_three(took[work, T]) if (work, T) in took else "–" for T in shown)] for work in works]
    return _table(("milliseconds, forward", *(f"T = {T:,}" for T in shown)), rows, found["conditions"])


def _three(number: float) -> str:
    """Three digits that say something, written out."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _recorded(name: str) -> dict[str, Any]:
    path = REPOSITORY / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _table(header: tuple[str, ...], rows: list[list[str]], below: str) -> str:
    lines = [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join([*lines, "", below])


def tasks() -> str:
    """What the recipes reached on real data, as it was measured."""
    found = _recorded("tasks")
    rows = []
    for task in found.values():
        for at, row in enumerate(task["rows"]):
            spread = f" ± {row['std']:.3f}" if len(row["seeds"]) > 1 else ""
            minutes = f"{row['processor_seconds'] / 60:.1f}"
            value = f"{row['mean']:.3f}{spread}"
            rows.append(
                [
                    "" if at else task["says"],
                    row["model"],
                    value,
                    str(len(row["seeds"])),
                    f"{row['parameters']:,}",
                    minutes,
                ]
            )
    header = ("task and measure", "model", "test", "seeds", "parameters", "minutes of one core")
    return _table(header, rows, "`python benchmarks/tasks.py all --data FOLDER` measures them again.")


def training() -> str:
    """What the training loop costs beside a plain one, as it was measured."""
    rows, workers = [], {"0": "in the training process", "1": "by a process of their own"}
    for name, found in _recorded("training").items():
        for count, made in workers.items():
            row = found["workers"][count]
            plain, ours = (f"{1000 * seconds:.0f} ms" for seconds in (found["plain_seconds"], row["seconds"]))
            rows.append([name, made, plain, ours, f"{row['ratio']:.2f}x", f"{100 * row['waited']:.1f} %"])
    header = ("recipe", "batches made", "a step of a plain loop", "ours", "ratio", "of it waiting for data")
    below = "`python benchmarks/bench_training.py all` measures them again, on both cores."
    return _table(header, rows, below)


PARTS = {made.__name__: made for made in (mixers, laws, recipes, commands, names, results, lengths, tasks, training)}


def filled(text: str, folder: Path) -> str:
    """The page with every part made anew. A part writes its links as from `docs`; the page stands in `folder`."""

    def made(found: re.Match[str]) -> str:
        part = PARTS[found[2]]().replace("](laws/", f"]({Path(os.path.relpath(LAW_PAGES, folder)).as_posix()}/")
        return f"{found[1]}{part}\n{found[3]}"

    return PART.sub(made, text)


def _refilled(page: Path) -> str:
    return filled(page.read_text(encoding="utf-8"), page.parent)


def main() -> int:
    """Write the pages; with --check, only say which are out of date."""
    stale = [page for page in PAGES if _refilled(page) != page.read_text(encoding="utf-8")]
    if "--check" in sys.argv:
        sys.stdout.write("".join(f"{page.relative_to(REPOSITORY)} is out of date: make docs\n" for page in stale))
        return int(bool(stale))
    for page in stale:
        page.write_text(_refilled(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
