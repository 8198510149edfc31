"""What only runs can decide: which runs, what is measured on them, and the rule that turns seeds into a verdict.

At least five seeds, paired; the statement is supported if the 95% bootstrap interval of the paired difference lies on
its side, refuted if it lies on the other, undecided otherwise. Nothing here trains: verdicts are read from run folders,
and, where there are none, from what was measured when the authors ran the same commands (recorded.json).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from threefold.claims.claim import Evidence, Number, Outcome, Side, Verdict
from threefold.claims.experiments.recorded import sessions
from threefold.errors import InputError
from threefold.specs.base import Spec
from threefold.train.metrics import Interval, bootstrap
from threefold.train.record import Run

SEEDS = 5


@dataclass(frozen=True)
class Arm:
    """One variant: a name, and the fields of the recipe that make it, by dotted path."""

    name: str
    fields: Mapping[str, Any]

    def matches(self, recipe: Mapping[str, Any]) -> bool:
        """Whether a recorded recipe is of this arm."""
        return all(at(recipe, path) == plain(value) for path, value in self.fields.items())


@dataclass(frozen=True)
class Experiment:
    """Arms of one recipe, the same seeds for each, and the commands that make the runs."""

    id: str
    asks: str
    recipe: str
    arms: tuple[Arm, ...]
    commands: tuple[str, ...]
    seeds: int = SEEDS
    needs: str = ""
    chosen: str = ""  # what a reader must know of how its settings were settled

    @property
    def folder(self) -> tuple[str, ...]:
        """Where its commands put the runs, below the folder of all runs."""
        return Path(self.commands[0].rpartition("--run ")[2]).parts[1:]

    @property
    def how(self) -> str:
        """What to type."""
        return "; ".join(f"`{command}`" for command in self.commands)


@dataclass(frozen=True)
class Finished:
    """A run that is done, read when asked."""

    run: Run
    recipe: dict[str, Any] = field(repr=False)

    @cached_property
    def test(self) -> dict[str, Any]:
        """What was measured on the test set."""
        return self.run.rows("test")[-1]

    @property
    def seconds(self) -> float:
        """Time of the processor spent in training, which other work on the machine does not stretch."""
        return float((self.run.done or {})["processor_seconds"])

    @property
    def gap(self) -> float:
        """Test loss over the mean training loss of the last epoch."""
        rows = self.run.rows("train")
        losses = [row["loss"] for row in rows if row["epoch"] == rows[-1]["epoch"]]
        return float(self.test["loss"]) - sum(losses) / len(losses)


Pair = Mapping[str, Finished]  # one seed: a finished run for each arm, by name


@dataclass(frozen=True)
class Question:
    """One number per seed. It has to be above 0; with `within`, its mean has to lie in that distance of 0 instead."""

    experiment: Experiment
    what: str
    measure: Callable[[Pair], float]
    within: float | None = None

    @property
    def rule(self) -> str:
        """The experiment, its recipe, what is measured, on how many seeds, and what decides."""
        e, bound = self.experiment, "above 0" if self.within is None else f"within ±{self.within:g}"
        against = "below 0" if self.within is None else "outside"
        return (
            f"{e.id}, {e.asks} (recipe {e.recipe}): {self.what}. Supported if the 95 % bootstrap interval over "
            f"{e.seeds} paired seeds lies {bound}, refuted if {against}, else undecided"
        )

    def decide(self, interval: Interval) -> Outcome:
        """Supported, refuted or undecided."""
        if self.within is not None:
            if -self.within <= interval.low and interval.high <= self.within:
                return Outcome.TRUE
            return Outcome.FALSE if interval.low > self.within or interval.high < -self.within else Outcome.UNDECIDED
        return {1: Outcome.TRUE, -1: Outcome.FALSE, 0: Outcome.UNDECIDED}[interval.decides()]

    def verdict(self, runs: Path) -> Verdict:
        """What the records under a folder say; where it holds too few, what the records say that come along."""
        experiment = self.experiment
        if experiment.needs:
            return Verdict(Outcome.NOT_RUN, limits=f"{experiment.id}: {experiment.needs}")
        where, pairs = paired(experiment, runs)
        if len(pairs) >= experiment.seeds:
            return self._judged([self.measure(pair) for pair in pairs.values()], f"{experiment.id} in {where}")
        session = sessions().get(experiment.id)
        if not pairs and session and self.what in session.answers:
            values = list(session.answers[self.what].values())
            more = f" {experiment.chosen}" if experiment.chosen else ""
            return self._judged(values, f"{experiment.id} on {session}", f"{more} {experiment.how} runs it again.")
        have = f"{len(pairs)} of {experiment.seeds} seeds are recorded in {where}; " if pairs else ""
        return Verdict(Outcome.NOT_RUN, limits=f"{experiment.id}: {have}not run yet: {experiment.how} runs it.")

    def _judged(self, differences: Sequence[float], by: str, more: str = "") -> Verdict:
        interval = bootstrap(differences)
        outcome = self.decide(interval)
        rule = "> 0" if self.within is None else f"within ±{self.within:g}"
        low, high = f"{interval.low:.4g}", f"{interval.high:.4g}"
        told = {Outcome.TRUE: "supported", Outcome.FALSE: "refuted"}.get(outcome, "undecided")
        number = Number(
            f"{self.what}, mean of {len(differences)} seeds",
            interval.mean,
            f"{rule}; 95% interval {low} to {high}",
            outcome is Outcome.TRUE,
            Side.SAID,
        )
        each = ", ".join(f"{difference:.4g}" for difference in differences)
        return Verdict(outcome, (number,), limits=f"{told} by {by}; per seed: {each}.{more}")


def asked(*questions: Question) -> Callable[[Evidence], Verdict]:
    """Evidence of one or more questions: refuted if any is, supported if all are."""

    def collect(e: Evidence) -> Verdict:
        verdicts = [question.verdict(e.runs) for question in questions]
        outcomes = [verdict.outcome for verdict in verdicts]
        order = (Outcome.FALSE, Outcome.NOT_RUN, Outcome.UNDECIDED, Outcome.TRUE)
        numbers = tuple(number for verdict in verdicts for number in verdict.numbers)
        limits = " ".join(dict.fromkeys(verdict.limits for verdict in verdicts))
        return Verdict(min(outcomes, key=order.index), numbers, limits=limits)

    return collect


def paired(experiment: Experiment, runs: Path) -> tuple[Path, dict[int, Pair]]:
    """By seed, one finished run of each arm, all alike in everything that the arms do not vary; and where they lie.

    The folder that the experiment's own command writes to comes first; without enough seeds there, any runs count.
    """
    own = runs.joinpath(*experiment.folder)
    if len(pairs := _largest(experiment, own)) >= experiment.seeds:
        return own, pairs
    return runs, _largest(experiment, runs)


def _largest(experiment: Experiment, runs: Path) -> dict[int, Pair]:
    varied = {path for arm in experiment.arms for path in arm.fields} | {"train.seed"}
    groups: dict[str, dict[int, dict[str, Finished]]] = {}
    for found in finished(experiment.recipe, runs):
        arm = next((arm for arm in experiment.arms if arm.matches(found.recipe)), None)
        if arm is not None:
            rest = repr(sorted(flat(found.recipe, varied).items()))
            groups.setdefault(rest, {}).setdefault(at(found.recipe, "train.seed"), {})[arm.name] = found
    complete: list[dict[int, Pair]] = [
        {seed: pair for seed, pair in sorted(seeds.items()) if len(pair) == len(experiment.arms)}
        for seeds in groups.values()
    ]
    return max(complete, key=len, default={})


def finished(recipe: str, runs: Path) -> Iterator[Finished]:
    """Every finished run of a recipe below a folder."""
    from threefold.recipes import RECIPES

    kind = next(kind.__name__ for kind in RECIPES if kind.name == recipe)
    for path in sorted(runs.rglob("done")):
        try:
            run = Run.open(path.parent)
            found = run.recipe
        except InputError:
            continue
        if found.get("spec") == kind and run.rows("test"):
            yield Finished(run, found)


def at(recipe: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = recipe
    for word in path.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def flat(recipe: Mapping[str, Any], without: set[str], prefix: str = "") -> dict[str, Any]:
    """All fields by dotted path, but some."""
    found: dict[str, Any] = {}
    for key, value in recipe.items():
        path = f"{prefix}{key}"
        if path in without:
            continue
        if isinstance(value, Mapping):
            found |= flat(value, without, f"{path}.")
        else:
            found[path] = value
    return found


def plain(value: Any) -> Any:
    """A field's value as a record holds it."""
    if isinstance(value, Spec):
        return value.to_dict()
    return getattr(value, "value", value)
