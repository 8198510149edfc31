"""threefold doctor"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro

from threefold.cli.parse import parse

if TYPE_CHECKING:
    from threefold.specs.base import MixerSpec

Flag = tyro.conf.FlagCreatePairsOff[bool]
WIDTH, TOKENS = 64, 16
STEPS = "one token: native for RNN, LSTM and GRU in float32 and float64, for linear attention as below"
CASES = ("float32", "float32, padded", "bfloat16", "float64")


@dataclass
class Options:
    """Which code runs each mixer on this machine, and why not a faster one.

    Example: threefold doctor --json

    Exit 0 when nothing makes this machine slower than it need be, 1 naming what does.
    """

    json: Flag = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Ask, show."""
    options = parse(Options, argv, "doctor")
    from threefold.kernels.machine import advice, conditions

    paths = {name: [_path(spec, case) for case in CASES] for name, spec in _mixers().items()}
    found = conditions()
    said = advice(found)
    if options.json:
        table = {name: dict(zip(CASES, row, strict=True)) for name, row in paths.items()}
        sys.stdout.write(json.dumps({**found, "paths": table, "advice": said}, indent=2) + "\n")
    else:
        _show(found, paths, said)
    return int(bool(said))


def _mixers() -> dict[str, MixerSpec]:
    """One of each path that a user may meet."""
    from threefold import GRU, LSTM, RNN, Elu1, Linear, Rotary, Softmax, Taylor
    from threefold.specs.recurrent import Reset

    return {
        "RNN": RNN(),
        "LSTM": LSTM(),
        "GRU": GRU(),
        "GRU, reset before": GRU(reset=Reset.BEFORE),
        "Softmax": Softmax(),
        "Linear, elu+1": Linear(),
        "Linear, Taylor 2": Linear(features=Taylor(2)),
        "Linear, Taylor 2, rotary": Linear(features=Taylor(2), position=Rotary()),
        "Linear, Taylor 4": Linear(features=Taylor(4), key_dim=4),
        "Linear, elu+1, both ways": Linear(features=Elu1(), causal=False),
    }


def _path(spec: MixerSpec, case: str) -> str:
    import torch

    from threefold.kernels import which

    x = torch.empty(1, TOKENS, WIDTH, dtype=getattr(torch, case.partition(",")[0]))
    return which(spec, x, torch.ones(1, TOKENS, dtype=torch.bool) if "padded" in case else None)


def _show(found: dict[str, object], paths: dict[str, list[str]], said: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for line in _facts(found):
        console.print(line)
    table = Table(box=None, pad_edge=False)
    for head in ("mixer", *CASES):
        table.add_column(head, no_wrap=head == "mixer")
    notes: dict[str, int] = {}
    for name, row in paths.items():
        cells = []
        for path in row:
            short, _, why = path.partition("; ")
            cells.append(f"{short} ({notes.setdefault(why, len(notes) + 1)})" if why else short)
        table.add_row(name, *cells)
    console.print(table)
    for why, number in notes.items():
        console.print(f"({number}) {why}")
    console.print()
    for line in said or ["Nothing makes this machine slower than it need be."]:
        console.print(line)


def _facts(found: dict[str, object]) -> list[str]:
    built, made = found["native"], found["torch"]
    assert isinstance(built, dict) and isinstance(made, dict)
    state = (
        f"{built['instruction_set']} (of {', '.join(built['instruction_sets'])}), threads of {built['threads_from']}"
        if built["active"]
        else f"off: {built['why_not']}"
    )
    yes = {True: "yes", False: "no"}
    return [
        f"machine   {found['processor']}, {found['cores']} cores, {found['threads']} threads",
        f"torch     {made['version']}, {made['instruction_set']}, oneDNN {yes[made['oneDNN']]}, MKL {yes[made['MKL']]}",
        f"OpenMP    {', '.join(made['openmp_runtimes']) or 'none loaded'}",
        f"native    {state}",
        f"steps     {STEPS if built['active'] else 'torch: no native kernels'}",
        f"compiler  {built['compiler']}",
        "",
    ]
