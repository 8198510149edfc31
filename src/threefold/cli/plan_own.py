"""`threefold plan` of a user's own module: counted at small sizes, and the law behind the counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from threefold.cli.parse import json_object
from threefold.cli.plan_asked import Asked, conventions
from threefold.cli.plan_spec import as_json, page
from threefold.errors import InputError, require
from threefold.laws.target import fits, load
from threefold.plan.own import SUMS, Found, Input, Own, built, planned
from threefold.plan.show import tree

if TYPE_CHECKING:
    from threefold.cli.plan import Options

USUAL = {"B": 1, "T": 1024, "S": 1024}


@dataclass(frozen=True)
class Measured:
    """A module's plan from its counts, and how far it is to be trusted."""

    asked: Asked
    found: Found
    device: str


def show(options: Options) -> tuple[list[str], int]:
    """The lines to print, and the exit code."""
    require(not options.compare, "--compare is for models that the library declares.")
    done = measured(options, options.model)
    if options.json:
        found = done.found
        more = {"uncounted": found.unknown, "without_law": found.lost, "every": found.laws.every}
        return [as_json(done.asked, options, more)], 0
    shown = tree(done.asked.plan, done.asked.sizes, options.depth, lawful="forward" not in done.asked.lost)
    return page(done.asked, options, shown, _verdict(done)), 0


def measured(options: Options, text: str) -> Measured:
    """The module built, counted and planned."""
    inputs = tuple(map(Input.parse, options.input))
    require(bool(inputs), f"say what {text} takes, in order: --input B,T:int or --input B,T,64 B,T:bool.")
    chosen = conventions(options)
    thing, given = load(text), json_object(options.options)
    name = text.rpartition(":")[2]
    if given or isinstance(thing, type):
        fits(thing, name, given)
    strange = [axis for each in inputs for axis in each.axes if isinstance(axis, str) and axis not in USUAL]
    require(not strange, f"axis {', '.join(strange)} has no size: name axes B, T or S, and write other sizes out.")

    def on(device: str) -> Measured:
        module = _built(thing, name, given, inputs, device)
        if isinstance(module, nn.Module):
            module.train(not options.eval)
        own = Own(name, module, inputs, chosen, not options.no_grad, device)
        sizes = {axis: getattr(options, axis) or USUAL[axis] for axis in own.axes}
        found = planned(own, sizes)
        return Measured(Asked(name, found.plan, sizes, chosen, lost=found.lost), found, device)

    try:
        return on("meta")
    except InputError as error:
        if "meta" not in str(error.__cause__).lower():
            raise
        return on("cpu")  # it looks at its numbers, or an op has no shapes of its own


def _built(thing: Any, name: str, given: dict[str, Any], inputs: tuple[Input, ...], device: str) -> Any:
    try:
        return built(thing, given, inputs, device)
    except InputError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise InputError(
            f"{name} cannot be built with {json.dumps(given)} ({type(error).__name__}: {said}): mend --with."
        ) from error


def _verdict(done: Measured) -> list[str]:
    found, total = done.found, done.asked.plan.total.placed(done.asked.sizes)
    least = "at least " if found.unknown else ""
    uncounted = ", ".join(found.unknown) if found.unknown else "none"
    known = [each for each in found.laws.verified if each != done.asked.sizes]
    held = "; ".join(" ".join(f"{axis}={n}" for axis, n in each.items()) for each in known)
    lines = []
    if done.device != "meta":
        lines.append("It was run on the CPU, with zeros: it looks at its numbers, or an op has no shapes of its own.")
    if found.laws.every > 1 and len(found.lost) < len(SUMS):
        lines.append(f"The laws hold at multiples of {found.laws.every}, which is where they were found.")
    if found.lost:
        between = f" between multiples of {found.laws.every}" if found.laws.every > 1 and not found.laws.missing else ""
        names = ", ".join(found.lost)
        lines.append(f"No polynomial gives {names}{between}: what is shown was counted at these sizes only.")
    laws = f"laws through {len(found.laws.counted)} small sizes foretold the counts at {held} and here; "
    lines.append(
        f"counted {least}{int(total.forward):,} FLOPs forward, {least}{int(total.backward):,} backward; "
        f"{laws if len(found.lost) < len(SUMS) else ''}uncounted ops: {uncounted}"
    )
    return lines
