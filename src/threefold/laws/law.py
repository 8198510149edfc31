"""A law: a statement about sequence layers, the cases that test it, a verdict, and the smallest case that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from threefold.errors import InputError
from threefold.laws.case import Case
from threefold.laws.compare import Comparison, Finding
from threefold.laws.guard import untouched
from threefold.laws.shrink import shrink
from threefold.laws.subject import Subject


class Status(Enum):
    """What a law found. The last two are never counted as lawful."""

    LAWFUL = "lawful"
    BROKEN = "broken"
    OUTSIDE = "does not apply"
    UNRUN = "cannot be run"


@dataclass(frozen=True)
class Absent:
    """Why a law gives no judgement of a subject."""

    status: Status
    reason: str


def does_not_apply(reason: str) -> Absent:
    """The law speaks of something that this subject does not claim to be."""
    return Absent(Status.OUTSIDE, reason)


def cannot_run(reason: str) -> Absent:
    """The law speaks of this subject, and there is no way in to test it."""
    return Absent(Status.UNRUN, reason)


class Declined(Exception):  # noqa: N818 (an answer, not an error)
    """This machine offers no such variant: noted, and no fault of the subject."""


@dataclass(frozen=True)
class Counterexample:
    """The smallest case found, and its worst entry."""

    case: Case
    finding: Finding


@dataclass(frozen=True)
class Verdict:
    """What one law says of one subject. `worst` is the error nearest to its limit, relative to the numbers' size."""

    law: str
    subject: str
    status: Status
    worst: float = 0.0
    limit: float = 0.0
    where: Counterexample | None = None
    witness: str = ""  # what shows that the law could have failed here
    reason: str = ""  # why it does not apply or could not be run
    notes: tuple[str, ...] = ()
    cases: int = 0

    @property
    def ok(self) -> bool:
        return self.status is Status.LAWFUL

    @property
    def broken(self) -> bool:
        return self.status is Status.BROKEN


Probe = Callable[[Subject, Case], Iterable[Comparison]]


@dataclass(frozen=True)
class Allowance:
    """A limit that a user set for one law, and the reason, which is printed with every verdict."""

    limit: float
    because: str


@dataclass(frozen=True)
class Law:
    """`applies` gives a reason not to judge, or None. `witness` says what shows that the law could fail, or why not.

    `probe` compares for one case; `cases` lists the cases; `shrinks` names the numbers of a case that it can lower.
    """

    name: str
    says: str
    applies: Callable[[Subject], Absent | None]
    cases: Callable[[Subject], Iterable[Case]]
    probe: Probe
    witness: Callable[[Subject], str | Absent]
    shrinks: tuple[str, ...] = ("T", "B", "seed", "scale")

    def check(self, subject: Subject, only: Case | None = None, allow: Allowance | None = None) -> Verdict:
        """Judge the subject on every case, or on one; shrink the first failure."""
        blank = Verdict(self.name, subject.name, Status.UNRUN)
        with untouched():
            try:
                if absent := self.applies(subject):
                    return replace(blank, status=absent.status, reason=absent.reason)
                witness = self.witness(subject)
            except InputError:
                raise
            except Exception as error:
                return replace(blank, reason=f"the layer raised {_one_line(error)}")
            if isinstance(witness, Absent):
                return replace(blank, status=witness.status, reason=witness.reason)
            trial = _Trial(self, subject, allow)
            for case in [only] if only else self.cases(subject):
                trial.take(case)
            return trial.verdict(replace(blank, witness=witness), shrinking=only is None)


