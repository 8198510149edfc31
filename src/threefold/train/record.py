"""A run's folder: what was asked, where it ran, what was measured, and what can be continued or used.

recipe.json  data.json  assets.json  environment.json  metrics.jsonl  samples.json  checkpoints/  ranks/<n>  done  lock
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from threefold.errors import InputError, require
from threefold.specs.base import Spec
from threefold.train.checkpoint import Shelf
from threefold.train.files import fingerprint, read_json, write, write_json
from threefold.train.hold import LOCK, holding
from threefold.train.progress import Progress, Row
from threefold.train.task import Assets


class Run:
    """One run's folder. Rows are appended; everything else is written whole or not at all."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.shelf = Shelf(self.folder / "checkpoints")

    @classmethod
    def create(cls, folder: Path | str, recipe: Spec) -> Run:
        """A new folder for a recipe; an existing run is never overwritten."""
        run = cls(folder)
        run.folder.mkdir(parents=True, exist_ok=True)
        with holding(run.folder):
            # a creation that was killed left only these
            torn = [path.suffix == ".tmp" or path.name == LOCK for path in run.folder.glob("*")]
            require(
                all(torn),
                f"{run.folder} exists and is not empty: give another --run, or `threefold resume {run.folder}`.",
            )
            write_json(run.folder / "recipe.json", recipe.to_dict())
        return run

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """An existing run."""
        run = cls(folder)
        require(
            (run.folder / "recipe.json").is_file(),
            f"{run.folder} is not a run: it has no recipe.json. A run is a folder that `threefold train` made.",
        )
        return run

    def forget(self) -> None:
        """Remove what `create` made, if nothing was measured: a recipe that cannot be built leaves no folder behind."""
        if not self.rows() and not self.shelf.names("last"):
            shutil.rmtree(self.folder)

    @property
    def recipe(self) -> Row:
        """The recipe as JSON."""
        return read_json(self.folder / "recipe.json")

    @property
    def assets(self) -> Assets | None:
        """What the model needs of its training data; None before training began."""
        path = self.folder / "assets.json"
        return read_json(path) if path.exists() else None

    def keep_assets(self, assets: Assets) -> None:
        """Save the assets, once."""
        if not (self.folder / "assets.json").exists():
            write_json(self.folder / "assets.json", assets)

    def keep_data(self) -> None:
        """Remember what is trained on; other data is refused, for the same bits cannot come of it."""
        path, source = self.folder / "data.json", self.recipe.get("data", {}).get("path")
        if source is None:
            return
        found = {"path": source, "sha256": fingerprint(Path(source))}
        if not path.exists():
            write_json(path, found)
        require(
            read_json(path)["sha256"] == found["sha256"],
            f"{source} is no longer what {self.folder} was trained on: bring it back, or train a new run on it.",
        )

    def keep_samples(self, samples: list[Row]) -> None:
        """Save single test examples for the report."""
        write_json(self.folder / "samples.json", samples)

    @property
    def environment(self) -> Row:
        """Machine, versions and threads of the last session."""
        return read_json(self.folder / "environment.json")["sessions"][-1]

    @property
    def newest(self) -> str | None:
        """The checkpoint to continue from; None before the first."""
        return next(iter(self.shelf.names("last")), None)

    @property
    def done(self) -> Row | None:
        """The outcome, once there is one."""
        path = self.folder / "done"
        return read_json(path) if path.exists() else None

    def finish(self, outcome: Row) -> None:
        """Say that nothing is left to do."""
        write_json(self.folder / "done", outcome)

    def leave(self, rank: int) -> None:
        """A process's own mark that its work is done, whatever its exit code will be."""
        (self.folder / "ranks").mkdir(exist_ok=True)
        write(self.folder / "ranks" / str(rank), b"done\n")

    def left(self) -> int:
        """How many processes have left their mark."""
        return len([path for path in (self.folder / "ranks").glob("*") if path.name.isdigit()])

    def clear_marks(self) -> None:
        """Before a new start: no process is done."""
        for path in (self.folder / "ranks").glob("*"):
            path.unlink()

    def rows(self, kind: str | None = None) -> list[Row]:
        """The measured rows of a kind ("train", "valid", "test"); a torn last line is not a row."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        found = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                break
            if kind is None or row["kind"] == kind:
                found.append(row)
        return found

    def rewind(self, step: int) -> None:
        """Forget what was measured after `step`, before it is measured again; until then nothing is done."""
        (self.folder / "done").unlink(missing_ok=True)
        rows = [row for row in self.rows() if row["step"] <= step and row["kind"] != "test"]
        write(self.folder / "metrics.jsonl", "".join(_line(row) for row in rows).encode())
        for name in (*self.shelf.names("last"), *self.shelf.names("best")):
            if int(name.split("-")[1]) > step:
                self.shelf.drop(name)


class Journal:
    """Appends rows to metrics.jsonl and shows them. Only the first of several processes writes."""

    def __init__(self, run: Run, progress: Progress, writes: bool) -> None:
        self._file = (run.folder / "metrics.jsonl").open("a", encoding="utf-8") if writes else None
        self._progress = progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write(self, row: Row) -> None:
        """One row, visible to readers at once."""
        if self._file:
            self._file.write(_line(row))
            self._file.flush()
        self._progress.row(row)

    def settle(self) -> None:
        """Everything so far is on the disk: called before a checkpoint that counts on it."""
        if self._file:
            os.fsync(self._file.fileno())


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def note_session(run: Run, world: int, begun_at: int) -> None:
    """Add this start to environment.json: machine, versions, threads, git, command."""
    path = run.folder / "environment.json"
    try:
        sessions = read_json(path)["sessions"] if path.exists() else []
    except InputError:
        sessions = []
    write_json(path, {"sessions": [*sessions, environment() | {"processes": world, "from_step": begun_at}]})


def environment() -> Row:
    """Where and with what this process runs."""
    import numpy
    import torch

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threefold": _version(),
        "platform": platform.platform(),
        "machine": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "git": _git(),
    }


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("threefold")
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git() -> Row | None:
    """Commit of the working folder and whether it has changes; None outside a repository."""

    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
