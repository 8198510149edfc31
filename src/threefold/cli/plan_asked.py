"""A model as `threefold plan` was asked for it: its plan at sizes, and what can be said of it beside others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threefold.cost import Cost, Number, Plan, Poly
from threefold.errors import require
from threefold.plan.conventions import Causal, Conventions, Dtype, Optimiser, Recompute, Scores
from threefold.plan.memory import inference, memory_law, training
from threefold.plan.model import Model, model
from threefold.plan.solve import crossover, in_units, largest, size_in_bytes
from threefold.specs.base import Form

if TYPE_CHECKING:
    from threefold.cli.plan import Options

Law = Callable[[int], Number]


@dataclass(frozen=True)
class Asked:
    """`joined`: source and target are equally long, so that T lengthens both. `model`: if the library declared it."""

    name: str
    plan: Plan
    sizes: Mapping[str, int]
    conventions: Conventions
    joined: bool = False
    model: Model | None = None
    lost: tuple[str, ...] = ()  # quantities that no law gives: they are known at the sizes alone

    def foretold(self, *names: str) -> None:
        """Refuse to go beyond the sizes by a law that was not found."""
        lost = [name for name in names if name in self.lost]
        here = ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())
        require(
            not lost,
            f"{self.name} has no law of {', '.join(lost)} through {here}: --fit, --against and --plot need one; "
            "try a length that its blocks divide.",
        )

    @property
    def law(self) -> Cost:
        """What it costs in one length, where both sides are equally long."""
        total = self.plan.total
        return total.mapped(lambda poly: poly.renamed("S", "T")) if self.joined else total

    @property
    def axis(self) -> str:
        """What lengthens it: T, else another axis than the batch, else the batch."""
        total = self.law
        axes = dict.fromkeys(axis for poly in (total.forward, total.saved, total.state) for axis in poly.axes)
        return next((axis for axis in ("T", "S", *axes) if axis in axes and axis != "B"), "B")

    def value(self, poly: Poly, axis: str) -> Law:
        """A cost as a function of one size."""
        placed = poly.placed({name: size for name, size in self.sizes.items() if name != axis})
        return lambda size: placed.placed({axis: size})()

    def bytes_of(self, axis: str, purpose: str) -> Law:
        """Training or inference memory as a function of one size."""
        self.foretold("saved", "temporary") if purpose == "training" else self.foretold("temporary")
        cost = self.law if axis == "T" else self.plan.total
        of = (training if purpose == "training" else inference)(cost, self.conventions)
        return memory_law(of, {name: size for name, size in self.sizes.items() if name != axis}, axis)

    def measures(self, axis: str) -> dict[str, Law]:
        """What models are compared by, each as a function of a length."""
        self.foretold("forward", "backward")
        total = self.law
        return {
            "FLOPs forward": self.value(total.forward, axis),
            "FLOPs of training": self.value(total.forward + total.backward, axis),
            "training memory": self.bytes_of(axis, "training"),
            "state or cache": self.value(total.state, axis),
        }


def conventions(options: Options) -> Conventions:
    """The switches that were set."""
    return Conventions(
        Scores(options.attention),
        Causal(options.causal),
        Dtype(options.dtype),
        Optimiser(options.optimiser),
        Recompute(options.recompute),
    )


def ask(options: Options, text: str, under: str) -> Asked:
    """One model under the options: declared, or a module of the user's."""
    if is_own(text):
        from threefold.cli.plan_own import measured

        return measured(options, text).asked
    found, chosen = model(text, options.width, under), conventions(options)
    given = {axis: size for axis in "BTS" if (size := getattr(options, axis)) is not None}
    sizes = {**found.sizes, **given}
    joined = "S" in found.sizes and "S" not in given and found.sizes["S"] == found.sizes["T"]
    if joined:
        sizes["S"] = sizes["T"]
    return Asked(
        found.name, found.plan(Form(options.form) if options.form else None, chosen), sizes, chosen, joined, found
    )


def is_own(text: str) -> bool:
    """Whether the text is path/to/file.py:Module or package.module:Module."""
    return ":" in text and "(" not in text and not text.startswith("{")


def fits(asked: Asked, amount: str) -> list[str]:
    """The largest length and the largest batch within an amount of memory."""
    budget = size_in_bytes(amount)
    lines = []
    for axis in dict.fromkeys((asked.axis, *(["B"] if "B" in asked.sizes else []))):
        both = asked.joined and axis == "T"
        said = {name: "T" if both and name == "S" else f"{n:,}" for name, n in asked.sizes.items() if name != axis}
        rest = " ".join(f"{name}={size}" for name, size in said.items())
        for purpose in ("training", "inference"):
            law = asked.bytes_of(axis, purpose)
            size = largest(law, budget)
            says = f"{axis} = {size:,}" if size else f"none, since {axis} = 1"
            at = f"largest {axis} at {rest}" if rest else f"largest {axis}"
            lines.append(f"{purpose} in {amount}, {at}: {says} needs {in_units(float(law(max(size, 1))))}")
    return lines


def crossings(one: Asked, other: Asked) -> list[str]:
    """From which length which of two models is cheaper."""
    axis = one.axis
    require(
        axis != "B" and other.axis == axis,
        f"--against compares growth with length: {one.name} grows with {axis}, {other.name} with {other.axis}.",
    )
    mine, theirs = one.measures(axis), other.measures(axis)
    return [f"{other.name}, {name}: {_crossing(one, other, name, mine[name], theirs[name])}" for name in mine]


def _crossing(one: Asked, other: Asked, what: str, mine: Law, theirs: Law) -> str:
    found = crossover(mine, theirs)
    if found is not None:
        at, sign = found
        return (
            f"{(other if sign > 0 else one).name} needs less from {one.axis} = {at:,}" if sign else f"equal from {at:,}"
        )
    a, b = mine(1024), theirs(1024)
    return "equal" if a == b else f"{(one if a < b else other).name} needs less at every length"
