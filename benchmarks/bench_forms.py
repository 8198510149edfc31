"""Every form of every mixer of the catalogue: B=4, T=256, its own small sizes. Run: python benchmarks/bench_forms.py

The sizes are those that the laws judge, so these times show what forms cost beside each other, not what a large model
takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from threefold.bench import suites
from threefold.bench.race import Work, number, smallest
from threefold.kernels import which
from threefold.laws.describe import brief
from threefold.mixers.base import Mixer
from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.specs.base import Form

RESULT = Path(__file__).parent / "results" / "forms.json"
B, T = 4, 256


def work(mixer: Mixer, x: torch.Tensor, form: Form) -> Work:
    """One form, forward."""

    def forward() -> None:
        with torch.no_grad():
            mixer.whole(x, form=form)

    return forward


def main() -> int:
    """Measure, print, write; a mixer whose laws are red is named and left out."""
    torch.manual_seed(0)
    x, rows, red = torch.randn(B, T, WIDTH), [], []
    for spec in CATALOG:
        if laws := suites.broken(spec):
            red.append(f"{brief(spec)} breaks {laws}")
            continue
        mixer, forms = spec.build(WIDTH), spec.traits.forms
        times = smallest([work(mixer, x, form) for form in forms], seconds=0.05)
        found = {form.value: 1e3 * time for form, time in zip(forms, times, strict=True)}
        rows.append({"mixer": brief(spec), "path": which(spec, x), "ms": found})
        words = ", ".join(f"{name} {number(time)} ms" for name, time in found.items())
        sys.stdout.write(f"{brief(spec):<48} {words}\n")
    suites.write(RESULT, rows)
    sys.stderr.writelines(f"not timed: {line}\n" for line in red)
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main())
