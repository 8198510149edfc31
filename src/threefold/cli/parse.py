"""From a dataclass to a command line: flags, help and one-sentence errors."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TypeVar

from threefold.errors import InputError, nearest

T = TypeVar("T")


def parse(kind: type[T], argv: list[str], prog: str) -> T:
    """The dataclass filled from `argv`. Help is printed by tyro; a wrong flag or value becomes one InputError."""
    import tyro

    caught = io.StringIO()
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(kind, args=argv, prog=f"threefold {prog}")
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InputError(_sentence(caught.getvalue(), argv)) from None


def _sentence(boxed: str, argv: list[str]) -> str:
    """Tyro's box as one sentence, with the nearest right word when a choice was missed."""
    words = " ".join(line.strip("│╭╮╰╯─ \t") for line in boxed.splitlines())
    text = re.sub(r"\s+", " ", words).strip()
    text = re.split(r"For full helptext", text)[0].strip(" ─")
    text = re.sub(r"^(Parsing error|Required options|Unrecognized options)\s*─*\s*", "", text).strip(" ─")
    if found := re.search(r"\{([^}]+)\}", text):
        choices = found.group(1).split(",")
        wrong = [word for word in argv if word not in choices and nearest(word, choices)]
        if wrong and not any(word in choices for word in argv):
            text += nearest(wrong[0], choices)
    return text or "the command line could not be read; add --help to see its options."
