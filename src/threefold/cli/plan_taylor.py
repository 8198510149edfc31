"""threefold plan taylor"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from threefold.cli.parse import parse
from threefold.plan.show import aligned
from threefold.plan.solve import in_units
from threefold.plan.taylor import Degree, advice, largest_key

HEADER = ("degree", "error of exp", "row at most", "features", "state a head", "fewer FLOPs", "less memory", "")


@dataclass
class Options:
    """Which Taylor degree can stand for softmax attention, what it costs, and from which length it pays.

    Example: threefold plan taylor --key 16 --range 0.5 --tolerance 0.05
    """

    key: int = 64
    """Entries of a head's queries and keys."""
    range: float = 0.5
    """The largest |q.k| after scaling by 1/sqrt(key)."""
    tolerance: float = 0.05
    """How far an attention row may be from softmax's: total variation, between 0 and 1."""
    length: Annotated[int, tyro.conf.arg(name="T")] = 2048
    """The length that is meant."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """For another program."""


def run(argv: list[str]) -> int:
    """Print the degrees, and the advice."""
    options = parse(Options, argv, "plan taylor")
    best = advice(options.key, options.range, options.tolerance)
    highest = max(4, best.degree if best else 8)
    tried = [
        Degree(n, options.key, options.range)
        for n in (range(1, highest + 1) if highest <= 8 else range(2, highest + 1, 2))
    ]
    if options.json:
        sys.stdout.write(
            json.dumps({"advice": _data(best), "degrees": [_data(each) for each in tried]}, indent=2) + "\n"
        )
        return 0
    table = [HEADER, *(_row(each) for each in tried)]
    head = f"heads of {options.key}, |q.k| at most {options.range:g} after scaling, state in float32, cache in float32"
    sys.stdout.write("\n".join([head, "", *aligned(table, left=0), "", says(options, best)]) + "\n")
    return 0


def _row(each: Degree) -> tuple[str, ...]:
    promise = f"{each.variation:.2e}" if each.variation < 1 else "no promise"
    return (
        str(each.degree),
        f"{each.error:.2e}",
        promise,
        f"{each.features:,}",
        in_units(each.state(4)),
        f"T ≥ {each.pays_from:,}",
        f"T ≥ {each.smaller_from(4):,}",
        "" if each.positive else "odd: its mass can vanish",
    )


def says(options: Options, best: Degree | None) -> str:
    """The advice in a sentence or two, the honest one where nothing helps."""
    if best is None:
        return (
            f"No degree keeps rows within {options.tolerance:g} of softmax's at |q.k| up to {options.range:g}: "
            "use softmax attention, or normalise q and k so that the range is smaller."
        )
    start = f"Degree {best.degree} keeps every row within {best.variation:.2g} of softmax's"
    if best.degree == 0:
        return f"{start}: at this range attention is hardly more than a mean, and no feature is needed."
    if best.pays_from <= options.length:
        return f"{start}, with {best.features:,} features a head, and needs fewer FLOPs from T = {best.pays_from:,}."
    small = largest_key(best.degree, options.length)
    other = f"heads of at most {small} would pay there" if small else "no head size would pay there"
    return (
        f"{start}, but needs fewer FLOPs only from T = {best.pays_from:,}: "
        f"at T = {options.length:,} softmax attention is cheaper ({other})."
    )


def _data(each: Degree | None) -> dict[str, object] | None:
    if each is None:
        return None
    return {
        "degree": each.degree,
        "error": each.error,
        "total_variation": each.variation,
        "features": each.features,
        "state_bytes": each.state(4),
        "fewer_flops_from": each.pays_from,
        "less_memory_from": each.smaller_from(4),
    }
