"""How a run tells of itself: nothing, sparse lines for a log, JSON for machines. Live bars belong to the terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

Row = dict[str, Any]
Write = Callable[[str], object]


class Progress(Protocol):
    """Hears what happens, and decides what to show."""

    def begin(self, about: Row) -> None:
        """Training starts: `step` done of `total`, parameters, steps per epoch."""

    def row(self, row: Row) -> None:
        """A row of metrics.jsonl was written."""

    def end(self, outcome: Row) -> None:
        """Training is over, or was stopped."""

    def close(self) -> None:
        """Nothing more will come, whatever happened: give back what was taken."""


class Silent:
    """Shows nothing; the others show more."""

    def begin(self, about: Row) -> None:
        pass

    def row(self, row: Row) -> None:
        pass

    def end(self, outcome: Row) -> None:
        pass

    def close(self) -> None:
        pass


class Lines(Silent):
    """A few plain lines: every evaluation, and between them one each `every` seconds, with the time left."""

    def __init__(self, write: Write, every: float = 30.0) -> None:
        self._write, self._every = write, every
        self._total, self._first, self._since, self._shown = 0, 0, time.monotonic(), time.monotonic()

    def begin(self, about: Row) -> None:
        self._total, self._first, self._since = about["total"], about["step"], time.monotonic()
        self._write(
            f"{about['parameters']:,} parameters, {about['per_epoch']} steps an epoch, "
            f"step {about['step']} of {about['total']}\n"
        )

    def row(self, row: Row) -> None:
        now = time.monotonic()
        if row["kind"] == "train":
            if now - self._shown < self._every:
                return
            self._shown = now
        self._write(f"step {row['step']}/{self._total} {row['kind']}: {told(row)}{self._left(row['step'], now)}\n")

    def _left(self, step: int, now: float) -> str:
        done = step - self._first
        if done <= 0 or step >= self._total:
            return ""
        return f", {clock((now - self._since) / done * (self._total - step))} left"

    def end(self, outcome: Row) -> None:
        self._write(f"{outcome['reason']} at step {outcome['step']}\n")


class JsonLines(Silent):
    """One JSON object a line: the beginning, every evaluation, training at most once a second, the end."""

    def __init__(self, write: Write, every: float = 1.0) -> None:
        self._write, self._every, self._shown = write, every, float("-inf")

    def begin(self, about: Row) -> None:
        self._say({"kind": "begin", **about})

    def row(self, row: Row) -> None:
        if row["kind"] == "train":
            if time.monotonic() - self._shown < self._every:
                return
            self._shown = time.monotonic()
        self._say(row)

    def end(self, outcome: Row) -> None:
        self._say({"kind": "end", **outcome})

    def _say(self, row: Row) -> None:
        self._write(json.dumps(row, ensure_ascii=False) + "\n")


def told(row: Row) -> str:
    """The numbers of a row that a person follows."""
    hidden = ("step", "epoch", "seconds", "waited", "kind")
    numbers = {key: value for key, value in row.items() if isinstance(value, float) and key not in hidden}
    return ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
