"""Measured beside planned: time and memory of the mixers at several lengths, on the machine that made the page."""

from __future__ import annotations

from typing import Any

from threefold.report.figures import Lines, Row, Section, Series, Table

Rows = list[dict[str, Any]]


def section(measured: dict[str, Any]) -> Section:
    """Rows of {mixer, T, milliseconds, flops, planned, counted, here} as curves, and the table with all."""
    rows: Rows = measured["rows"]
    lead = (
        f"Measured on {measured['machine']}, {measured['threads']} threads, width {measured['width']}, "
        f"batch {measured['batch']}. Other work on the machine shows in the times."
    )
    time = _grown(
        "Time, measured",
        "Forward and backward of one layer, the least of several repeats.",
        "milliseconds",
        _curves(rows, "milliseconds"),
    )
    kept = _grown(
        "Bytes kept for the backward pass",
        "Kept by the path that ran on this machine. The plan is of the definition, and is what is counted of that.",
        "bytes",
        _curves(rows, "here"),
    )
    return Section("speed", "Time and memory", lead, (time, kept, _both(rows)))


def _curves(rows: Rows, key: str) -> tuple[Series, ...]:
    names = dict.fromkeys(row["mixer"] for row in rows)
    own = {name: [row for row in rows if row["mixer"] == name] for name in names}
    return tuple(
        Series(name, tuple(float(row["T"]) for row in each), tuple(float(row[key]) for row in each))
        for name, each in own.items()
    )


def _grown(title: str, says: str, y: str, series: tuple[Series, ...]) -> Lines:
    return Lines(title=title, says=says, x="T (tokens)", y=y, series=series, log_x=True, log_y=True)


def _both(rows: Rows) -> Table:
    header = ("mixer", "T", "planned FLOPs", "milliseconds", "GFLOP/s", "bytes planned", "bytes counted", "kept here")
    numbers: list[Row] = []
    for row in rows:
        rate = row["flops"] / row["milliseconds"] / 1e6
        kept = (row["planned"], row["counted"], row["here"])
        numbers.append((row["mixer"], row["T"], row["flops"], row["milliseconds"], rate, *kept))
    says = (
        "Bytes kept for the backward pass, three times: planned before anything was built, counted on the definition, "
        "and kept by this machine's own path, which may keep more to be fast or less by computing it again."
    )
    return Table("Planned beside measured", header, tuple(numbers), says)
