"""Peak memory of training, each in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from threefold.bench import attention
from threefold.bench.race import Race, Work
from threefold.specs.features import Taylor

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WORKS: dict[str, Callable[[int], Work]] = {
    "taylor": lambda T: attention.ours(T, 16, Taylor(2), train=True),
    "chunked torch": lambda T: attention.ours(T, 16, Taylor(2), train=True, native=False),
    "softmax": lambda T: attention.softmax(T, train=True),
}


def resident(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def main(name: str, T: str) -> None:
    """Print how far above its inputs one forward and backward goes, in bytes."""
    WORKS[name](64)()  # what is loaded on first use is no cost of a long sequence
    work = WORKS[name](int(T))
    if RESET.exists():
        RESET.write_text("5")
    before = resident("VmRSS")
    work()
    sys.stdout.write(f"{resident('VmHWM') - before}\n")


def peak(name: str, T: int) -> float:
    """Megabytes that one forward and backward needs beside its inputs."""
    command = [sys.executable, "-m", "threefold.bench.memory", name, str(T)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1e6


def races() -> Iterator[Race]:
    """What this library promises of memory."""
    T = 16_384
    for against, name, wanted in (
        ("torch SDPA, causal, head 64", "softmax", 1.0),
        ("the same in chunked torch", "chunked torch", None),
    ):
        yield Race(
            work=f"Taylor 2 (key 16, value 64, 8 heads), peak memory of training, T={T}",
            against=against,
            ours=partial(peak, "taylor", T),
            theirs=partial(peak, name, T),
            wanted=wanted,
            at_most=True,
            counts="MB",
            spec=attention.TAYLOR,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
