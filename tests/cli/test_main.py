"""The command line answers a wrong word in one sentence, and help in a blink."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
import tyro

from threefold.cli.main import COMMANDS, SHELLS, candidates, run
from threefold.cli.parse import FlagsAsked, gathered, parse
from threefold.errors import InputError


@dataclass
class Options:
    """A command. Example: threefold try a --kind gru"""

    path: Annotated[str, tyro.conf.Positional]
    kind: Literal["gru", "lstm"] = "gru"
    count: int = 3
    rate: float = 0.1


def wrong(*argv: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(Options, list(argv), "try")
    return str(caught.value)


def test_right_words() -> None:
    assert parse(Options, ["a", "--kind", "lstm", "--count", "5"], "try") == Options("a", "lstm", 5)


def test_wrong_words_get_the_nearest_right_one() -> None:
    assert wrong("a", "--kind", "grru") == "--kind 'grru': choose one of gru, lstm; did you mean 'gru'?"
    assert wrong("a", "--knd", "gru").startswith("--knd is not an option; did you mean '--kind'?")
    assert wrong("a", "--count", "z") == "--count: 'z' is not a whole number."
    assert wrong("a", "--rate", "z") == "--rate: 'z' is not a number."
    assert "path is needed" in wrong()
    assert "was not expected here" in wrong("a", "b") or "not an option" in wrong("a", "b")


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trian"]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and "did you mean 'train'?" in seen.err and seen.err.count("\n") == 1


def test_help_groups_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0 and run(["--help"]) == 0
    seen = capsys.readouterr().out
    assert all(f"  {command.name}" in seen for command in COMMANDS)
    assert [line for line in seen.splitlines() if line.endswith(":")][:4] == ["understand:", "build:", "use:", "see:"]


def test_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert candidates(["tr"]) == ["train"]
    assert candidates([""]) == [command.name for command in COMMANDS]
    assert candidates(["train", "some"]) == []
    with pytest.raises(FlagsAsked) as asked:
        parse(Options, ["--list-options"], "try")
    assert {"--kind", "--count", "--rate"} <= set(asked.value.flags)
    for shell in SHELLS:
        assert run(["--completion", shell]) == 0
    assert run(["--completion", "tcsh"]) == 2
    assert "give bash, zsh or fish" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_with_an_example(command, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert command.load().run(["--help"]) == 0
    except SystemExit as stop:
        assert stop.code in (0, None)
    seen = capsys.readouterr().out
    assert f"threefold {command.name}" in " ".join(seen.split()), seen


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        run(["trian", "--debug"])


def on_a_terminal(*argv: str, **environment: str) -> str:
    """What a command writes where it can see a terminal."""
    ours, theirs = pty.openpty()
    told = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PYTHON_TYRO_ANSI_CODES")}
    command = [sys.executable, "-m", "threefold", *argv]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=told | {"TERM": "xterm-256color"} | environment)
    os.close(theirs)
    seen = b""  # a terminal that ends is an error to its reader
    with (
        contextlib.suppress(OSError),
        os.fdopen(ours, "rb", buffering=0) as reader,
    ):  # the end of a terminal is an error
        while piece := reader.read(4096):
            seen += piece
    assert child.wait(60) == 0
    return seen.decode()


def test_colour_on_a_terminal_only_and_never_against_its_will(capsys: pytest.CaptureFixture[str]) -> None:
    coloured = re.compile("\x1b\\[[\\d;]*m")
    assert coloured.search(on_a_terminal("report", "--help"))
    assert not coloured.search(on_a_terminal("report", "--help", NO_COLOR="1"))
    assert not coloured.search(on_a_terminal("claims", "C5", NO_COLOR="1"))
    with pytest.raises(SystemExit):
        run(["report", "--help"])
    assert "\x1b[" not in capsys.readouterr().out


def test_an_option_given_twice() -> None:
    from threefold.cli.bench import Options as Bench
    from threefold.cli.laws import Options

    assert gathered(Options, ["a.py:A", "--law", "causal", "--json", "--law=batch"]) == [
        *("a.py:A", "--json", "--law", "causal", "batch"),
    ]
    with pytest.raises(InputError, match="--seconds is given twice"):
        gathered(Bench, ["--seconds", "1", "--seconds=2"])
