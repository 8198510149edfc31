"""Many runs, each a folder of its own: started in local processes or on a Ray cluster, continued where they stand.

A job is a run folder that holds its recipe. To do it is to resume it; a sweep that was interrupted is started again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from threefold.errors import require
from threefold.train.record import Run


@dataclass(frozen=True)
class Ended:
    """How one job ended; `said` is the last that it wrote when it failed."""

    folder: Path
    code: int
    said: str


class Cluster(Protocol):
    """Somewhere to run jobs."""

    def run(self, folders: Sequence[Path]) -> Iterator[Ended]:
        """Do all jobs; each as it ends, in any order."""


def work(folder: str, threads: int) -> tuple[int, str]:
    """Do one job in a fresh interpreter; its exit code and its last words."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "threefold", "resume", folder, "--progress", "none"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, (done.stderr or done.stdout).strip()[-2000:]


@dataclass(frozen=True)
class Local:
    """Processes of this machine, `jobs` at a time; without `threads` for each, they share its cores."""

    jobs: int = 1
    threads: int | None = None

    def run(self, folders: Sequence[Path]) -> Iterator[Ended]:
        threads = self.threads or max(1, (os.cpu_count() or 1) // self.jobs)
        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = {pool.submit(work, str(folder), threads): folder for folder in folders}
            for future in as_completed(waiting):
                yield Ended(waiting[future], *future.result())


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster, or a local one when none is running. Every node must see the folders under the same path."""

    address: str | None = None
    threads: int = 1

    def run(self, folders: Sequence[Path]) -> Iterator[Ended]:
        ray = _ray()
        started = not ray.is_initialized()
        if started:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False, configure_logging=False)
        try:
            remote = ray.remote(num_cpus=self.threads, max_retries=2)(work)
            waiting = {remote.remote(str(folder.resolve()), self.threads): folder for folder in folders}
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1)
                yield Ended(waiting.pop(ready[0]), *ray.get(ready[0]))
        finally:
            if started:
                ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        require(False, "--on ray needs Ray: pip install 'threefold[cluster]'.")
    return ray


def sweep(folders: Sequence[Path], cluster: Cluster, heard: Callable[[Ended], object]) -> list[Ended]:
    """Do the jobs that are not done; `heard` is told as each ends. The ones that failed."""
    left = [folder for folder in folders if not Run.open(folder).done]
    failed = []
    for ended in cluster.run(left):
        heard(ended)
        if ended.code or not Run.open(ended.folder).done:
            failed.append(ended)
    return failed
