"""Experiments that were run before: what each question's measure gave for every seed, when, where and by which code.

`benchmarks/experiments.py` runs the commands of the catalogue and writes recorded.json from the run folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from threefold.train.files import read_json, write_json

FILE = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Session:
    """The runs of one experiment."""

    date: str
    machine: str
    threefold: str
    commit: str
    runs: int
    processor_minutes: float
    answers: Mapping[str, Mapping[str, float]]  # by what a question asks for: by seed, its measure

    def __str__(self) -> str:
        return (
            f"{self.date} ({self.runs} runs, {self.processor_minutes:.0f} processor minutes, {self.machine}, "
            f"threefold {self.threefold}, commit {self.commit})"
        )


@cache
def sessions() -> dict[str, Session]:
    """By experiment, what was recorded."""
    return {name: Session(**kept) for name, kept in read_json(FILE).items()} if FILE.exists() else {}


def keep(found: Mapping[str, Session]) -> None:
    """Write these experiments' sessions, beside those of the others."""
    write_json(FILE, {name: asdict(session) for name, session in sorted({**sessions(), **found}.items())})
    sessions.cache_clear()
