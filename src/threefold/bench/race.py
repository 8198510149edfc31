"""One race: our work beside theirs, taking turns, the smallest time of at least seven counting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from threefold.specs.base import MixerSpec

Work = Callable[[], object]
REPEATS, SECONDS, MOST = 7, 0.7, 300  # at least so many turns, and more while a work's time is not used up


@dataclass(frozen=True, kw_only=True)
class Race:
    """Two pieces of work. The ratio says how much better ours is, and should be at least `wanted`.

    With `at_most` it is our cost over theirs instead, and should be at most that. With `flops`, the arithmetic of ours
    and of theirs, rates are compared. With `counts`, the works are not timed: they return the numbers, in this unit.
    """

    work: str
    against: str
    ours: Work
    theirs: Work
    wanted: float | None = None
    at_most: bool = False
    flops: tuple[float, float] | None = None
    counts: str = ""
    spec: MixerSpec | None = None  # what is raced, so that it can be judged first


@dataclass(frozen=True)
class Row:
    """A race that was run: two numbers in one unit."""

    race: Race
    ours: float
    theirs: float

    @property
    def unit(self) -> str:
        return self.race.counts or ("GFLOP/s" if self.race.flops else "ms")

    @property
    def ratio(self) -> float:
        """How many times better we are; for a limit, how many times theirs our cost is."""
        more = self.race.at_most or self.race.flops is not None
        return self.ours / self.theirs if more else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the promise holds; None where none was made."""
        wanted = self.race.wanted
        if wanted is None:
            return None
        return self.ratio <= wanted if self.race.at_most else self.ratio >= wanted

    @property
    def promise(self) -> str:
        """The promise in words."""
        wanted = self.race.wanted
        return "" if wanted is None else f"{'at most' if self.race.at_most else 'at least'} {wanted:g}x"

    def to_dict(self) -> dict[str, object]:
        """As a result file holds it: words for tables, numbers for programs."""
        return {
            "work": self.race.work,
            "against": self.race.against,
            "ours": f"{number(self.ours)} {self.unit}",
            "theirs": f"{number(self.theirs)} {self.unit}",
            "ratio": f"{number(self.ratio)}x",
            "wanted": self.promise,
            "met": self.met,
            "numbers": {"ours": self.ours, "theirs": self.theirs, "ratio": self.ratio, "wanted": self.race.wanted},
        }


def number(value: float) -> str:
    """Three digits, and no exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def smallest(works: list[Work], repeats: int = REPEATS, seconds: float = SECONDS) -> list[float]:
    """The smallest time of each in seconds; they take turns, so that what disturbs one disturbs all."""
    for work in works:
        work()
    best, spent, turns = [float("inf")] * len(works), 0.0, 0
    while turns < repeats or (spent < seconds * len(works) and turns < MOST):
        for i, work in enumerate(works):
            start = perf_counter()
            work()
            taken = perf_counter() - start
            best[i], spent = min(best[i], taken), spent + taken
        turns += 1
    return best


def run(race: Race, repeats: int = REPEATS, seconds: float = SECONDS) -> Row:
    """Both works, in turns."""
    if race.counts:
        ours, theirs = (float(str(work())) for work in (race.ours, race.theirs))
        return Row(race, ours, theirs)
    ours, theirs = smallest([race.ours, race.theirs], repeats, seconds)
    if race.flops:
        return Row(race, race.flops[0] / ours / 1e9, race.flops[1] / theirs / 1e9)
    return Row(race, 1e3 * ours, 1e3 * theirs)
