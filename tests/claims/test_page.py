"""The page stands alone, says everything, and runs nothing that a statement brings along."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from threefold.claims import CLAIMS, Claim, Evidence, Outcome, equals, find
from threefold.claims.equations import EQUATIONS
from threefold.claims.judge import Judged, judge
from threefold.claims.page import formulas, page, write


def test_every_picture_draws_alone() -> None:
    drawn = [claim for claim in CLAIMS if claim.picture]
    assert len(drawn) >= 5
    ids: list[str] = []
    text = page(judge(drawn), "Pictures")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert text.count("<svg") == len(drawn)
    for name in re.findall(r'(?:href="#|url\(#)([^")]+)', text):
        assert name in ids, name


def test_nothing_is_fetched() -> None:
    text = page(judge([find("C18"), find("004-1.2-mac")]), "Alone")
    outside = re.findall(r'(?:src|href)="(?!#)([^"]+)"', text)
    assert not outside
    assert "<script" not in text
    assert "@import" not in text


def test_hostile_text_is_text() -> None:
    def collect(e: Evidence) -> None:
        e.said("<script>alert(1)</script>", 1, equals(2))
        e.counter_example("<img src=x onerror=alert(2)>")

    bad = Claim("<b>x</b>", "`<script>`a_{<i>}", "<u>", subject='"><script>', recorded=Outcome.FALSE, collect=collect)
    text = page(judge([bad]), "<title>")

    seen: set[str] = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attributes: object) -> None:
            seen.add(tag)

    Tags().feed(text)
    assert "article" in seen
    assert not seen & {"script", "img", "i", "u"}


def test_no_statement_shows_the_marks_of_an_index() -> None:
    for each in judge(claim for claim in CLAIMS if claim.subject in ("lstm", "attention", "copying")):
        numbers = [number.what for number in each.verdict.numbers]
        for text in (each.claim.says, each.claim.corrected, each.verdict.counter_example, *numbers):
            left = re.sub(r"<code>.*?</code>", "", formulas(text))
            assert not re.search(r"[_^{}]", left), (each.claim.id, left)


def test_formulas() -> None:
    assert formulas("a `W_y^T dz` b") == 'a <span class="f">W<sub>y</sub><sup>T</sup> dz</span> b'
    assert formulas("`e^{2B}/Z_1`") == '<span class="f">e<sup>2B</sup>/Z<sub>1</sub></span>'
    assert formulas("d_k and x^T") == "d<sub>k</sub> and x<sup>T</sup>"
    assert formulas("`threefold claims C5`") == "<code>threefold claims C5</code>"
    assert formulas("`a < b`") == '<span class="f">a &lt; b</span>'
    assert formulas("x_1², x_1x_2") == "x<sub>1</sub>², x<sub>1</sub>x<sub>2</sub>"
    assert formulas("dp̃_c, c_{t−1}, Σ_batch") == "dp̃<sub>c</sub>, c<sub>t−1</sub>, Σ<sub>batch</sub>"
    assert formulas("`W^(h)` W^(h)") == '<span class="f">W<sup>(h)</sup></span> W<sup>(h)</sup>'
    assert formulas("`x_i²`") == '<span class="f">x<sub>i</sub>²</span>'


def test_moved_is_seen(tmp_path: Path) -> None:
    claim = find("C18")
    moved = Judged(Claim(claim.id, claim.says, recorded=Outcome.FALSE), claim.evidence())
    write(tmp_path / "out.html", [moved])
    assert "Moved: C18." in (tmp_path / "out.html").read_text()


def test_every_subject_has_its_equations() -> None:
    assert set(EQUATIONS) == {claim.subject for claim in CLAIMS}


@pytest.mark.slow
def test_the_whole_page() -> None:
    judged = judge(CLAIMS)
    text = page(judged, "All")
    assert all(f'id="{each.claim.id}"' in text for each in judged)
