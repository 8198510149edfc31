"""A statement, the numbers that decide it, and the verdict that follows from them.

Nobody writes a verdict. An evidence function adds numbers, each with what it needs to be, on one of four sides:

- `said`: must hold for the statement as it was made;
- `when` and `otherwise`: must hold under a condition, and is tried without it;
- `truth`: must hold for the corrected statement.

`weigh` turns the numbers into the verdict; what was recorded is only compared with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isnan
from pathlib import Path
from typing import Any

from threefold.errors import InputError, nearest, require

RUNS = Path("runs")  # where run records are looked for, unless another folder is given


class Outcome(Enum):
    """What a verdict can be."""

    TRUE = "true"
    CONDITIONAL = "true under a condition"
    FALSE = "false"
    UNDECIDED = "undecided"
    NOT_RUN = "not run yet"
    DEFINITION = "definition"
    BLANK = "blank"


class Side(Enum):
    """What a number speaks for."""

    SAID = "as said"
    WHEN = "under the condition"
    OTHERWISE = "without the condition"
    TRUTH = "as corrected"


Value = float | int | str


@dataclass(frozen=True)
class Need:
    """What a number has to be, in words and as a test."""

    says: str
    test: Callable[[Any], bool]


def at_most(bound: float) -> Need:
    """Not above the bound; NaN is above every bound."""
    return Need(f"≤ {bound:g}", lambda value: value <= bound)


def above(bound: float) -> Need:
    """Strictly above the bound."""
    return Need(f"> {bound:g}", lambda value: value > bound)


def below(bound: float) -> Need:
    """Strictly below the bound."""
    return Need(f"< {bound:g}", lambda value: value < bound)


def equals(target: Value | bool) -> Need:
    """Exactly this integer, word or truth value."""
    return Need(f"= {shown(target)}", lambda value: value == target)


def near(target: float, within: float) -> Need:
    """Within an absolute distance of the target."""
    return Need(f"= {target:g} to {within:g}", lambda value: abs(value - target) <= within)


def printed(digits: str) -> Need:
    """The number that was printed: equal to its last digit."""
    mantissa, _, power = digits.replace(",", "").partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    target = float(digits.replace(",", ""))
    return Need(f"= {digits}", lambda value: abs(value - target) <= 0.501 * unit)


@dataclass(frozen=True)
class Number:
    """One measured value beside what it needs to be."""

    what: str
    value: Value
    needs: str
    holds: bool
    side: Side

    def __str__(self) -> str:
        return f"{self.what} = {shown(self.value)} ({'' if self.holds else 'not '}{self.needs})"


def shown(value: Value) -> str:
    """A number as a person writes it: exact integers with separators, six digits otherwise."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return "nan" if isnan(value) else f"{value:.6g}"


@dataclass(frozen=True)
class Verdict:
    """The outcome, the numbers it follows from, a counter-example small enough to read, and what was not checked."""

    outcome: Outcome
    numbers: tuple[Number, ...] = ()
    counter_example: str = ""
    limits: str = ""

    @property
    def headline(self) -> Number | None:
        """The one number to show: the one that decided against the statement, else the first in its favour."""
        against = (n for n in self.numbers if not n.holds)
        return next(against, self.numbers[0] if self.numbers else None)


@dataclass
class Evidence:
    """What an evidence function writes on."""

    numbers: list[Number] = field(default_factory=list)
    counter: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    runs: Path = RUNS

    def said(self, what: str, value: Any, need: Need) -> None:
        """A number that the statement as made needs."""
        self._add(what, value, need, Side.SAID)

    def when(self, what: str, value: Any, need: Need) -> None:
        """A number that the statement needs, measured where its condition holds."""
        self._add(what, value, need, Side.WHEN)

    def otherwise(self, what: str, value: Any, need: Need) -> None:
        """The same number where the condition does not hold: the statement is conditional if this fails."""
        self._add(what, value, need, Side.OTHERWISE)

    def truth(self, what: str, value: Any, need: Need) -> None:
        """A number that the corrected statement needs."""
        self._add(what, value, need, Side.TRUTH)

    def counter_example(self, text: str) -> None:
        """A case, small enough to read, in which the statement fails."""
        self.counter.append(text)

    def limit(self, text: str) -> None:
        """What these numbers do not show."""
        self.limits.append(text)

    def _add(self, what: str, value: Any, need: Need, side: Side) -> None:
        plain = value.item() if hasattr(value, "item") else value
        self.numbers.append(Number(what, plain, need.says, bool(need.test(plain)), side))

    def verdict(self) -> Verdict:
        """What the numbers say."""
        require(bool(self.numbers), "this evidence holds no numbers: call e.said(...), e.when(...) or e.truth(...).")
        outcome = weigh(self.numbers)
        limits = list(self.limits)
        if broken := [n for n in self.numbers if n.side is Side.TRUTH and not n.holds]:
            limits.append("The correction itself fails: " + "; ".join(map(str, broken)))
        counter = list(self.counter) if outcome in (Outcome.FALSE, Outcome.CONDITIONAL) else []
        if outcome in (Outcome.FALSE, Outcome.CONDITIONAL) and not counter:
            counter = ["; ".join(str(n) for n in [n for n in self.numbers if not n.holds][:2])]
        return Verdict(outcome, tuple(self.numbers), " ".join(counter), " ".join(limits))


