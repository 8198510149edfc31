"""Single examples, seen: what a speech model heard and where it looked, and which words spoke for a label."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from threefold.report.figures import Contributions, Figure, Matrix, Section, Sound
from threefold.report.records import Group

SHOWN = 3  # of each variant


def section(group: Group, slug: str) -> Section | None:
    """The recorded examples of a group's runs; None when nothing was recorded."""
    parts: list[Sound | Contributions] = []
    for name, runs in group.variants.items():
        rows = next((run.samples for run in runs if run.samples), ())
        parts += [part for row in rows[:SHOWN] if (part := _part(name, row))]
    if not parts:
        return None
    lead = "From the test set, as they came."
    if any(isinstance(part, Contributions) for part in parts):
        lead += (
            " Green words spoke for the guess, red ones against it: the change of its log-probability when the word is "
            "left out, as a share of the sentence's largest."
        )
    return Section(f"{slug}-examples", f"{group.name}: examples", lead, tuple(parts))


def _part(name: str, row: dict[str, Any]) -> Sound | Contributions | None:
    if "reference" in row:
        return Sound(name, row["reference"], row["hypothesis"], _sound(row.get("wav", "")), _pictures(row))
    if "words" in row:
        words = tuple((str(word), float(weight)) for word, weight in row["words"])
        right = "rightly" if row["guess"] == row["label"] else f"wrongly, labelled {row['label']}"
        says = f"Guessed {row['guess']}, {right}."
        return Contributions(name, says, words)
    return None


def _sound(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _pictures(row: dict[str, Any]) -> tuple[Figure, ...]:
    found: list[Figure] = []
    if row.get("spectrogram"):
        # Time runs to the right and pitch upwards, as in every phonetics book.
        bands = tuple(tuple(float(v) for v in band) for band in zip(*row["spectrogram"], strict=True))[::-1]
        says = "Log-mel energies: time to the right, pitch upwards."
        found.append(Matrix(title="Spectrogram", says=says, rows="mel band", columns="frame", values=bands))
    if row.get("alignment"):
        found.append(
            Matrix(
                title="Where the decoder looked",
                says="Each row is a symbol that was written; dark is where in the sound its attention lay.",
                rows="symbol",
                columns="frame of the encoder",
                values=tuple(tuple(float(v) for v in line) for line in row["alignment"]),
                row_names=tuple(row.get("symbols", ())),
            )
        )
    return tuple(found)
