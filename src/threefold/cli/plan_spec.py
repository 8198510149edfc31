"""`threefold plan` of what the library can declare: presets, mixers and nets. Needs no torch unless it counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from threefold.cli.plan_asked import Asked, ask, crossings, fits
from threefold.cost import Plan
from threefold.errors import require
from threefold.plan.difference import difference, explained
from threefold.plan.memory import inference, training
from threefold.plan.model import Model
from threefold.plan.presets import TYINGS
from threefold.plan.show import growth, memory, rows, times, tree
from threefold.specs.base import Form

if TYPE_CHECKING:
    from threefold.cli.plan import Options
    from threefold.plan.check import Check


def show(options: Options) -> tuple[list[str], int]:
    """The lines to print, and the exit code."""
    require(not options.input and options.options == "{}", "--input and --with are for a module of your own.")
    if options.compare:
        return compared(options), 0
    asked = ask(options, options.model, options.convention)
    assert asked.model is not None
    checked = _checks(asked, asked.model, options) if options.check else {}
    code = int(not all(each.holds for each in checked.values()))
    if options.json:
        data = {
            name: {"holds": each.holds, "uncounted": each.seen.unknown, "planned_counted": dict(each.pairs)}
            for name, each in checked.items()
        }
        return [as_json(asked, options, {"check": data} if data else {})], code
    return page(asked, options, _trees(asked, asked.model, options.depth), _verdict(asked, checked)), code


def page(asked: Asked, options: Options, trees: list[str], verdict: list[str]) -> list[str]:
    """Header, trees, growth, memory, what was asked besides, and the verdict last."""
    others = [ask(options, text, "") for text in options.against]
    total = asked.plan.total
    lines = [*_head(asked), "", *trees, ""]
    lines += [f"growth     {line}" for line in growth(asked.law, asked.sizes, asked.axis, asked.lost)]
    lines += ["", *memory("training memory", training(total, asked.conventions), asked.sizes)]
    lines += memory("inference memory", inference(total, asked.conventions), asked.sizes)
    said = [("against", line) for other in others for line in crossings(asked, other)]
    said += [("fits", line) for line in (fits(asked, options.fit) if options.fit else [])]
    if options.plot:
        from threefold.plan.plot import draw

        said.append(("plot", draw([(each.name, each.measures(asked.axis)) for each in (asked, *others)], options.plot)))
    lines += ["", *(f"{word:<10} {line}" for word, line in said)] if said else []
    return [*lines, "", *verdict]


def _head(asked: Asked) -> list[str]:
    sizes = " ".join(f"{axis}={size:,}" for axis, size in asked.sizes.items())
    width = f" · width {asked.model.width}" if asked.model and asked.model.width else ""
    both = " (S = T)" if asked.joined else ""
    return [f"{asked.name}{width} · {sizes}{both}", f"conventions  {asked.conventions.header}"]


def _trees(asked: Asked, model: Model, depth: int) -> list[str]:
    first, *rest = model.every
    if not rest:
        return tree(asked.plan, asked.sizes, depth)
    lines = [first.name, *tree(asked.plan, asked.sizes, depth)]
    plans = {each.name: each.plan(None, asked.conventions) for each in rest}
    for name, plan in plans.items():
        lines += ["", name, *tree(plan, asked.sizes, depth)]
    for name, plan in plans.items():
        if plan.total.params != asked.plan.total.params:
            lines += ["", *explained(asked.plan, plan, (first.name, name))]
    return lines


def compared(options: Options) -> list[str]:
    """Two models weight by weight."""
    require(len(options.compare) == 2, "--compare takes two: conventions such as tied3 untied+b, or models.")
    one, other = (_either(options, word) for word in options.compare)
    if options.json:
        found = difference(one.plan, other.plan)
        return [json.dumps([{"weights": each.name, "one": each.one, "other": each.other} for each in found], indent=2)]
    more = int(other.plan.total.params) - int(one.plan.total.params)
    verdict = f"{options.compare[1]} has {abs(more):,} parameters {'more' if more >= 0 else 'fewer'}."
    return [options.model, "", *explained(one.plan, other.plan, (options.compare[0], options.compare[1])), "", verdict]


def _either(options: Options, word: str) -> Asked:
    return ask(options, options.model, word) if word.split("+")[0] in TYINGS else ask(options, word, "")


def _checks(asked: Asked, model: Model, options: Options) -> dict[str, Check]:
    from threefold.plan.check import check

    form, chosen = Form(options.form) if options.form else None, asked.conventions
    return {
        each.name: check(each.spec, each.plan(form, chosen), asked.sizes, chosen, form, each.width)
        for each in model.every
    }


def _verdict(asked: Asked, checked: Mapping[str, Check]) -> list[str]:
    if checked:
        names = {name: f"{name}: " if len(checked) > 1 else "" for name in checked}
        return [f"{'✓' if each.holds else '✗'} {names[name]}{each.verdict}" for name, each in checked.items()]
    total = asked.plan.total.placed(asked.sizes)
    return [
        f"planned {int(total.params):,} parameters, {int(total.forward):,} FLOPs forward, {int(total.backward):,} "
        "backward, nothing built; --check counts them."
    ]


def as_json(asked: Asked, options: Options, more: Mapping[str, Any]) -> str:
    """Everything that the page says, for another program."""
    total = asked.plan.total
    data: dict[str, Any] = {
        "model": asked.name,
        "sizes": dict(asked.sizes),
        "conventions": asked.conventions.header,
        "total": _numbers(asked.plan, asked.sizes),
        "laws": {
            name: None if name in asked.lost else repr(getattr(total, name))
            for name in ("forward", "backward", "saved", "state")
        },
        "training_bytes": training(total, asked.conventions)(asked.sizes),
        "inference_bytes": inference(total, asked.conventions)(asked.sizes),
        "parts": [
            {"depth": row.depth, "name": row.name, "times": row.times, "signal": times(row.part.shape)}
            | _numbers(row.part, asked.sizes)
            for row in rows(asked.plan.placed(asked.sizes), options.depth)
        ],
    }
    if options.against:
        data["against"] = [line for text in options.against for line in crossings(asked, ask(options, text, ""))]
    if options.fit:
        data["fits"] = fits(asked, options.fit)
    return json.dumps(data | dict(more), indent=2, ensure_ascii=False)


def _numbers(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    total = plan.total.placed(sizes)
    sums = {name: int(getattr(total, name)) for name in ("params", "forward", "backward", "saved", "state")}
    return {**sums, "temporary": int(total.temporary())}
