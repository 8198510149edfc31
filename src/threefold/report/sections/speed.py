"""Measured beside planned: time and memory of the mixers at several lengths, on the machine that made the page."""

from __future__ import annotations

from typing import Any

from threefold.report.figures import Figure, Lines, Section, Series, Table


def section(measured: dict[str, Any]) -> Section:
    """Rows of {mixer, T, milliseconds, flops, saved, planned_saved} as curves, and the table with both."""
    rows = measured["rows"]
    names = list(dict.fromkeys(row["mixer"] for row in rows))

    def curve(key: str) -> tuple[Series, ...]:
        own = {name: [row for row in rows if row["mixer"] == name] for name in names}
        return tuple(
            Series(name, tuple(float(row["T"]) for row in each), tuple(float(row[key]) for row in each))
            for name, each in own.items()
        )

    x = "T (tokens)"
    parts: tuple[Figure | Table, ...] = (
        Lines(
            title="Time, measured",
            says="Forward and backward of one layer, the least of several repeats.",
            x=x,
            y="milliseconds",
            series=curve("milliseconds"),
            log_x=True,
            log_y=True,
        ),
        Lines(
            title="Bytes saved for the backward pass, counted",
            says="What autograd keeps; the plan gives the same number before anything is built.",
            x=x,
            y="bytes",
            series=curve("saved"),
            log_x=True,
            log_y=True,
        ),
        Table(
            "Planned beside measured",
            ("mixer", "T", "planned FLOPs", "milliseconds", "GFLOP/s", "planned bytes saved", "counted bytes saved"),
            tuple(
                (
                    row["mixer"],
                    row["T"],
                    row["flops"],
                    row["milliseconds"],
                    row["flops"] / row["milliseconds"] / 1e6,
                    row["planned_saved"],
                    row["saved"],
                )
                for row in rows
            ),
        ),
    )
    machine = (
        f"{measured['machine']}, {measured['threads']} threads, width {measured['width']}, batch {measured['batch']}"
    )
    return Section(
        "speed", "Time and memory", f"Measured on {machine}. Other work on the machine shows in the times.", parts
    )
