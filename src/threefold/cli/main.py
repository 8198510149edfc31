"""The command line: a table of commands, loaded one at a time so that help needs no torch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module

from threefold.errors import InputError, nearest


@dataclass(frozen=True)
class Command:
    """One command: `module` holds `run(argv) -> exit code` and, in its docstring, an example."""

    name: str
    group: str
    says: str

    def load(self) -> object:
        """The module `threefold.cli.<name>`."""
        return import_module(f"threefold.cli.{self.name}")


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


def usage() -> str:
    """The help: commands by what a person wants."""
    lines = ["usage: threefold COMMAND ...", ""]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        lines += [f"{group}:", *(f"  {c.name:<10}{c.says}" for c in COMMANDS if c.group == group), ""]
    return "\n".join([*lines, "`threefold COMMAND --help` shows its options and an example."])


def run(argv: list[str]) -> int:
    """Dispatch; an InputError becomes one sentence and exit 2."""
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(usage() + "\n")
        return 0
    debug = "--debug" in argv
    name, *rest = [word for word in argv if word != "--debug"]
    try:
        command = {c.name: c for c in COMMANDS}.get(name)
        if command is None:
            raise InputError(f"no command {name!r}{nearest(name, (c.name for c in COMMANDS))} `threefold --help` lists them.")
        return command.load().run(rest)  # type: ignore[attr-defined]
    except InputError as error:
        if debug:
            raise
        sys.stderr.write(f"threefold {name}: {error}\n")
        return 2


def main() -> None:
    """Entry point."""
    sys.exit(run(sys.argv[1:]))
