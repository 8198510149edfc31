"""`@laws(...)`: a factory of a layer becomes one test a law. Importing this loads neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from threefold.errors import nearest, require
from threefold.laws import IDS

if TYPE_CHECKING:
    from threefold.laws.subject import Claims

F = TypeVar("F", bound=Callable[..., Any])
MARK = "declared_laws"


@dataclass(frozen=True)
class Declared:
    """Which laws, and what the layer is meant to be; None where nobody said, so that it is inferred."""

    names: tuple[str, ...] = IDS
    causal: bool | None = None
    permutes: bool | None = None
    relative: bool | None = None
    bounded: bool | None = None
    growth: int | None = None
    width: int | None = None
    ids: int | None = None

    def __post_init__(self) -> None:
        for name in self.names:
            require(
                name in IDS,
                f"@laws: there is no law {name!r}{nearest(name, IDS) or '.'} The laws are {', '.join(IDS)}.",
            )

    @property
    def claims(self) -> Claims:
        """As the laws read them."""
        from threefold.laws.subject import Claims

        return Claims(self.causal, self.permutes, self.relative, self.bounded, self.growth)


def laws(
    *names: str,
    causal: bool | None = None,
    permutes: bool | None = None,
    relative: bool | None = None,
    bounded: bool | None = None,
    growth: int | None = None,
    width: int | None = None,
    ids: int | None = None,
) -> Callable[[F], F]:
    """Judge what the decorated test function returns: a module, a class, a function of a sequence, or a mixer's spec.

    Without names every law is a test of its own; one that does not apply is skipped, and says why.
    """
    ordered = tuple(law for law in IDS if law in names) if names and set(names) <= set(IDS) else names or IDS
    declared = Declared(ordered, causal, permutes, relative, bounded, growth, width, ids)

    def decorate(factory: F) -> F:
        setattr(factory, MARK, declared)
        return factory

    return decorate
