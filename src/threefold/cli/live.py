"""A bar with the time left and the newest numbers, for a person at a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from threefold.train.progress import told

Row = dict[str, Any]


class Live:
    """The bar moves with every step; each evaluation leaves a line above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console or Console(highlight=False),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=None, numbers="")
        self._per_epoch = 1

    def begin(self, about: Row) -> None:
        self._per_epoch = about["per_epoch"]
        self._bar.console.print(f"{about['run']}: {about['parameters']:,} parameters, {self._per_epoch} steps an epoch")
        self._bar.start()
        self._bar.update(self._task, total=about["total"], completed=about["step"])

    def row(self, row: Row) -> None:
        epoch = f"epoch {row.get('epoch', 0) + 1}"
        if row["kind"] == "train":
            self._bar.update(self._task, completed=row["step"], description=epoch, numbers=told(row))
        else:
            self._bar.console.print(f"{row['kind']} at step {row['step']}: {told(row)}")

    def end(self, outcome: Row) -> None:
        self._bar.stop()
        self._bar.console.print(f"{outcome['reason']} at step {outcome['step']}")

    def close(self) -> None:
        """Give the terminal back, whatever happened."""
        self._bar.stop()
