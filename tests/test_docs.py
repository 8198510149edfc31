"""Every fenced command in README and docs runs: python in a fresh interpreter, console lines in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])


class Block(NamedTuple):
    """A fenced block: its language, its text, and the comment that stands before it."""

    language: str
    text: str
    note: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page; a note may stand before one.

    `<!-- slow -->`, `<!-- not run: reason -->`, or `<!-- as printed -->`: every line but `...` is one that was printed.
    """
    pattern = re.compile(
        r"(?:<!-- (?P<note>[^>]*) -->\s*)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
    )
    return [Block(m["language"], m["text"], m["note"] or "") for m in pattern.finditer(page)]


def cases() -> list:
    found = []
    for page in PAGES:
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8"))):
            if block.language in ("python", "console"):
                marks = [pytest.mark.slow] if block.note == "slow" else []
                marks += [pytest.mark.skip(reason=block.note)] if block.note.startswith("not run:") else []
                found.append(pytest.param(block, id=f"{page.relative_to(REPOSITORY)}-{number}", marks=marks))
    return found


def run(command: list[str] | str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
    result = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


@pytest.mark.parametrize("block", cases())
def test_block_runs(block: Block, tmp_path: Path) -> None:
    for name in ("docs", "examples"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    if block.language == "python":
        run([sys.executable, "-W", "error", "-c", block.text], tmp_path)
        return
    commands = re.findall(r"^\$ (.+)$", block.text, re.MULTILINE)
    assert commands, "a console block shows commands as `$ command`"
    for command in commands:
        expects = re.search(r"#\s*exits? (\d)", command)
        run(f"({command}\n); test $? -eq {expects.group(1)}" if expects else command, tmp_path)


def test_blocks_are_found() -> None:
    page = "a\n<!-- slow -->\n```console\n$ true\n```\n```python\nx = 1\n```\n"
    assert blocks(page) == [Block("console", "$ true\n", "slow"), Block("python", "x = 1\n", "")]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(REPOSITORY)} links to {target}"
