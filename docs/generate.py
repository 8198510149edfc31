"""Fill the generated parts of README and docs from CATALOG, LAWS, RECIPES, COMMANDS and benchmark results.

A generated part stands between `<!-- generated: name -->` and `<!-- end -->`. Run: make docs
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def mixers() -> str:
    """Mixers by forms and positions, from the specs' own traits."""
    from threefold.mixers.catalog import CATALOG
    from threefold.specs.base import Form

    rows: dict[str, dict[str, set[str]]] = {}
    for spec in CATALOG:
        features = getattr(spec, "features", None)
        name = type(spec).__name__ + (f"({type(features).__name__})" if features else "")
        if not spec.traits.causal:
            name += ", both ways" if name != "Bidirectional" else ""
        row = rows.setdefault(name, {"forms": set(), "positions": set(), "state": set()})
        row["forms"] |= {form.value for form in spec.traits.forms}
        position = getattr(spec, "position", None)
        row["positions"] |= {type(position).__name__} if position else set()
        row["state"] |= {"fixed" if spec.traits.bounded_state else "grows with T"} if spec.traits.causal else {"–"}
    order = [form.value for form in Form]
    lines = [
        "| mixer | " + " | ".join(order) + " | positions of its own | state |",
        "|---|" + "---|" * (len(order) + 2),
    ]
    for name, row in rows.items():
        cells = ["✓" if form in row["forms"] else "" for form in order]
        lines.append(
            f"| `{name}` | {' | '.join(cells)} | {', '.join(sorted(row['positions'])) or '–'} | {'/'.join(row['state'])} |"
        )
    return "\n".join(lines)


def laws() -> str:
    """One line a law, with its page."""
    from threefold.laws.all import LAWS
    from threefold.laws.describe import listing

    return listing(LAWS, "docs/laws/")


def law_pages() -> str:
    """The same, from beside the pages."""
    from threefold.laws.all import LAWS
    from threefold.laws.describe import listing

    return listing(LAWS, "")


def recipes() -> str:
    """One row a recipe."""
    from threefold.recipes import RECIPES

    return "\n".join(["| recipe | |", "|---|---|", *(f"| `{kind.name}` | {kind.says} |" for kind in RECIPES)])


def commands() -> str:
    """One row a command."""
    from threefold.cli.main import COMMANDS

    rows = [f"| {c.group} | `threefold {c.name}` | {c.says} |" for c in COMMANDS]
    return "\n".join(["| to | command | |", "|---|---|---|", *rows])


def results() -> str:
    """The newest benchmark's ratios, as they were measured."""
    path = REPOSITORY / "benchmarks" / "results" / "targets.json"
    if not path.exists():
        return "No benchmark has been recorded yet: `make bench` records one."
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = ["| work | against | ours | theirs | ratio | wanted |", "|---|---|---|---|---|---|"]
    for row in found["rows"]:
        lines.append(
            "| " + " | ".join(str(row[key]) for key in ("work", "against", "ours", "theirs", "ratio", "wanted")) + " |"
        )
    return "\n".join([*lines, "", found["conditions"]])


PARTS = {made.__name__: made for made in (mixers, laws, law_pages, recipes, commands, results)}


def filled(text: str) -> str:
    """The page with every generated part made anew, looking in the directory of the page for links."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[3]}", text)


def main() -> int:
    """Write the pages; with --check, only say which are out of date."""
    stale = [page for page in PAGES if filled(text := page.read_text(encoding="utf-8")) != text]
    if "--check" in sys.argv:
        sys.stdout.write("".join(f"{page.relative_to(REPOSITORY)} is out of date: make docs\n" for page in stale))
        return int(bool(stale))
    for page in stale:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
