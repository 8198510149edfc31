"""A module that the library did not declare: what it takes, counted on the meta device, and planned from its counts."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from threefold.cost import Cost, Most, Plan, Poly, as_poly
from threefold.errors import InputError, require
from threefold.plan.conventions import Conventions
from threefold.plan.count import Count, count
from threefold.plan.interpolate import Laws, laws

KINDS = ("float", "data", "int", "bool")


@dataclass(frozen=True)
class Input:
    """One input: axes and sizes, and what it holds. `float` wants a gradient, as inside a net; `data` does not."""

    axes: tuple[str | int, ...]
    kind: str = "float"

    @classmethod
    def parse(cls, text: str) -> Input:
        """`B,T:int`, `B,T,64`."""
        shape, _, kind = text.partition(":")
        words = [word.strip() for word in shape.split(",")]
        known = kind in KINDS or not kind
        fits = all(re.fullmatch(r"[A-Z][A-Za-z]*|[1-9]\d*", word) for word in words)
        require(
            known and fits,
            f"--input {text!r}: write axes (capitals) and sizes, then what it holds: B,T:int or B,T,64:float; "
            f"kinds are {', '.join(KINDS)}.",
        )
        return cls(tuple(int(word) if word.isdigit() else word for word in words), kind or "float")

    def made(self, sizes: Mapping[str, int], dtype: torch.dtype, device: str) -> Tensor:
        """Zeros, or no numbers at all on the meta device."""
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in self.axes]
        kinds = {"int": torch.long, "bool": torch.bool}
        made = torch.zeros(shape, dtype=kinds.get(self.kind, dtype), device=device)
        return made.requires_grad_(self.kind == "float")

    def __str__(self) -> str:
        return ",".join(map(str, self.axes)) + f":{self.kind}"


@dataclass(frozen=True)
class Own:
    """A module and its inputs, ready to be counted at any sizes."""

    name: str
    module: nn.Module | Callable[..., Any]
    inputs: tuple[Input, ...]
    conventions: Conventions
    grad: bool = True
    device: str = "meta"

    @property
    def axes(self) -> tuple[str, ...]:
        """The named axes of all inputs."""
        return tuple(dict.fromkeys(axis for each in self.inputs for axis in each.axes if isinstance(axis, str)))

    def count(self, sizes: Mapping[str, int]) -> Count:
        """Forward and backward once."""
        dtype = getattr(torch, self.conventions.dtype.value)
        given = [each.made(sizes, dtype, self.device) for each in self.inputs]
        with torch.device(self.device), nullcontext() if self.grad else torch.no_grad():
            return count(self.module, *given, scores=self.conventions.scores)


def built(
    thing: Any, options: Mapping[str, Any], inputs: Sequence[Input], device: str = "meta"
) -> nn.Module | Callable[..., Any]:
    """The module that a class, a factory or an instance gives, without memory if it can be; or a function."""
    if isinstance(thing, nn.Module):
        return copy.deepcopy(thing).to(device)
    if not inspect.isclass(thing) and not options and _takes(thing) == len(inputs):
        return thing
    try:
        with torch.device(device):
            made = thing(**options)
    except Exception:  # it computes while it is built
        made = thing(**options)
    require(
        isinstance(made, nn.Module) or callable(made),
        f"{getattr(thing, '__name__', thing)} gives a {type(made).__name__}: name a module, a class or a factory.",
    )
    return made.to(device) if isinstance(made, nn.Module) else made


def _takes(thing: Any) -> int:
    """Arguments that it must be given."""
    parameters = inspect.signature(thing).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


@dataclass(frozen=True)
class Found:
    """The laws of a module's counts, as a plan, and what could not be counted."""

    plan: Plan
    laws: Laws
    lost: tuple[str, ...]  # quantities that have no law: what is shown was counted at the sizes
    unknown: tuple[str, ...]


SUMS = ("forward", "backward", "saved", "temporary")


def planned(own: Own, sizes: Mapping[str, int]) -> Found:
    """Count at small sizes and find the laws, then count at these sizes; where a law does not hold there, it goes."""
    unknown: set[str] = set()

    def counts(at: Mapping[str, int]) -> dict[str, int]:
        seen = own.count(at)
        unknown.update(seen.unknown)
        return {name: getattr(seen, name) for name in SUMS} | {f"row {path}": n for path, n in seen.rows.items()}

    try:
        here = counts(sizes)
        found = laws(counts, own.axes, sizes)
    except InputError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        given = " ".join(f"--input {each}" for each in own.inputs)
        raise InputError(
            f"{own.name} cannot be run on {given or 'no input'} ({type(error).__name__}: {said}); "
            "give what its forward takes."
        ) from error
    wrong = tuple(name for name, law in found.of.items() if law.placed(sizes)() != here[name])
    of = {name: law for name, law in found.of.items() if name not in wrong}
    lost = tuple(name for name in SUMS if name not in of)
    whole = {name: of.get(name, as_poly(value)) for name, value in here.items()}
    return Found(_tree(own, whole), found, lost, tuple(sorted(unknown)))


def _tree(own: Own, of: Mapping[str, Poly]) -> Plan:
    """Modules as parts; backward, saved and temporary bytes belong to the whole."""
    whole = Cost(backward=of["backward"], saved=of["saved"], temporary=Most([of["temporary"]]))
    if not isinstance(own.module, nn.Module):
        return Plan(own.name, whole + Cost(forward=of["forward"]))
    inside = _part(own.name, "", own.module, of, {})
    rest = of["forward"] - inside.total.forward
    return replace(inside, own=inside.own + whole + Cost(forward=rest))


def _part(name: str, path: str, module: nn.Module, of: Mapping[str, Poly], seen: dict[Any, str]) -> Plan:
    weights, frozen = [], 0
    for label, weight in module.named_parameters(recurse=False):
        place = (weight.untyped_storage()._cdata, weight.storage_offset(), weight.shape)
        if place not in seen:
            seen[place] = f"{path}.{label}"
            weights.append((f"{path}.{label}".strip("."), weight.numel()))
            frozen += 0 if weight.requires_grad else weight.numel()
    parts = tuple(
        _part(label, f"{path}.{label}".strip("."), child, of, seen) for label, child in module.named_children()
    )
    below = sum((part.total.forward for part in parts), as_poly(0))
    row = of.get(f"row {path}", as_poly(0))
    own_forward = row - below if row else as_poly(0)  # a list of modules is never called itself
    params = as_poly(sum(size for _, size in weights))
    cost = Cost(params=params, frozen=as_poly(frozen), forward=own_forward)
    return Plan(name, cost, parts, note=type(module).__name__, weights=tuple(weights))