@dataclass
class _Trial:
    """The running account of one law over its cases."""

    law: Law
    subject: Subject
    allow: Allowance | None
    worst: Finding | None = None
    broken: dict[str, tuple[Case, Finding]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    refused: dict[str, list[str]] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)
    shaken: list[str] = field(default_factory=list)
    count: int = 0

    def take(self, case: Case) -> None:
        """Probe one case; after a variant has failed its further cases add nothing."""
        if case.how in self.broken:
            return
        self.count += 1
        try:
            failure, worst = self.look(case)
        except Declined as error:
            self.declined.setdefault(str(error), str(case))
            return
        except Exception as error:
            self.refused.setdefault(_one_line(error), []).append(str(case))
            return
        if worst and (self.worst is None or worst.strain > self.worst.strain):
            self.worst = worst
        if failure is None:
            self.passed.add(case.how)
        elif confirmed := self.confirm(case, failure):
            self.broken[case.how] = confirmed

    def look(self, case: Case) -> tuple[Finding | None, Finding | None]:
        """(first broken comparison or None, the most strained one)."""
        worst: Finding | None = None
        for comparison in self.law.probe(self.subject, case):
            found = comparison.finding()
            if self.allow:
                found = replace(found, limit=max(found.limit, self.allow.limit))
            if worst is None or found.strain > worst.strain:
                worst = found
            if found.broken:
                return found, worst
        return None, worst

    def fails(self, case: Case) -> Finding | None:
        """For the shrinker: the failure at this case, where a refusal is no failure."""
        try:
            return self.look(case)[0]
        except Exception:
            return None

    def confirm(self, case: Case, found: Finding) -> tuple[Case, Finding] | None:
        """A failure seen with many positions side by side must show for one position alone, or it is another law's."""
        if found.at is None or case.at is not None or "at" not in self.law.shrinks:
            return case, found
        for at in dict.fromkeys((found.at, *range(min(case.T + 1, 48)))):
            single = replace(case, at=at, B=1)
            if alone := self.fails(single):
                return single, alone
        if self.law.name != "causal":
            return case, found
        self.shaken.append(f"{case}: seen only beside other rows, which is for the batch law to judge")
        return None

    def verdict(self, blank: Verdict, *, shrinking: bool) -> Verdict:
        """Add the account up."""
        notes = self.shaken[:1]
        notes += [
            f"{cases[0]}{f' and {len(cases) - 1} more' if cases[1:] else ''}: {why}"
            for why, cases in self.refused.items()
        ]
        notes += [f"{case} not tried: {why}" for why, case in self.declined.items()]
        if self.allow:
            notes.append(f"limit raised to {self.allow.limit:g} because {self.allow.because}")
        worst = self.worst
        base = replace(
            blank,
            cases=self.count,
            worst=worst.error if worst else 0.0,
            limit=worst.limit if worst else 0.0,
            notes=tuple(notes),
        )
        if self.broken:
            case, found = next(iter(self.broken.values()))
            if shrinking:
                case, found = shrink(self.fails, case, found, self.law.shrinks)
            if len(self.broken) + len(self.passed) > 1:
                held = sorted(self.passed - set(self.broken))
                parts = [f"broken for {', '.join(self.broken)}", *([f"holds for {', '.join(held)}"] if held else [])]
                base = replace(base, notes=(*base.notes, "; ".join(parts)))
            where = Counterexample(case, found)
            return replace(base, status=Status.BROKEN, worst=found.error, limit=found.limit, where=where)
        if self.refused and (self.subject.strict or not self.passed):
            why, cases = next(iter(self.refused.items()))
            status = Status.BROKEN if self.subject.strict else Status.UNRUN
            return replace(base, status=status, reason=f"the layer raised {why} at {cases[0]}")
        return replace(base, status=Status.LAWFUL)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def judge(
    subject: Subject,
    laws: tuple[Law, ...] | None = None,
    *,
    case: Case | None = None,
    allow: dict[str, Allowance] | None = None,
) -> tuple[Verdict, ...]:
    """Every law's verdict on the subject; `laws` None means all of them."""
    return tuple(judging(subject, laws, case=case, allow=allow))


def judging(
    subject: Subject,
    laws: tuple[Law, ...] | None = None,
    *,
    case: Case | None = None,
    allow: dict[str, Allowance] | None = None,
) -> Iterator[Verdict]:
    """The verdicts of `judge`, one at a time as they come."""
    if laws is None:
        from threefold.laws import LAWS

        laws = LAWS
    for law in laws:
        yield law.check(subject, case, (allow or {}).get(law.name))
