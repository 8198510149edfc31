"""Specs: frozen declarations of what to build. They print, compare, round-trip through JSON and plan their cost.

Nothing here imports torch, so that a plan needs none. A spec's *doors* (`build`, `phi`, ...) import the code that
computes when they are called, and nowhere else does a file import from further down the house.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from threefold.errors import InputError, nearest

if TYPE_CHECKING:
    from threefold.cost import Plan
    from threefold.mixers.base import Mixer
    from threefold.plan.conventions import Conventions


class Form(Enum):
    """The three ways to compute one mixer. STEP is the definition; the others are claims about it."""

    STEP = "step"
    CHUNKED = "chunked"
    PARALLEL = "parallel"


class Site(Enum):
    """Where a position encoding enters."""

    INPUT = "input"  # x + code(at), before any projection
    HEADS = "heads"  # queries and keys of each head are turned
    SCORES = "scores"  # a term is added to each query-key score
    DECAY = "decay"  # a linear mixer's state fades: ALiBi's exact counterpart


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """Declared facts about a mixer. Laws choose themselves by these."""

    causal: bool
    bounded_state: bool  # the state's bytes do not grow with T
    forms: tuple[Form, ...]  # the first is the default
    accepts: frozenset[Site]
    permutes: bool  # permuting the input permutes the output


class Spec:
    """Base of every spec: equality and repr from dataclass, JSON from here. Subclasses are frozen dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary; `spec` names the class."""
        return {"spec": type(self).__name__} | {f.name: _encode(getattr(self, f.name)) for f in fields_of(self)}

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back to an equal spec."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The spec that `to_dict` described. Only classes derived from this one are considered."""
        import threefold.mixers.catalog  # noqa: F401  (a class is known once it is imported)

        kinds = {kind.__name__: kind for kind in (cls, *descendants(cls))}
        name = data.get("spec", "")
        if name not in kinds:
            raise InputError(
                f"{name!r} is not a {cls.__name__}{nearest(name, kinds)} Known: {', '.join(sorted(kinds))}."
            )
        kind = kinds[name]
        hints = get_type_hints(kind)
        known = {f.name for f in fields_of(kind)}
        if stray := set(data) - known - {"spec"}:
            word = sorted(stray)[0]
            raise InputError(f"{name} has no field {word!r}{nearest(word, known)}")
        return kind(**{key: _decode(value, hints[key]) for key, value in data.items() if key != "spec"})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text))


def fields_of(spec: Any) -> tuple[Field[Any], ...]:
    """The fields of a spec or of its class: each that is built is a frozen dataclass, though the base is none."""
    return fields(spec)


def descendants(kind: type) -> list[type]:
    """Every class derived from `kind` so far, nearest first."""
    below: list[type] = kind.__subclasses__()
    return [each for sub in below for each in (sub, *descendants(sub))]


def _encode(value: Any) -> Any:
    match value:
        case Spec():
            return value.to_dict()
        case Enum():
            return value.value
        case tuple():
            return [_encode(item) for item in value]
    return value


def _decode(value: Any, hint: Any) -> Any:
    if isinstance(value, dict) and "spec" in value:
        return Spec.from_dict(value)
    if isinstance(value, list):
        return tuple(_decode(item, hint) for item in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return value


class MixerSpec(Spec, ABC):
    """What a user writes to choose a sequence mixer."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """The declared facts that choose this mixer's laws."""

    @abstractmethod
    def build(self, width: int) -> Mixer:
        """The module: (B, T, width) -> (B, T, width)."""

    def plan(self, width: int, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
        """Exact cost in the axes B and T. `form` None means the default form.

        The library's mixers derive it, allocating nothing; a spec of your own that does not is counted at small sizes.
        """
        from threefold.plan.tree import mixer

        return mixer(self, width, form, conventions)
