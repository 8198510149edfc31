"""From a dataclass to a command line: flags, help, completion, and one-sentence errors."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import fields
from typing import Any, TypeVar

from threefold.errors import InputError, nearest, require

T = TypeVar("T")
ASK_FLAGS = "--list-options"  # what shell completion gives a command to learn its options


class FlagsAsked(Exception):  # noqa: N818 (it is an answer, not an error)
    """The options of a command, asked for by shell completion."""

    def __init__(self, flags: list[str]) -> None:
        super().__init__()
        self.flags = flags


def parse(kind: type[T], argv: list[str], prog: str) -> T:
    """The dataclass filled from `argv`. Help is printed by tyro; a wrong flag or value becomes one InputError."""
    import tyro

    if argv[:1] == [ASK_FLAGS]:
        raise FlagsAsked(flags(kind))
    argv, caught = gathered(kind, argv), io.StringIO()
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(kind, args=argv, prog=f"threefold {prog}")
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InputError(sentence(caught.getvalue(), prog)) from None


def gathered(kind: type, argv: list[str]) -> list[str]:
    """The words with all values of a list behind its first mention (`--law a --law b`); other options come once."""
    lists = {f"--{f.name}".replace("_", "-") for f in fields(kind) if "tuple" in str(f.type)}
    places: dict[str, list[str]] = {"": []}
    for word in argv:
        flag, equals, value = word.partition("=")
        if not re.match(r"--[a-z]", word):
            places[list(places)[-1]].append(word)
        elif flag not in places:
            places[flag] = [value] if equals else []
        elif flag in lists:
            places[flag] = [*places.pop(flag), *([value] if equals else [])]
        else:
            raise InputError(f"{flag} is given twice: give it once.")
    return [word for flag, values in places.items() for word in ([flag] if flag else []) + values]


def json_object(text: str) -> dict[str, Any]:
    """The constructor's arguments that `--with` gives."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--with {text!r} is not JSON ({error.msg}): write --with '{{\"d_model\": 64}}'.") from None
    require(isinstance(value, dict), f"--with {text!r} is not a JSON object: write --with '{{\"d_model\": 64}}'.")
    return value


def flags(kind: type) -> list[str]:
    """The options that the help of a command shows."""
    import tyro

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        tyro.cli(kind, args=["--help"])
    return sorted(set(re.findall(r"--[a-z][\w.-]*", shown.getvalue())))


def sentence(boxed: str, prog: str) -> str:
    """Tyro's box as one sentence: what was given, what is needed, the nearest right word."""
    words = " ".join(line.strip("│╭╮╰╯─ \t") for line in boxed.splitlines())
    text = re.sub(r"(-{5,}|\s)+", " ", words).strip()  # where the terminal speaks ASCII, boxes are drawn with hyphens
    text = re.split(r" ?─*╯? ?For full helptext", text)[0].strip(" ─")
    if found := re.search(r"invalid choice '?([^']*)'? for argument '?([^\s']+)'?\. Expected one of \(([^)]*)\)", text):
        wrong, flag, listed = found.groups()
        choices = re.findall(r"'([^']*)'", listed)
        return f"{flag} {wrong!r}: choose one of {', '.join(choices)}{nearest(wrong, choices)}"
    if found := re.search(r"Unrecognized options?:? (-\S+?),? ?(?=\s|$)", text):
        wrong = found.group(1).rstrip(",")
        meant = nearest(wrong, re.findall(r"(--[\w.-]+)", text[found.end() :]))
        return f"{wrong} is not an option{meant} `threefold {prog} --help` lists them."
    if found := re.search(r"Unrecognized options?:? (.+?)(?: Perhaps|$)", text):
        return f"{found.group(1)!r} was not expected here; `threefold {prog} --help` shows what is."
    if found := re.search(r"(?:Missing from|required)[^:]*: (.+?)(?: Argument helptext|$)", text):
        missing = re.sub(r"\s*\(required\)", "", found.group(1))
        return f"{missing} is needed; `threefold {prog} --help` shows an example."
    if found := re.search(r"Error parsing ([^:]+): (.+?)(?: Argument helptext|$)", text):
        flag, reason = found.group(1), _plain(found.group(2))
        return f"{flag}: {reason}." if flag.startswith("--") else f"{reason}."  # a whole part says itself what is wrong
    return text or "the command line could not be read; add --help to see its options."


def _plain(reason: str) -> str:
    """Python's words for a wrong value as a person's."""
    reason = re.sub(r"invalid literal for int\(\) with base 10: (.+)", r"\1 is not a whole number", reason)
    return re.sub(r"could not convert string to float: (.+)", r"\1 is not a number", reason).rstrip(". ")
