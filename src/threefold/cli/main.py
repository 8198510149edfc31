"""The command line: a table of commands, loaded one at a time so that help needs no torch."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Protocol, cast

from threefold.cli.parse import ASK_FLAGS, FlagsAsked
from threefold.errors import InputError, nearest, require


class Runs(Protocol):
    """What a command's module offers."""

    def run(self, argv: list[str]) -> int:
        """Do it; the exit code."""


@dataclass(frozen=True)
class Command:
    """One command: `module` holds `run(argv) -> exit code` and, in its docstring, an example."""

    name: str
    group: str
    says: str

    def load(self) -> Runs:
        """The module `threefold.cli.<name>`."""
        return cast(Runs, import_module(f"threefold.cli.{self.name}"))


COMMANDS = (
    Command("plan", "understand", "what a model costs, before it is built"),
    Command("laws", "understand", "whether a sequence layer is right, and the smallest case where it is not"),
    Command("claims", "understand", "the source documents' statements, adjudicated by running code"),
    Command("explore", "understand", "the report page, live, on this machine"),
    Command("train", "build", "train a recipe"),
    Command("resume", "build", "continue a run that was stopped"),
    Command("compare", "build", "vary a recipe over mixers, settings and seeds"),
    Command("evaluate", "build", "measure a run on data"),
    Command("predict", "use", "apply a run to files or sentences"),
    Command("stream", "use", "transcribe audio as it comes"),
    Command("export", "use", "a folder that loads with one line, and ONNX where it can be"),
    Command("report", "see", "one page about one or more runs"),
    Command("bench", "see", "time the mixers beside their peers"),
    Command("doctor", "see", "which paths are active on this machine, and why not"),
    Command("data", "see", "what data is here; fetch and check it"),
    Command("demo", "see", "train, judge, plan and report, in three minutes"),
)


SHELLS = {
    "bash": '_threefold() { COMPREPLY=($(threefold --complete "${COMP_WORDS[@]:1}")); }\n'
    "complete -o default -F _threefold threefold\n",
    "zsh": "#compdef threefold\n_threefold() { compadd -- $(threefold --complete ${words[2,-1]}) || _files; }\n"
    "compdef _threefold threefold\n",
    "fish": "complete -c threefold -a '(threefold --complete (commandline -opc)[2..] (commandline -ct))'\n",
}


def usage() -> str:
    """The help: commands by what a person wants."""
    lines = ["usage: threefold COMMAND ...", ""]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        lines += [f"{group}:", *(f"  {c.name:<10}{c.says}" for c in COMMANDS if c.group == group), ""]
    return "\n".join(
        [
            *lines,
            "`threefold COMMAND --help` shows its options and an example; --debug shows where an error came from.",
            "Completion: `source <(threefold --completion bash)` (or zsh, fish).",
        ]
    )


def run(argv: list[str]) -> int:
    """Dispatch; an InputError becomes one sentence and exit 2."""
    debug = "--debug" in argv
    name, *rest = [word for word in argv if word != "--debug"] or ["--help"]
    try:
        match name:
            case "-h" | "--help":
                sys.stdout.write(usage() + "\n")
            case "--version":
                sys.stdout.write(f"threefold {version('threefold')}\n")
            case "--completion":
                sys.stdout.write(completion(rest))
            case "--complete":
                sys.stdout.write("\n".join(candidates(rest)) + "\n")
            case _:
                return _command(name).load().run(rest)
        return 0
    except InputError as error:
        if debug:
            raise
        sys.stderr.write(f"threefold {name}: {error}\n")
        return 2
    except BrokenPipeError:  # `threefold ... | head`: the reader has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except OSError as error:  # a place that cannot be written, a full disk
        if debug or not error.strerror:
            raise
        sys.stderr.write(f"threefold {name}: {error.filename or 'a file'}: {error.strerror}; give another place.\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        return 130


def _command(name: str) -> Command:
    command = next((c for c in COMMANDS if c.name == name), None)
    if command is None:
        near = nearest(name, (c.name for c in COMMANDS))
        raise InputError(f"there is no command {name!r}{near} `threefold --help` lists them.")
    return command


def examples(command: Command) -> list[str]:
    """The command lines that a command's help shows."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        command.load().run(["--help"])
    lines = (re.sub(r"^Examples?: ", "", line.strip()) for line in shown.getvalue().splitlines())
    wanted = re.compile(rf"(?:[\w -]+\| )?threefold {command.name}\b(?! \[|.*\.\.\.)")
    return [each.strip() for line in lines if wanted.match(line) for each in line.split(" · ")]


def completion(words: list[str]) -> str:
    """The script that makes a shell complete our words."""
    shell = words[0] if words else ""
    require(shell in SHELLS, f"--completion {shell!r}: give bash, zsh or fish.")
    return SHELLS[shell]


def candidates(words: list[str]) -> list[str]:
    """What could stand in the place of the last word."""
    *before, last = words or [""]
    if not before:
        return [c.name for c in COMMANDS if c.name.startswith(last)]
    if not last.startswith("-"):
        return []  # a file or a value: the shell's own completion
    try:
        _command(before[0]).load().run([ASK_FLAGS])
    except FlagsAsked as asked:
        return [flag for flag in asked.flags if flag.startswith(last)]
    except InputError:
        pass
    return []


def main() -> None:
    """Entry point."""
    if os.environ.get("NO_COLOR"):  # rich knows it; tyro, which writes the help of a command, has its own word for it
        os.environ.setdefault("PYTHON_TYRO_ANSI_CODES", "False")
    sys.exit(run(sys.argv[1:]))
