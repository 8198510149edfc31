"""`threefold plan` of what the library can declare: presets, mixers and nets. Needs no torch unless it counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from threefold.cost import Plan, Poly
from threefold.errors import require
from threefold.plan.conventions import Causal, Conventions, Dtype, Optimiser, Recompute, Scores
from threefold.plan.difference import difference, explained
from threefold.plan.memory import inference, training
from threefold.plan.model import Model, model
from threefold.plan.presets import TYINGS
from threefold.plan.show import growth, memory, rows, times, tree
from threefold.plan.solve import crossover, in_units, largest, size_in_bytes
from threefold.specs.base import Form

if TYPE_CHECKING:
    from threefold.cli.plan import Options
    from threefold.plan.check import Check


@dataclass(frozen=True)
class Asked:
    """A model as it was asked for: its plan, its sizes, and whether its source is as long as its target."""

    model: Model
    plan: Plan
    sizes: Mapping[str, int]
    conventions: Conventions
    joined: bool

    @property
    def law(self) -> Plan:
        """The plan with one length, where both sides are equally long."""
        return self.plan.mapped(lambda poly: poly.renamed("S", "T")) if self.joined else self.plan

    @property
    def axis(self) -> str:
        """What lengthens it; B where nothing has a length."""
        axes = self.law.total.forward.axes
        return next((axis for axis in "TS" if axis in axes), "B")

    def bytes_of(self, axis: str, purpose: str) -> Any:
        """Training or inference memory as a function of one size."""
        of = (training if purpose == "training" else inference)(self.law.total, self.conventions)
        return lambda size: of({**self.sizes, axis: size})

    def value(self, poly: Poly, axis: str) -> Any:
        """A cost as a function of one size."""
        placed = poly.placed({name: size for name, size in self.sizes.items() if name != axis})
        return lambda size: placed.placed({axis: size})()


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
    """One model under the options."""
    found, chosen = model(text, options.width, under), conventions(options)
    given = {axis: size for axis in "BTS" if (size := getattr(options, axis)) is not None}
    sizes = {**found.sizes, **given}
    equal = sizes.get("S") == sizes.get("T") if "S" not in given or "T" not in given else False
    if "S" in found.sizes and "T" in given and "S" not in given and found.sizes["S"] == found.sizes.get("T"):
        sizes["S"], equal = sizes["T"], True
    plan = found.plan(Form(options.form) if options.form else None, chosen)
    return Asked(found, plan, sizes, chosen, equal and "S" in found.sizes)


def show(options: Options) -> tuple[list[str], int]:
    """The lines to print, and the exit code."""
    require(not options.input and options.options == "{}", "--input and --with are for a module of your own.")
    if options.compare:
        return _compared(options), 0
    asked = ask(options, options.model, options.convention)
    checked = _checks(asked, options) if options.check else {}
    others = [ask(options, text, "") for text in options.against]
    if options.plot:
        from threefold.plan.plot import draw

        draw([asked, *others], options.plot)
    code = int(not all(each.holds for each in checked.values()))
    if options.json:
        return [json.dumps(_as_dict(asked, options, others, checked), indent=2, ensure_ascii=False)], code
    lines = [*_head(asked), "", *_trees(asked, options.depth), ""]
    lines += [f"growth     {line}" for line in growth(asked.law.total, asked.sizes, asked.axis)]
    lines += ["", *_memories(asked)]
    lines += [f"against    {line}" for other in others for line in crossings(asked, other)]
    lines += [f"fits       {line}" for line in (_fits(asked, options.fit) if options.fit else [])]
    lines += [f"plot       {options.plot}"] if options.plot else []
    return [*lines, "", *_verdict(asked, checked)], code


def _head(asked: Asked) -> list[str]:
    sizes = " ".join(f"{axis}={size:,}" for axis, size in asked.sizes.items())
    width = f" · width {asked.model.width}" if asked.model.width else ""
    both = " (S = T)" if asked.joined else ""
    return [f"{asked.model.name}{width} · {sizes}{both}", f"conventions  {asked.conventions.header}"]


def _trees(asked: Asked, depth: int) -> list[str]:
    every = asked.model.every
    if len(every) == 1:
        return tree(asked.plan, asked.sizes, depth)
    lines = []
    for each in every:
        lines += [each.name, *tree(each.plan(None, asked.conventions), asked.sizes, depth), ""]
    for each in every[1:]:
        plan = each.plan(None, asked.conventions)
        if plan.total.params != asked.plan.total.params:
            lines += [*explained(asked.plan, plan, (every[0].name, each.name)), ""]
    return lines[:-1]


def _memories(asked: Asked) -> list[str]:
    total = asked.plan.total
    train, infer = training(total, asked.conventions), inference(total, asked.conventions)
    return [*memory("training memory", train, asked.sizes), *memory("inference memory", infer, asked.sizes)]


def _fits(asked: Asked, amount: str) -> list[str]:
    budget = size_in_bytes(amount)
    lines = []
    for axis in dict.fromkeys((asked.axis, "B")):
        rest = " ".join(f"{name}={size:,}" for name, size in asked.sizes.items() if name != axis)
        rest = rest.replace(f"S={asked.sizes.get('S', 0):,}", "S=T") if asked.joined and axis == "T" else rest
        for purpose in ("training", "inference"):
            law = asked.bytes_of(axis, purpose)
            size = largest(law, budget)
            says = (
                f"{axis} = {size:,} needs {in_units(law(size))}" if size else f"not even {axis} = 1: {in_units(law(1))}"
            )
            lines.append(f"{purpose} in {amount}, largest {axis} at {rest}: {says}" if rest else f"{purpose}: {says}")
    return lines


MEASURES = ("FLOPs forward", "FLOPs of training", "training memory", "state or cache")


def measures(asked: Asked, axis: str) -> dict[str, Any]:
    """What two models are compared by, each as a function of a length."""
    total = asked.law.total
    return {
        "FLOPs forward": asked.value(total.forward, axis),
        "FLOPs of training": asked.value(total.forward + total.backward, axis),
        "training memory": asked.bytes_of(axis, "training"),
        "state or cache": asked.value(total.state, axis),
    }


def crossings(one: Asked, other: Asked) -> list[str]:
    """From which length which of two models is cheaper."""
    require(one.axis != "B" and other.axis != "B", "--against compares growth with length: give models of sequences.")
    mine, theirs = measures(one, one.axis), measures(other, other.axis)
    lines = []
    for name in MEASURES:
        found = crossover(mine[name], theirs[name])
        if found is None:
            a, b = mine[name](1024), theirs[name](1024)
            says = "equal" if a == b else f"{(one if a < b else other).model.name} needs less at every length"
        else:
            at, sign = found
            less = (other if sign > 0 else one).model.name if sign else "neither"
            says = f"{less} needs less from {one.axis} = {at:,}"
        lines.append(f"{other.model.name}, {name}: {says}")
    return lines


def _compared(options: Options) -> list[str]:
    require(len(options.compare) == 2, "--compare takes two: conventions such as tied3 untied+b, or models.")
    made = [_either(options, word) for word in options.compare]
    lines = explained(made[0].plan, made[1].plan, (options.compare[0], options.compare[1]))
    if options.json:
        data = [
            {"weights": each.name, "one": each.one, "other": each.other} for each in difference(*(m.plan for m in made))
        ]
        return [json.dumps(data, indent=2)]
    one, other = (int(each.plan.total.params) for each in made)
    verdict = f"{options.compare[1]} has {abs(other - one):,} parameters {'more' if other >= one else 'fewer'}."
    return [options.model, "", *lines, "", verdict]


def _either(options: Options, word: str) -> Asked:
    first = word.split("+")[0]
    return ask(options, options.model, word) if first in TYINGS else ask(options, word, "")


def _checks(asked: Asked, options: Options) -> dict[str, Check]:
    from threefold.plan.check import check

    form = Form(options.form) if options.form else None
    return {
        each.name: check(
            each.spec, each.plan(form, asked.conventions), asked.sizes, asked.conventions, form, asked.model.width
        )
        for each in asked.model.every
    }


def _verdict(asked: Asked, checked: Mapping[str, Check]) -> list[str]:
    if checked:
        several = len(checked) > 1
        return [
            f"{'✓' if each.holds else '✗'} {name + ': ' if several else ''}{each.verdict}"
            for name, each in checked.items()
        ]
    total = asked.plan.total.placed(asked.sizes)
    return [
        f"planned {int(total.params):,} parameters, {int(total.forward):,} FLOPs forward, {int(total.backward):,} "
        "backward, nothing built; --check counts them."
    ]


def _as_dict(asked: Asked, options: Options, others: list[Asked], checked: Mapping[str, Check]) -> dict[str, Any]:
    total = asked.plan.total
    data: dict[str, Any] = {
        "model": asked.model.name,
        "sizes": dict(asked.sizes),
        "conventions": asked.conventions.header,
        "total": _numbers(asked.plan, asked.sizes),
        "growth": {name: repr(getattr(total, name)) for name in ("forward", "backward", "saved", "state")},
        "training_bytes": training(total, asked.conventions)(asked.sizes),
        "inference_bytes": inference(total, asked.conventions)(asked.sizes),
        "parts": [
            {"depth": row.depth, "name": row.name, "times": row.times, "signal": times(row.part.shape)}
            | _numbers(row.part, asked.sizes)
            for row in rows(asked.plan.placed(asked.sizes), options.depth)
        ],
    }
    if others:
        data["against"] = [line for other in others for line in crossings(asked, other)]
    if options.fit:
        data["fits"] = _fits(asked, options.fit)
    if checked:
        data["check"] = {
            name: {"holds": each.holds, "uncounted": each.seen.unknown, "planned_counted": dict(each.pairs)}
            for name, each in checked.items()
        }
    return data


def _numbers(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    total = plan.total.placed(sizes)
    sums = {name: int(getattr(total, name)) for name in ("params", "forward", "backward", "saved", "state")}
    return {**sums, "temporary": int(total.temporary())}
