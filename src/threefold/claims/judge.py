"""Many claims at once: run, compare with the record, and put into words and JSON."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threefold.claims.claim import RUNS, Claim, Outcome, Side, Verdict, claims_in, shown
from threefold.errors import InputError, require


@dataclass(frozen=True)
class Judged:
    """A claim with the verdict that was just computed."""

    claim: Claim
    verdict: Verdict

    @property
    def moved(self) -> bool:
        """Whether the verdict is not the one on record."""
        return self.claim.moved(self.verdict)

    @property
    def headline(self) -> str:
        """The one number that says most."""
        number = self.verdict.headline
        return "" if number is None else f"{number.what} = {shown(number.value)}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data; `recorded` is empty where nobody has settled the claim."""
        claim, verdict = self.claim, self.verdict
        return {
            "id": claim.id,
            "subject": claim.subject,
            "sources": list(claim.sources),
            "says": claim.says,
            "corrected": claim.corrected,
            "recorded": claim.recorded.value if claim.recorded else "",
            "verdict": verdict.outcome.value,
            "moved": self.moved,
            "numbers": [
                {"what": n.what, "value": n.value, "needs": n.needs, "holds": n.holds, "side": n.side.value}
                for n in verdict.numbers
            ],
            "counter_example": verdict.counter_example,
            "limits": verdict.limits,
        }


def judge(claims: Iterable[Claim], runs: Path = RUNS, heard: Callable[[Judged], object] = id) -> list[Judged]:
    """Each claim's verdict; `heard` is told of each. Evidence that stops leaves its claim undecided, and says so."""
    found = []
    for claim in claims:
        try:
            verdict = claim.evidence(runs)
        except Exception as stopped:  # one broken piece of evidence must not hide the other verdicts
            says = f"the evidence stopped at {claim.where()}: {type(stopped).__name__}: {stopped}"
            verdict = Verdict(Outcome.UNDECIDED, limits=says)
        found.append(Judged(claim, verdict))
        heard(found[-1])
    return found


def from_file(path: Path) -> tuple[Claim, ...]:
    """The claims of a user's own file."""
    require(path.is_file(), f"{path} is not a file: give a Python file with functions decorated by @claim(...).")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    require(spec is not None and spec.loader is not None, f"{path} is not a Python file.")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = claims_in(vars(module))
    require(bool(found), f"{path} holds no claim: decorate an evidence function with @claim(id, says).")
    return found


def tally(judged: Iterable[Judged]) -> str:
    """`243 statements: 97 true, ...`"""
    count = Counter(each.verdict.outcome for each in judged)
    parts = [f"{count[outcome]} {outcome.value}" for outcome in Outcome if count[outcome]]
    return f"{count.total()} statement{'s' if count.total() != 1 else ''}: {', '.join(parts)}"


def reproduce(claim: Claim) -> list[str]:
    """Three lines of Python that compute the verdict."""
    return [
        "from threefold.claims import find",
        f'verdict = find("{claim.id}").evidence()',
        "print(verdict.outcome.value, *verdict.numbers, sep='\\n')",
    ]


def in_words(judged: Judged, *, own: bool = False) -> Iterator[str]:
    """One claim in detail, line by line. `own`: it comes from a user's file."""
    claim, verdict = judged.claim, judged.verdict
    moved = f"   (MOVED: recorded {claim.recorded.value})" if judged.moved and claim.recorded else ""
    yield f"{claim.id}   {verdict.outcome.value.upper()}{moved}"
    yield f"  says       {plain(claim.says)}"
    if claim.corrected:
        yield f"  {'corrected' if verdict.outcome is Outcome.FALSE else 'precisely'}  {plain(claim.corrected)}"
    for side in Side:
        numbers = [number for number in verdict.numbers if number.side is side]
        if numbers:
            yield f"  {side.value}:"
        for number in numbers:
            yield f"    {'✓' if number.holds else '✗'} {number.what} = {shown(number.value)}   (needs {number.needs})"
    if verdict.counter_example:
        yield f"  counter-example: {plain(verdict.counter_example)}"
    if verdict.limits:
        yield f"  limits: {plain(verdict.limits)}" if claim.computes else f"  {verdict.limits}"
    if claim.computes and not own:
        yield "  reproduce:"
        yield from (f"    {line}" for line in reproduce(claim))
        yield f"  evidence: {claim.where()}"


def plain(text: str) -> str:
    """A statement for a terminal: formulas without their marks, commands with them."""
    return text if "threefold " in text else text.replace("`", "")
