"""The one place where a typed word becomes a spec: `lstm`, `taylor2`, `bigru`, `Softmax(heads=4)`, JSON.

A word is a class name in any case, or one of the few abbreviations below; an expression is a class called with
literals, words and further expressions, as `repr` prints a spec. Nothing is evaluated: only specs of the wanted
kind are made.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import MISSING, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from threefold.errors import InputError, nearest, require
from threefold.specs.attention import Linear
from threefold.specs.base import MixerSpec, Spec, descendants, fields_of
from threefold.specs.cross import Bidirectional
from threefold.specs.features import FeatureMap, Taylor
from threefold.specs.positions import Position
from threefold.specs.recurrent import LSTM

K = TypeVar("K", bound=Spec)
LOADED = (LSTM, Position)  # every module of mixers and positions is imported here, so that its names are known
SHOWN = {MixerSpec: ("taylor2", "bilstm", "bigru"), FeatureMap: ("taylor2",)}


def read(text: str, kind: type[K]) -> K:
    """The spec of this kind that the text names."""
    text = text.strip()
    if text.startswith("{"):
        try:
            return kind.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"{text!r} is not JSON ({error.msg} at {error.pos}).") from None
    if "(" not in text:
        return word(text, kind)
    try:
        tree = ast.parse(re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text), mode="eval").body
    except SyntaxError:
        raise InputError(f"{text!r} cannot be read; write it as Python prints it: LSTM(hidden=64).") from None
    made = _value(tree, kind)
    require(isinstance(made, kind), f"{text!r} is not a {kind.__name__}; known: {', '.join(words(kind))}.")
    return made


def word(text: str, kind: type[K]) -> K:
    """The spec of this kind that one word names."""
    low = text.lower()
    known = {name.lower(): each for name, each in _kinds(kind).items()}
    if low in known:
        return _default(known[low])
    degree = re.fullmatch(r"taylor(\d+)", low)
    made: Spec | None = None
    if degree and issubclass(kind, FeatureMap):
        made = Taylor(int(degree[1]), odd=int(degree[1]) % 2 == 1)
    elif issubclass(MixerSpec, kind):
        if degree or low in {name.lower() for name in _kinds(FeatureMap)}:
            made = Linear(features=word(low, FeatureMap))
        elif low.startswith("bi") and len(low) > 2:
            made = Bidirectional(word(low[2:], MixerSpec))
    if made is not None:
        return cast(K, made)
    options = words(kind)
    said = re.sub(r"\B([A-Z])", r" \1", kind.__name__.removesuffix("Spec")).lower()
    raise InputError(f"no {said} {text!r}{nearest(low, options)} Known: {', '.join(options)}.")


def words(kind: type[Spec]) -> tuple[str, ...]:
    """The words that name a spec of this kind, for help and for suggestions."""
    plain = [name.lower() for name, each in _kinds(kind).items() if not _needed(each)]
    return (*sorted(plain), *SHOWN.get(kind, ()))


def say(spec: Spec) -> str:
    """The shortest text that reads back as this spec: a word, or the class with the fields that are not defaults."""
    for known in (MixerSpec, FeatureMap, type(spec)):
        if isinstance(spec, known):
            for each in words(known):
                if word(each, known) == spec:
                    return each
    told = []
    for field in fields_of(spec):
        value = getattr(spec, field.name)
        if field.default is MISSING or value != field.default:
            told.append(f"{field.name}={_say(value)}")
    return f"{type(spec).__name__}({', '.join(told)})"


def _say(value: Any) -> str:
    match value:
        case Spec():
            return say(value)
        case Enum():
            return repr(value.value)
        case tuple():
            return f"({', '.join(map(_say, value))},)" if value else "()"
    return repr(value)


def _kinds(kind: type[K]) -> dict[str, type[K]]:
    import threefold.mixers.catalog  # noqa: F401  (a mixer's name is known once its module is imported)

    every: tuple[type[K], ...] = (kind, *descendants(kind))
    made = [each for each in every if not inspect.isabstract(each)]
    return {each.__name__: each for each in made if is_dataclass(each)}


def _needed(kind: type[Spec]) -> list[str]:
    return [f.name for f in fields_of(kind) if f.default is MISSING and f.default_factory is MISSING]


def _default(kind: type[K]) -> K:
    needed = _needed(kind)
    hint = ", ".join(f"{name}=..." for name in needed)
    require(not needed, f"{kind.__name__} has no default for {', '.join(needed)}: write {kind.__name__}({hint}).")
    return kind()


def _value(node: ast.expr, hint: Any) -> Any:
    """One literal, word or call, as a field of the hinted type holds it."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return _call(name, node, _spec_of(hint))
        case ast.Name(id=name) if _spec_of(hint) is not None:
            return word(name, cast(type[Spec], _spec_of(hint)))
        case ast.Tuple(elts=items) | ast.List(elts=items):
            inner = [each for each in get_args(hint) if each is not Ellipsis] or [None]
            return tuple(_value(item, inner[0]) for item in items)
        case ast.Attribute(attr=name) if isinstance(hint, type) and issubclass(hint, Enum):
            return hint[name]
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise InputError(f"{ast.unparse(node)!r} is neither a number, a text nor a known spec.") from None
    if isinstance(hint, type) and issubclass(hint, Enum):
        options = {each.value: each for each in hint}
        require(value in options, f"{value!r} is not one of {', '.join(map(repr, options))}.")
        return options[value]
    return value


def _call(name: str, node: ast.Call, kind: type[Spec] | None) -> Spec:
    known = _kinds(kind or Spec)
    wanted = (kind or Spec).__name__
    require(name in known, f"{name!r} is not a {wanted}{nearest(name, known)} Known: {', '.join(sorted(known))}.")
    chosen = known[name]
    hints, names = get_type_hints(chosen), [f.name for f in fields_of(chosen)]
    require(len(node.args) <= len(names), f"{name} takes at most {len(names)} values: {', '.join(names)}.")
    given = dict(zip(names, node.args, strict=False)) | {str(k.arg): k.value for k in node.keywords}
    for key in given:
        require(key in names, f"{name} has no field {key!r}{nearest(key, names)}")
    missing = [key for key in _needed(chosen) if key not in given]
    require(not missing, f"{name} needs {', '.join(missing)}.")
    return chosen(**{key: _value(value, hints[key]) for key, value in given.items()})


def _spec_of(hint: Any) -> type[Spec] | None:
    """The Spec class inside `Position | None`, if there is one."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((each for each in options if isinstance(each, type) and issubclass(each, Spec)), None)
