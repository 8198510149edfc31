"""One self-contained page from sections of figures. It reads what was recorded and runs no model."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.errors import InputError
from threefold.report.figures import Figure, Panel, Section, Sound, Table
from threefold.report.numbers import number

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class Page:
    """What a reader sees: a title, what was found in a few lines, and the sections that show it."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    findings: tuple[str, ...] = ()
    footer: str = ""
    live: bool = False  # served by explore: panels may ask their own server, and nobody else's


def render(page: Page, more: str = "") -> str:
    """The page as one HTML text with no reference to anything outside itself. `more` is script that adds panels."""
    figures = list(_figures(page))
    panels = [part for section in page.sections for part in section.parts if isinstance(part, Panel)]
    data = {
        "figures": [figure.to_dict() | {"table": figure.table()} for figure in figures],
        "panels": [{"name": panel.name, "title": panel.title, "data": panel.data} for panel in panels],
    }
    environment = _environment()
    part = environment.get_template("part.html")

    def draw(item: Any) -> Any:
        from markupsafe import Markup

        # The template escapes every value that enters it; only its own markup is passed on as markup.
        return Markup(
            part.render(
                part=item,
                kind=type(item).__name__,
                index=lambda figure: _place(figures, figure),
                panel=lambda live: _place(panels, live),
                wav=lambda sound: "data:audio/wav;base64," + base64.b64encode(sound.wav).decode(),
                difference=difference,
            )
        )

    return environment.get_template("page.html").render(
        page=page,
        css=_asset("page.css"),
        js="\n".join((_asset("charts.js"), _asset("panels.js"), more, _asset("page.js"))),
        data=_embedded(data),
        draw=draw,
        nonce=secrets.token_urlsafe(12),
        connect="'self'" if page.live else "'none'",
    )


def write(page: Page, path: Path) -> Path:
    """Render to a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".html")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(render(page))
    os.chmod(name, 0o644)
    os.replace(name, path)
    return path


def difference(reference: str, hypothesis: str) -> list[tuple[str, str]]:
    """What was said against what was heard, in pieces: same, missing (said, not heard), extra (heard, not said)."""
    pieces = []
    for kind, a, b, c, d in SequenceMatcher(None, reference, hypothesis, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("same", reference[a:b]))
            continue
        pieces += [("missing", reference[a:b])] if b > a else []
        pieces += [("extra", hypothesis[c:d])] if d > c else []
    return pieces


def _figures(page: Page) -> Iterator[Figure]:
    for section in page.sections:
        for part in section.parts:
            if isinstance(part, Figure):
                yield part
            elif isinstance(part, Sound):
                yield from part.figures


def _place(items: list[Any], item: Any) -> int:
    return next(i for i, each in enumerate(items) if each is item)


def _embedded(data: Any) -> str:
    """JSON that cannot end its own script element, whatever the data says."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")


@cache
def _asset(name: str) -> str:
    return (files("threefold.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        raise InputError(
            "the report page needs jinja2, which is not installed: pip install 'threefold[report]'."
        ) from None
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": shown, "coded": coded}
    return environment


def shown(value: Any) -> str:
    """A cell as a reader wants it: integers grouped, other numbers to three digits, nothing as a dash."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return number(value)
    return str(value)


def coded(text: str) -> Any:
    """What stands between `backticks` as code. The text is escaped before anything becomes markup."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


__all__ = ["Page", "Table", "difference", "render", "shown", "write"]
