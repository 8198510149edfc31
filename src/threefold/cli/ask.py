"""What the training commands share: recipes and specs as options, runs by folder, and how progress is shown."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from threefold.cli.parse import parse
from threefold.errors import InputError, nearest
from threefold.specs.base import Spec
from threefold.specs.words import read, say, words

if TYPE_CHECKING:
    from threefold.recipes.recipe import Recipe
    from threefold.train.progress import Progress

R = TypeVar("R", bound="Recipe")
Shown = Literal["auto", "live", "lines", "json", "none"]


def recipe_kind(word: str) -> type[Recipe]:
    """The recipe of this name."""
    from threefold.recipes import RECIPES

    known = {kind.name: kind for kind in RECIPES}
    if word not in known:
        raise InputError(f"no recipe {word!r}{nearest(word, known)} Known: {', '.join(known)}.")
    return known[word]


def recipes_told() -> str:
    """The recipes, one a line."""
    from threefold.recipes import RECIPES

    return "".join(f"  {kind.name:<12}{kind.says}\n" for kind in RECIPES)


def options(kind: type[R], *others: tuple[str, Any, Any], default: R | None = None, says: str = "") -> type:
    """A dataclass of a recipe's fields, without a prefix, and of `others` (name, type, default)."""
    import tyro

    hint: Any = kind  # known only when it runs, so not a type to a checker
    flat = Annotated[hint, tyro.conf.arg(name=""), tyro.conf.EnumChoicesFromValues]
    rest = [(name, hint, field(default=value)) for name, hint, value in others]
    made = make_dataclass("Options", [("recipe", flat, field(default=default or cast(Any, kind)())), *rest])
    made.__doc__ = says or kind.says
    return made


def parse_recipe(kind: type, argv: list[str], prog: str) -> Any:
    """As `parse`, where a field that holds any spec of a kind is one word, and `--data PATH` is its path."""
    argv = ["--data.path" + word[6:] if word == "--data" or word.startswith("--data=") else word for word in argv]
    with _words():
        return parse(kind, argv, prog)


@contextmanager
def _words() -> Iterator[None]:
    import tyro

    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        kind = info.type
        if not (isinstance(kind, type) and issubclass(kind, Spec)):
            return None
        if is_dataclass(kind) and not inspect.isabstract(kind):
            return None
        known = words(kind)
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="|".join(known) if known else kind.__name__,
            instance_from_str=lambda given: read(given[0], kind),
            is_instance=lambda value: isinstance(value, kind),
            str_from_instance=lambda value: [say(value)],
        )

    with registry:
        yield


def shown(how: Shown) -> Progress:
    """The progress that was asked for; `auto` is a live bar on a terminal and sparse lines in a log."""
    from threefold.train.progress import JsonLines, Lines, Silent

    match "live" if how == "auto" and sys.stdout.isatty() else "lines" if how == "auto" else how:
        case "live":
            from threefold.cli.live import Live

            return Live()
        case "lines":
            return Lines(_write)
        case "json":
            return JsonLines(_write)
    return Silent()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def free_folder(name: str) -> Path:
    """runs/<name>, or with the first number that is free behind it: made, so that nobody else gets it."""
    number = 1
    while True:
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
