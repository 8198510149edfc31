"""Verdicts for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from threefold.laws import IDS
from threefold.laws.law import Law, Status, Verdict
from threefold.specs.base import Spec, fields_of

MARKS = {Status.LAWFUL: "✓", Status.BROKEN: "✗", Status.OUTSIDE: "·", Status.UNRUN: "?"}


def number(value: float) -> str:
    """Short, and exact where it is short."""
    return f"{value:.6g}" if isfinite(value) else "NaN or inf" if value != value else "infinite"


def lines(verdict: Verdict, says: str, replay: str) -> list[str]:
    """A verdict as a person reads it: one line, and for a failure the smallest case."""
    head = f"{MARKS[verdict.status]} {verdict.law:<12}{verdict.status.value}"
    if verdict.ok:
        limit = "to the bit" if not verdict.limit else f"worst {verdict.worst:.1e}, limit {verdict.limit:.1e}"
        return [f"{head:<32}{limit}, {verdict.cases} cases; {verdict.witness}", *_notes(verdict)]
    if not verdict.broken:
        return [f"{head:<32}{verdict.reason}"]
    if verdict.where is None:
        return [f"{head:<32}{says}", f"    {verdict.reason}", *_notes(verdict)]
    case, found = verdict.where.case, verdict.where.finding
    limit = "0, to the bit" if not found.limit else f"{found.limit:.1e}"
    return [
        f"{head:<32}{says}",
        f"    smallest case  {case}",
        *([f"    what happens   {found.remark}"] if found.remark else []),
        f"    where          {found.place()}: expected {number(found.expected)}, got {number(found.got)}",
        f"    by how much    {number(found.error)} of the largest expected entry; limit {limit}",
        *_notes(verdict),
        f"    replay         {replay}",
    ]


def _notes(verdict: Verdict) -> list[str]:
    return [f"    note           {note}" for note in verdict.notes]


def summary(verdicts: tuple[Verdict, ...]) -> str:
    """One line: how many of each."""
    counts = {status: sum(v.status is status for v in verdicts) for status in Status}
    return ", ".join(f"{status.value}: {count}" for status, count in counts.items() if count)


def as_dict(verdict: Verdict, replay: str) -> dict[str, Any]:
    """For JSON: the same, with nothing that JSON cannot say."""
    data = asdict(verdict)
    data["status"] = verdict.status.value
    if verdict.where is not None:
        data["where"]["case"] = str(verdict.where.case)
        data["replay"] = replay
    return _sayable(data)


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def brief(spec: Spec) -> str:
    """A spec without the fields that are at their defaults, and without the sizes of the catalogue's instances."""
    shown = []
    for f in fields_of(spec):
        value = getattr(spec, f.name)
        if value == f.default or f.name in ("chunk", "key_dim", "value_dim", "heads"):
            continue
        text = brief(value) if isinstance(value, Spec) else str(getattr(value, "value", value))
        shown.append(
            text if isinstance(value, Spec) or f.name in ("degree", "activation", "reset") else f"{f.name}={text}"
        )
    return f"{type(spec).__name__}({', '.join(shown)})" if shown else type(spec).__name__


def listing(laws: tuple[Law, ...], folder: str) -> str:
    """The laws as a Markdown list with links to their pages in `folder`: generated, never typed."""
    return "\n".join(f"- [`{law.name}`]({folder}{law.name}.md): {law.says}" for law in laws)


def legend() -> str:
    """The marks, and the columns by number."""
    marks = "  ".join(f"{mark} {status.value}" for status, mark in MARKS.items())
    return f"{marks}\n" + "  ".join(f"{i} {name}" for i, name in enumerate(IDS, 1))
