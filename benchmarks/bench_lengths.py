"""Time against length: softmax, Taylor and elu+1 attention, forward, B=1. Run: python benchmarks/bench_lengths.py"""

from __future__ import annotations

import sys
from pathlib import Path

from threefold.bench import attention, suites
from threefold.bench.race import number, smallest
from threefold.specs.features import Elu1, Taylor

RESULT = Path(__file__).parent / "results" / "lengths.json"
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
QUADRATIC = 16_384  # softmax takes seconds beyond
TAYLOR = Taylor(2)
WORKS = {
    "torch SDPA, causal, head 64": attention.softmax,
    "Taylor 2 (key 16), chunked torch": lambda T: attention.ours(T, 16, TAYLOR, native=False),
    "Taylor 2 (key 16)": lambda T: attention.ours(T, 16, TAYLOR),
    "elu+1 (key 64)": lambda T: attention.ours(T, 64, Elu1()),
}


def main() -> int:
    """Measure, print, write."""
    for spec in (attention.TAYLOR, attention.ELU1):
        if red := suites.broken(spec):
            sys.exit(f"{spec!r} breaks {red}: its time says nothing.")
    rows = []
    for T in LENGTHS:
        names = [name for name in WORKS if T <= QUADRATIC or "SDPA" not in name]
        times = smallest([WORKS[name](T) for name in names], seconds=0.3)
        for name, time in zip(names, times, strict=True):
            rows.append({"work": name, "T": T, "ms": 1e3 * time})
            sys.stdout.write(f"{T:>7} {number(1e3 * time):>9} ms  {name}\n")
    suites.write(RESULT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
