"""From `path/to/file.py:Layer` or `pkg.mod:Layer` to a subject."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from threefold.errors import InputError, nearest
from threefold.laws.foreign import Bare, ModuleSubject
from threefold.laws.ours import FeatureSubject, MixerSubject
from threefold.laws.subject import Claims, Subject
from threefold.mixers.base import Mixer
from threefold.specs.base import MixerSpec
from threefold.specs.features import FeatureMap


def load(where: str) -> Any:
    """The object that `file.py:Name` or `pkg.mod:Name` names."""
    source, colon, name = where.rpartition(":")
    if not colon or not source or not name:
        raise InputError(f"{where!r} names no layer: write path/to/file.py:Layer or pkg.mod:Layer.")
    module = _file(Path(source)) if source.endswith(".py") else _module(source)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [word for word in vars(module) if not word.startswith("_")]
            raise InputError(f"{source} has no {name!r}{nearest(name, known)}")
        found = getattr(found, part)
    return found


def _file(path: Path) -> Any:
    if not path.is_file():
        near = nearest(path.name, [p.name for p in path.parent.glob("*.py")]) if path.parent.is_dir() else "."
        raise InputError(f"there is no file {path}{near}")
    spec = importlib.util.spec_from_file_location(f"judged_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"{name} cannot be imported: {error}. Write path/to/file.py:Layer or pkg.mod:Layer."
        ) from error


def subject_of(
    thing: Any,
    name: str = "",
    *,
    options: dict[str, Any] | None = None,
    claims: Claims = Claims(),  # noqa: B008
    width: int | None = None,
    vocabulary: int | None = None,
) -> Subject:
    """Adapt a spec, a mixer, a feature map, a module, a class, a factory, or a function of a sequence."""
    name = name or getattr(thing, "__name__", type(thing).__name__)
    if isinstance(thing, Subject):
        return thing
    make = _maker(thing, name, options or {})
    made = make()
    if isinstance(made, MixerSpec):
        return MixerSubject(made, width or 12, name=name)
    if isinstance(made, Mixer):
        return MixerSubject(made.spec, made.width, make=make, name=name)
    if isinstance(made, FeatureMap) or (
        callable(getattr(made, "phi", None)) and not callable(getattr(made, "forward", None))
    ):
        return FeatureSubject(made, name=name)
    if not isinstance(made, nn.Module):
        raise InputError(
            f"{name} is a {type(made).__name__}: give a module, its class, a factory, or a function of a sequence."
        )
    return ModuleSubject(make, name, claims, width, vocabulary)


def _maker(thing: Any, name: str, options: dict[str, Any]) -> Callable[[], Any]:
    """What builds the thing anew each time."""
    if inspect.isclass(thing):
        fits(thing, name, options)
        return partial(thing, **options)
    if isinstance(thing, nn.Module):
        return lambda: copy.deepcopy(thing)
    if isinstance(thing, (MixerSpec, FeatureMap)) or not callable(thing) or callable(getattr(thing, "phi", None)):
        return lambda: thing
    required = [
        p for p in inspect.signature(thing).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    if len(required) == 1 and required[0].name not in options:
        return lambda: Bare(thing)
    fits(thing, name, options)
    return partial(thing, **options)


def fits(thing: Any, name: str, options: dict[str, Any]) -> None:
    """The options are those that it takes, and none is missing."""
    parameters = inspect.signature(thing).parameters
    loose = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if stray := [word for word in options if word not in parameters and not loose]:
        raise InputError(f"{name} takes no {stray[0]!r}{nearest(stray[0], parameters)}")
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY)
    missing = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind in plain and p.name not in options
    ]
    if missing:
        example = ", ".join(f'"{word}": 16' for word in missing)
        raise InputError(f"{name} needs {', '.join(missing)}: add --with '{{{example}}}'.")