def weigh(numbers: Iterable[Number]) -> Outcome:
    """The verdict that numbers give. A correction that fails leaves the matter open, whatever else was found.

    Where every number speaks for the correction, the document said nothing: a blank, filled.
    """
    numbers = list(numbers)
    failed = {number.side for number in numbers if not number.holds}
    if Side.TRUTH in failed:
        return Outcome.UNDECIDED
    if failed & {Side.SAID, Side.WHEN}:
        return Outcome.FALSE
    if all(number.side is Side.TRUTH for number in numbers):
        return Outcome.BLANK
    return Outcome.CONDITIONAL if Side.OTHERWISE in failed else Outcome.TRUE


Collect = Callable[[Evidence], Verdict | None]


@dataclass(frozen=True)
class Claim:
    """One statement. `recorded` is what its verdict was when it was last settled; None means that nobody has said."""

    id: str
    says: str
    corrected: str = ""
    sources: tuple[str, ...] = ()
    subject: str = ""
    recorded: Outcome | None = None
    collect: Collect | None = None
    picture: Callable[[], str] | None = None

    def evidence(self, runs: Path = RUNS) -> Verdict:
        """Compute the numbers now and weigh them; what only runs can decide is read from `runs`.

        A definition or a blank has no numbers, and says so. Whatever is drawn, a layer's weights too, is drawn alike
        each time, so that a verdict that moves has a reason.
        """
        if self.collect is None:
            return Verdict(self.recorded or Outcome.DEFINITION)
        import torch  # here, because statements can be listed without it

        evidence = Evidence(runs=runs)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            result = self.collect(evidence)
        return result if isinstance(result, Verdict) else evidence.verdict()

    @property
    def computes(self) -> bool:
        """Whether there is anything to compute."""
        return self.collect is not None

    def moved(self, verdict: Verdict) -> bool:
        """Whether a verdict differs from the one on record."""
        return self.recorded is not None and verdict.outcome is not self.recorded

    def where(self) -> str:
        """File and line of the evidence."""
        if self.collect is None:
            return ""
        code = inspect.unwrap(self.collect).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"


def claim(
    id: str,
    says: str,
    corrected: str = "",
    *,
    recorded: Outcome | None = None,
    sources: tuple[str, ...] = (),
    subject: str = "",
    picture: Callable[[], str] | None = None,
) -> Callable[[Collect], Claim]:
    """Make a Claim of an evidence function. The source is the id up to its first hyphen unless it is given."""

    def decorate(collect: Collect) -> Claim:
        named = subject or collect.__module__.removeprefix("threefold.claims.").split(".")[0]
        return Claim(id, says, corrected, sources or _source(id), named, recorded, collect, picture)

    return decorate


def stated(id: str, says: str, corrected: str, recorded: Outcome, subject: str) -> Claim:
    """A row with nothing to compute: a definition, or a place that the document leaves empty."""
    require(
        recorded in (Outcome.DEFINITION, Outcome.BLANK),
        f"{id}: only a definition or a blank may stand without evidence; give it an evidence function.",
    )
    return Claim(id, says, corrected, _source(id), subject, recorded)


def _source(id: str) -> tuple[str, ...]:
    return (id.split("-")[0],) if "-" in id else ()


def claims_in(namespace: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims that a module defines, in the order in which it defines them."""
    groups = [value if isinstance(value, tuple) else (value,) for name, value in namespace.items() if name != "CLAIMS"]
    return tuple(value for group in groups for value in group if isinstance(value, Claim))


def find(id: str, claims: Iterable[Claim]) -> Claim:
    """The claim with this id, in any case."""
    known = {c.id.lower(): c for c in claims}
    if id.lower() not in known:
        close = nearest(id.lower(), known)
        meant = next((f"; did you mean {c.id!r}?" for low, c in known.items() if repr(low) in close), ".")
        raise InputError(f"no claim {id!r}{meant} `threefold claims` lists them.")
    return known[id.lower()]
