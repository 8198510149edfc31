"""The house has one direction: a file imports from folders above its own, never from below."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "threefold"
ORDER = (
    ("errors", "shapes", "poly", "cost"),
    ("specs",),
    ("ops",),
    ("kernels",),
    ("positions",),
    ("mixers",),
    ("nets",),
    ("plan",),
    ("laws",),
    ("data",),
    ("train",),
    ("recipes",),
    ("claims",),
    ("report",),
    ("explore",),
    ("bench",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def imported(tree: ast.AST) -> list[tuple[str, int]]:
    """Every `threefold` module that is imported, with its line; what only a type checker reads does not count."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("threefold"):
            names = [node.module] if node.module != "threefold" else [f"threefold.{a.name}" for a in node.names]
            found += [(name, node.lineno) for name in names]
        elif isinstance(node, ast.Import):
            found += [(a.name, node.lineno) for a in node.names if a.name.startswith("threefold")]
    return found


def doors(tree: ast.AST) -> set[int]:
    """Lines inside functions: a spec's methods may import what they build."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return {line for f in functions for line in range(f.lineno, (f.end_lineno or f.lineno) + 1)}


def violations(path: Path, text: str) -> list[str]:
    """The imports of one file that point down the house."""
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part == "__init__":
        return []
    tree = ast.parse(text)
    inside = doors(tree) if part in ("specs", "nets") else set()
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for name, line in imported(tree)
        if len(name.split(".")) > 1 and RANK.get(name.split(".")[1], -1) > RANK[part] and line not in inside
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_up(path: Path) -> None:
    assert not violations(path, path.read_text())


def test_a_downward_import_is_seen() -> None:
    assert violations(ROOT / "ops" / "x.py", "def f():\n    from threefold.mixers import base\n")
    assert not violations(ROOT / "specs" / "x.py", "def build():\n    from threefold.mixers import base\n")
    assert violations(ROOT / "specs" / "x.py", "from threefold.mixers import base\n")
    assert not violations(ROOT / "mixers" / "x.py", "from threefold.ops import scan\n")


def test_every_folder_has_a_place() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert parts <= set(RANK) | {"__init__"}


def test_specs_and_cost_need_no_torch() -> None:
    for path in [*(ROOT / "specs").glob("*.py"), ROOT / "poly.py", ROOT / "cost.py", ROOT / "errors.py"]:
        tree = ast.parse(path.read_text())
        checked = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        skipped = {line for n in checked for line in range(n.lineno, (n.end_lineno or 0) + 1)} | doors(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno not in skipped:
                assert "torch" not in ast.unparse(node), f"{path.name}:{node.lineno}"
