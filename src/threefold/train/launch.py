"""Several processes of one run on this machine: torchrun starts them, their own marks say whether they finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from threefold.errors import require
from threefold.train.hold import holding
from threefold.train.record import Run


def launch(run: Run, processes: int, module: str, words: list[str]) -> int:
    """Run `python -m module words` in `processes` copies under torchrun; 0 when every one has left its mark.

    The exit code alone is not to be believed: gloo's threads can abort an interpreter whose work is all done.
    """
    require(processes >= 2, f"{processes} processes: give at least 2, or leave it out to train in this one.")
    with holding(run.folder):
        run.clear_marks()
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", module]
    threads = max(1, (os.cpu_count() or 1) // processes)
    environment = {"OMP_NUM_THREADS": str(threads)} | dict(os.environ)
    process = subprocess.Popen([sys.executable, *launcher, *words], env=environment)
    # Asked to stop, the processes save a checkpoint first: a terminal tells them itself, anyone else tells only us.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0 if run.left() == processes else code or 1
