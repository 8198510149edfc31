"""Why the numbers can be trusted: laws with their counter-examples, and the claims of the source documents."""

from __future__ import annotations

from collections import Counter
from typing import Any

from threefold.report.figures import Bars, Row, Section, Table


def laws(judged: list[dict[str, Any]]) -> Section:
    """One row a mixer, one column a law; every broken law with its smallest case."""
    names = list(dict.fromkeys(verdict["law"] for verdict in judged))
    subjects = list(dict.fromkeys(verdict["subject"] for verdict in judged))
    status = {(verdict["subject"], verdict["law"]): verdict["status"] for verdict in judged}
    signs = {"lawful": "✓", "broken": "✗", "does not apply": "·", "cannot be run": "?"}
    rows: tuple[Row, ...] = tuple(
        (subject, *(signs.get(status.get((subject, law), ""), "") for law in names)) for subject in subjects
    )
    broken = [verdict for verdict in judged if verdict["status"] == "broken"]
    count = Counter(verdict["status"] for verdict in judged)
    lead = (
        f"{count['lawful']} verdicts lawful, {count['broken']} broken, {count['does not apply']} do not apply. "
        "A law is checked in float64 against the definition of the mixer, on lengths around every block size."
    )
    says = "✓ lawful, ✗ broken, · does not apply, ? cannot be run (the reason is in `threefold laws`)."
    parts: list[Table] = [Table("Laws", ("mixer", *names), rows, says)]
    if broken:
        shown: tuple[Row, ...] = tuple((v["subject"], v["law"], _smallest(v), v.get("replay", "")) for v in broken)
        parts.append(Table("Counter-examples", ("mixer", "law", "smallest case", "replay"), shown))
    return Section("laws", "Laws", lead, tuple(parts))


def _smallest(verdict: dict[str, Any]) -> str:
    """The case that broke the law, and by how much; or why there is none."""
    where = verdict.get("where")
    if not where:
        return str(verdict.get("reason", ""))
    return f"{where['case']}: {float(verdict['worst']):.3g}, limit {float(verdict['limit']):.3g}"


def claims(judged: list[dict[str, Any]]) -> Section:
    """How many statements of the source documents hold, by verdict, and those that moved."""
    count = Counter(claim["verdict"] for claim in judged)
    order = [verdict for verdict, _ in count.most_common()]
    bars = Bars(
        title="Statements by verdict",
        says="Every statement of the five source documents, adjudicated by code that ran.",
        y="statements",
        names=tuple(order),
        values=tuple(float(count[verdict]) for verdict in order),
    )
    moved = [claim for claim in judged if claim.get("moved")]
    parts: list[Bars | Table] = [bars]
    if moved:
        rows: tuple[Row, ...] = tuple((c["id"], c["says"], c["recorded"], c["verdict"]) for c in moved)
        parts.append(Table("Verdicts that moved", ("id", "statement", "recorded", "found"), rows))
    every: tuple[Row, ...] = tuple((c["id"], c["verdict"], c["says"]) for c in judged)
    parts.append(Table("Every statement", ("id", "verdict", "as it was made"), every))
    lead = f"{len(judged)} statements; `threefold claims ID` shows the numbers that decide one."
    return Section("claims", "Claims of the source documents", lead, tuple(parts))
