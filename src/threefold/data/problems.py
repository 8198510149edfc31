"""What is wrong with data, all of it at once: a run either starts with every example or says why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threefold.errors import InputError

SHOWN = 8


@dataclass(frozen=True)
class Problem:
    """One fault: where it is, and what it is."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def refuse(problems: Sequence[Problem], source: str) -> None:
    """Raise one InputError that names the problems, unless there are none."""
    if not problems:
        return
    shown = "; ".join(str(problem) for problem in problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    raise InputError(
        f"{source}: {len(problems)} problem{'s' if len(problems) > 1 else ''}: {shown}{more}. "
        "Mend or remove these; `threefold data check` lists them all."
    )
