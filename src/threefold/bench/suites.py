"""The suites of races, the check before them, and what is kept of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from threefold.bench.race import REPEATS, SECONDS, Race, Row, run
from threefold.errors import InputError, nearest
from threefold.kernels.machine import conditions
from threefold.specs.base import MixerSpec

SUITES = ("attention", "recurrent", "step", "memory")
LAWS = ("forms", "streaming", "causal", "padding")  # quick, and what a wrong kernel breaks


def races(suites: tuple[str, ...] = SUITES) -> Iterator[Race]:
    """Every race of these suites, made when its turn comes."""
    for name in suites:
        if name not in SUITES:
            raise InputError(f"no suite {name!r}{nearest(name, SUITES)} Known: {', '.join(SUITES)}.")
    for name in suites:
        yield from import_module(f"threefold.bench.{name}").races()


@cache
def broken(spec: MixerSpec) -> str:
    """The quick laws that `spec` breaks, in words; empty when it may be raced."""
    from threefold.laws.all import LAWS as EVERY
    from threefold.laws.law import judge
    from threefold.laws.ours import MixerSubject

    verdicts = judge(MixerSubject(spec, 12), tuple(law for law in EVERY if law.name in LAWS))
    return ", ".join(verdict.law for verdict in verdicts if verdict.broken)


def raced(
    chosen: Iterator[Race], repeats: int = REPEATS, seconds: float = SECONDS, heard: Callable[[str], object] = str
) -> Iterator[Row]:
    """Each race's row, as it comes. A mixer whose laws are red is not raced: that would time something else."""
    for race in chosen:
        heard(f"{race.work} against {race.against}")
        if race.spec is not None and (red := broken(race.spec)):
            raise InputError(
                f"{race.spec!r} breaks {red}, so its time says nothing: `threefold laws --all` shows the smallest case."
            )
        yield run(race, repeats, seconds)


def where() -> dict[str, Any]:
    """Machine, threads, versions, commit and date: what numbers mean nothing without."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "threefold": metadata.version("threefold"),
        "commit": _commit(),
        **conditions(),
    }


def _commit() -> str:
    """The commit of the repository that this code lies in, `+` if it was changed since; empty when installed."""
    here = Path(__file__).parent
    try:
        name = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--exclude=*"]
        done = subprocess.run(name, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def in_words(found: dict[str, Any]) -> str:
    """The conditions in a sentence, for below a table."""
    native = found["native"]
    kernels = f"native kernels {native['instruction_set']}" if native["active"] else "without native kernels"
    commit = f", commit {found['commit']}" if found["commit"] else ""
    return (
        f"{found['processor']}, {found['cores']} cores, {found['threads']} threads, torch {found['torch']['version']}, "
        f"{kernels}, threefold {found['threefold']}{commit}, {found['date']}. Each pair took turns in one process; the "
        f"smallest of at least {REPEATS} times counts."
    )


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A result file, whole or not at all."""
    found = where()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    text = json.dumps({"conditions": in_words(found), "where": found, "rows": rows}, indent=1, ensure_ascii=False)
    beside.write_text(text + "\n", encoding="utf-8")
    os.replace(beside, path)
