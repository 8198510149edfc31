"""Sizes that keep the code readable, and promises about what an import costs."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "threefold"
FILES = sorted(
    [*SOURCE.rglob("*.py"), *(REPOSITORY / "tests").rglob("*.py"), *(REPOSITORY / "benchmarks").rglob("*.py")]
)
LINES_PER_FILE, LINES_PER_FUNCTION, PARAMETERS = 300, 50, 8


def over_budget(text: str) -> list[str]:
    """What in one file is too long, takes too much, or passes on what it does not name."""
    found = [f"{len(text.splitlines())} lines"] if len(text.splitlines()) > LINES_PER_FILE else []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (length := (node.end_lineno or 0) - node.lineno + 1) > LINES_PER_FUNCTION:
            found.append(f"{node.name}: {length} lines")
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if node.name == "__init__" and len([n for n in names if n != "self"]) > PARAMETERS:
            found.append(f"{node.name} at {node.lineno}: {len(names)} parameters")
        if node.args.kwarg is not None:
            passed = re.search(rf"\*\*{node.args.kwarg.arg}\b", "".join(ast.unparse(n) for n in node.body))
            found += [f"{node.name}: passes **{node.args.kwarg.arg} through"] if passed else []
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_sizes(path: Path) -> None:
    assert not over_budget(path.read_text())


def test_an_overrun_is_seen() -> None:
    assert over_budget("x = 1\n" * 301)
    assert over_budget("def f():\n" + "    x = 1\n" * 51)
    assert over_budget("class A:\n    def __init__(self, a, b, c, d, e, f, g, h, i): pass\n")
    assert over_budget("def f(**options):\n    g(**options)\n")
    assert not over_budget("def f(a, *, b):\n    return a\n")


def test_the_library_never_prints() -> None:
    for path in SOURCE.rglob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)


def test_import_is_silent_and_touches_nothing() -> None:
    code = (
        "import os, random, sys; import torch, numpy\n"
        "before = dict(os.environ), random.getstate(), torch.get_rng_state().tolist(), torch.get_num_threads()\n"
        "import threefold\n"
        "after = dict(os.environ), random.getstate(), torch.get_rng_state().tolist(), torch.get_num_threads()\n"
        "assert before == after\n"
        "late = {'sklearn', 'matplotlib', 'jinja2', 'soundfile', 'rich', 'tyro', 'pandas', 'ray', 'onnx'}\n"
        "heavy = late & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = run(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_help_needs_no_torch() -> None:
    result = run(
        "import sys; from threefold.cli.main import run; assert run(['--help']) == 0; assert 'torch' not in sys.modules"
    )
    assert result.returncode == 0, result.stderr
    assert "understand:" in result.stdout


def test_plan_of_a_preset_needs_no_torch() -> None:
    result = run("import sys; import threefold.cost, threefold.specs.recurrent; assert 'torch' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_the_project_speaks_of_itself_only() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    private = re.compile(
        "|".join((r"/wor" + "k/", r"/ro" + "ot/", r"/tm" + "p/team", "pypi-" + "more", r"\bsub" + "agent"))
    )
    for name in listed:
        path = REPOSITORY / name
        if path.suffix in {".py", ".md", ".toml", ".cpp", ".h", ".html", ".json", ".yml"} and path.exists():
            found = private.search(path.read_text(encoding="utf-8"))
            assert not found, f"{name}: {found and found.group()}"


@pytest.mark.skipif(not os.environ.get("CI") and not (REPOSITORY / ".git").exists(), reason="needs the repository")
def test_no_large_file_is_tracked() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    sizes = {name: (REPOSITORY / name).stat().st_size for name in listed if (REPOSITORY / name).exists()}
    assert not {name: size for name, size in sizes.items() if size > 1_000_000}
