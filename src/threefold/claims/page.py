"""All verdicts as one page that stands alone: formulas, numbers, counter-examples, pictures; made to be printed too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from threefold.claims.claim import Number, Outcome, shown
from threefold.claims.equations import EQUATIONS
from threefold.claims.judge import Judged, tally
from threefold.train.files import write as write_file

WORDS = {outcome: outcome.name.lower().replace("_", "-") for outcome in Outcome}
SHOWN = 4  # numbers of a claim that stand on the page; the rest unfold


def write(path: Path, judged: Sequence[Judged], title: str = "Claims, adjudicated") -> None:
    """Write the page; a page that stood there is replaced at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, page(judged, title).encode())


def page(judged: Sequence[Judged], title: str) -> str:
    """The page as text."""
    style = files("threefold.claims").joinpath("page.css").read_text(encoding="utf-8")
    body = "".join((*_head(judged, title), *_sections(judged)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


def _head(judged: Sequence[Judged], title: str) -> Iterator[str]:
    moved = [each.claim.id for each in judged if each.moved]
    yield f"<header><h1>{escape(title)}</h1><p>{escape(tally(judged))}. "
    yield f"<strong>Moved: {escape(', '.join(moved))}.</strong></p>" if moved else "All as recorded.</p>"
    yield "<p>Each statement is judged by numbers that were computed when this page was made. "
    yield "<b>✓</b> the number is what the statement needs, <b>✗</b> it is not. "
    yield "A false statement shows a counter-example, a conditional one a case on each side.</p>"
    yield '<p class="bar" role="img" aria-label="share of verdicts">'
    for outcome in Outcome:
        if count := sum(each.verdict.outcome is outcome for each in judged):
            yield f'<span class="{WORDS[outcome]}" style="flex:{count}" title="{outcome.value}: {count}">{count}</span>'
    yield "</p><p class='key'>"
    for outcome in dict.fromkeys(each.verdict.outcome for each in judged):
        yield f'<span class="{WORDS[outcome]}">{outcome.value}</span> '
    yield "</p></header>"


def _sections(judged: Sequence[Judged]) -> Iterator[str]:
    from threefold.claims import SUBJECTS

    subjects = dict.fromkeys(each.claim.subject for each in judged)
    order = [subject for subject in SUBJECTS if subject in subjects]
    order += [subject for subject in subjects if subject not in SUBJECTS]
    if len(order) > 1:
        links = (f'<a href="#{escape(s)}">{escape(_title(s))}</a>' for s in order)
        yield f"<nav>{' · '.join(links)}</nav>"
    for subject in order:
        yield f'<section id="{escape(subject)}"><h2>{escape(_title(subject))}</h2>'
        if equations := EQUATIONS.get(subject):
            yield '<ul class="equations">'
            yield from (f"<li>{formulas(line)}</li>" for line in equations)
            yield "</ul>"
        for each in judged:
            if each.claim.subject == subject:
                yield from _article(each)
        yield "</section>"


def _title(subject: str) -> str:
    from threefold.claims import SUBJECTS

    return SUBJECTS[subject][0] if subject in SUBJECTS else subject.replace("_", " ") or "Claims"


def _article(judged: Judged) -> Iterator[str]:
    claim, verdict = judged.claim, judged.verdict
    kind = WORDS[verdict.outcome]
    yield f'<article class="{kind}" id="{escape(claim.id)}"><h3><span class="id">{escape(claim.id)}</span> '
    yield f'<span class="verdict {kind}">{verdict.outcome.value}{" — moved" if judged.moved else ""}</span></h3>'
    yield f'<p class="says">{formulas(claim.says)}</p>'
    if claim.corrected:
        label = "Corrected" if verdict.outcome is Outcome.FALSE else "Precisely"
        yield f'<p class="corrected"><b>{label}:</b> {formulas(claim.corrected)}</p>'
    against = [number for number in verdict.numbers if not number.holds]
    first = (against[:2] + [number for number in verdict.numbers if number.holds])[:SHOWN]
    first = [number for number in verdict.numbers if number in first][:SHOWN]
    if first:
        yield f"<table>{''.join(map(_row, first))}</table>"
    if verdict.counter_example:
        yield f'<p class="counter"><b>Counter-example:</b> {formulas(verdict.counter_example)}</p>'
    if verdict.limits:
        yield f'<p class="limits">{formulas(verdict.limits)}</p>'
    if rest := [number for number in verdict.numbers if number not in first]:
        yield f"<details><summary>{len(rest)} more numbers</summary><table>{''.join(map(_row, rest))}</table></details>"
    if claim.picture is not None:
        yield f'<figure aria-label="picture to {escape(claim.id)}">{_alone(claim.picture(), claim.id)}</figure>'
    yield "</article>"


def _row(number: Number) -> str:
    mark, word = ("✓", "holds") if number.holds else ("✗", "fails")
    return (
        f'<tr><td class="{word}">{mark}</td><td>{_prose(number.what)}</td>'
        f'<td class="value">{escape(shown(number.value))}</td>'
        f"<td>needs {escape(number.needs)}</td><td>{number.side.value}</td></tr>"
    )


def formulas(text: str) -> str:
    """A statement as HTML: what stands between backticks is a formula, or a command."""
    parts = text.split("`")
    return "".join(_prose(part) if at % 2 == 0 else _formula(part) for at, part in enumerate(parts))


SYMBOL = r"(?:\b|(?<=\d))((?:[^\W\d_][\u0300-\u036f]?){1,2})"  # p̃ is a letter and the accent over it


def _prose(text: str) -> str:
    """Running text, in which short symbols keep their indices: d_k, Γ_u, p̃_c, Σ_batch."""
    text = re.sub(SYMBOL + r"_(?:\{([^{}]*)\}|(\d+|[A-Za-zα-ω]\w{0,3}\b))", r"\1<sub>\2\3</sub>", escape(text))
    text = re.sub(r"Σ_([a-z]+)", r"Σ<sub>\1</sub>", text)
    return re.sub(r"\^(?:\{([^{}]*)\}|(\(\w\)|−?\w))", r"<sup>\1\2</sup>", text)


def _formula(text: str) -> str:
    if text.startswith("threefold "):
        return f"<code>{escape(text)}</code>"
    text = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", escape(text, quote=False))
    text = re.sub(r"_([0-9A-Za-zα-ωΑ-Ω′]+)", r"<sub>\1</sub>", text)
    text = re.sub(r"\^(?:\{([^{}]*)\}|(\(\w\)|−?\w))", r"<sup>\1\2</sup>", text)
    return f'<span class="f">{text}</span>'


def _alone(svg: str, id: str) -> str:
    """A picture whose inner names clash with no other picture's."""
    prefix = re.sub(r"\W", "_", id)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}_\1"', svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}_\2"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}_\1)", svg)
