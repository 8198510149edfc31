"""threefold compare sentiment --vary model.mixer=lstm,gru,softmax,taylor2 --seeds 5"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from threefold.cli.ask import R, options, parse_recipe, recipe_kind, recipes_told
from threefold.cli.parse import ASK_FLAGS
from threefold.errors import require

if TYPE_CHECKING:
    from threefold.recipes.comparison import Line, Variant
    from threefold.train.sweep import Cluster, Ended

HELP = """usage: threefold compare RECIPE --vary FIELD=VALUE,VALUE,... [--seeds N] [OPTIONS]

Train every combination of the varied fields with every seed, and say what the paired differences prove.

  --vary FIELD=A,B   a field of the recipe and its values; may be repeated
  --seeds N          seeds 0 to N-1 (default 5)
  --run FOLDER       where the runs are kept (default: runs/compare-RECIPE); the same command continues it
  --jobs N           runs at a time on this machine (default 1)
  --on local|ray     this machine, or a Ray cluster (--address HOST:PORT; a local one without it)
  --json             the table for another program

Everything else is an option of the recipe, as in `threefold train RECIPE --help`.

recipes:
"""
OTHERS = (
    ("seeds", int, 5),
    ("run", Path | None, None),
    ("jobs", int, 1),
    ("on", Literal["local", "ray"], "local"),
    ("address", str | None, None),
    ("json", bool, False),
)


def run(argv: list[str]) -> int:
    """Prepare the folders, do what is not done, print the table."""
    if not argv or argv[0] in ("-h", "--help"):
        example = "Example: threefold compare sentiment --vary model.mixer=lstm,gru,softmax,taylor2 --seeds 5"
        sys.stdout.write(HELP + recipes_told() + f"\n{example}\n")
        return 0
    kind = recipe_kind("sentiment" if argv[0] == ASK_FLAGS else argv[0])
    rest, axes = _axes(argv if argv[0] == ASK_FLAGS else argv[1:])
    asked = parse_recipe(options(kind, *OTHERS), rest, f"compare {kind.name}")
    require(bool(axes), f"nothing is varied: add --vary model.mixer=lstm,gru (`threefold train {kind.name} --help`).")
    require(asked.seeds >= 1 and asked.jobs >= 1, "--seeds and --jobs: give at least 1.")
    from threefold.recipes import comparison
    from threefold.train.sweep import sweep

    variants = [_variant(asked.recipe, chosen) for chosen in comparison.combine(axes)]
    folder = asked.run or Path("runs") / f"compare-{kind.name}"
    folders = comparison.prepare(folder, variants, range(asked.seeds))
    every = [path for paths in folders.values() for path in paths]
    say = sys.stderr if asked.json else sys.stdout
    failed = sweep(every, _cluster(asked), lambda ended: say.write(_heard(ended)) and say.flush())
    lines = comparison.summary(folders)
    sys.stdout.write(json.dumps([asdict(line) for line in lines]) + "\n" if asked.json else _table(lines))
    return 1 if failed else 0


def _axes(argv: list[str]) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """The other words, and for each `--vary FIELD=A,B` its (field, value) pairs."""
    rest, axes = [], []
    words = iter(argv)
    for word in words:
        if word != "--vary" and not word.startswith("--vary="):
            rest.append(word)
            continue
        text = word[7:] if word.startswith("--vary=") else next(words, "")
        name, equals, values = text.partition("=")
        require(bool(equals and values), f"--vary {text!r}: write FIELD=VALUE,VALUE, such as model.mixer=lstm,gru.")
        axes.append([(name.replace("_", "-"), value) for value in _split(values)])
    return rest, axes


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _variant(recipe: R, chosen: list[tuple[str, str]]) -> Variant:
    """The recipe with the chosen values, read as the command line reads them."""
    from threefold.recipes.comparison import Variant

    words: list[str] = []
    for name, value in chosen:
        if value.lower() in ("true", "false"):
            path, _, last = name.rpartition(".")
            words.append(f"--{name}" if value.lower() == "true" else f"--{path}.no-{last}" if path else f"--no-{last}")
        else:
            words += [f"--{name}", value]
    made = parse_recipe(options(type(recipe), default=recipe), words, f"train {type(recipe).name}").recipe
    return Variant(" ".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in chosen), made)


def _cluster(asked: Any) -> Cluster:
    from threefold.train.sweep import Local, OnRay

    return OnRay(asked.address) if asked.on == "ray" else Local(asked.jobs)


def _heard(ended: Ended) -> str:
    words = "done" if ended.code == 0 else f"failed ({ended.code}): {ended.said.splitlines()[-1] if ended.said else ''}"
    return f"{ended.folder.name}: {words}\n"


def _table(lines: list[Line]) -> str:
    """Means with standard deviations, and below, each variant against the first."""
    from rich.console import Console
    from rich.table import Column, Table

    from threefold.report.numbers import ends, number

    plain = Console()
    console = Console(width=max(80, plain.width) if plain.is_terminal else 160, highlight=False)
    names = [name for name in lines[0].metrics if all(name in line.metrics for line in lines)]
    table = Table(
        Column("variant", overflow="fold"),
        "runs",
        "parameters",
        "seconds",
        *names,
        title="test set, mean ± standard deviation",
    )
    for line in lines:
        cells = [f"{number(mean)} ± {number(spread)}" for mean, spread in (line.metrics[name] for name in names)]
        table.add_row(line.label, str(line.runs), f"{line.parameters:,}", f"{line.seconds:.1f}", *cells)
    pairs = Table(
        Column("variant", overflow="fold"),
        *names,
        title=f"minus {lines[0].label}, paired by seed: mean [95 % bootstrap interval]",
    )
    for line in lines[1:]:
        found = [ends(line.differences[name]) for name in names if name in line.differences]
        pairs.add_row(line.label, *(f"{mean} [{low}, {high}]" for mean, low, high in found))
    with console.capture() as shown:
        console.print(table)
        if len(lines) > 1:
            console.print(pairs)
    return shown.get()
