"""The page in a real browser: it loads alone, draws what it was given, and nothing that a name says can run."""

import json
import math
import re
from pathlib import Path

import pytest

from tests.browser import needs_browser, visit
from threefold.report.figures import (
    Bars,
    Contributions,
    Lines,
    Mark,
    Matrix,
    Panel,
    Section,
    Series,
    Sound,
    Table,
)
from threefold.report.page import Page, coded, difference, render, shown, write

HOSTILE = '</script><script>document.title="run"</script><img src=x onerror="document.title=\'run\'">'


def sample(name: str = "LSTM") -> Page:
    steps = tuple(float(i) for i in range(1, 40))
    parts = (
        Lines(
            title=f"Loss of {name}",
            says="It falls.",
            x="step",
            y="loss",
            series=(
                Series(name, steps, tuple(2 / math.sqrt(s) for s in steps), steps, steps),
                Series("GRU", steps, steps),
            ),
            marks=(Mark(20.0, name),),
        ),
        Bars(
            title="Accuracy",
            says=name,
            y="accuracy",
            names=(name, "GRU"),
            values=(0.5, 0.75),
            low=(0.4, 0.7),
            high=(0.6, 0.8),
        ),
        Matrix(
            title="Confusion",
            says="rows are true",
            rows="true",
            columns="predicted",
            values=((3.0, 1.0), (0.0, 4.0)),
            row_names=(name, "b"),
            column_names=(name, "b"),
            printed=True,
        ),
        Table("Runs", ("run", "tests", "accuracy"), ((name, 1821, 0.8125), ("GRU", None, True))),
        Sound("An utterance", "one two", f"one too {name}", b"RIFF"),
        Contributions("Why", "Words for and against.", ((name, -0.5), ("good", 0.9))),
        *(Panel(p.title(), name, p, {}) for p in ("kernel", "copying", "positions")),
    )
    return Page(
        f"Report on {name}", "A lead.", (Section("all", f"All of {name}", name, parts, (name,)),), (name,), name
    )


def test_page_asks_for_nothing_outside_itself() -> None:
    html = render(sample())
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", html)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "").replace(
        'http-equiv="Content-Security-Policy"', ""
    )


def test_a_hostile_name_stays_text() -> None:
    html = render(sample(HOSTILE))
    assert HOSTILE not in html
    assert html.count("<script") == 2 and html.count("</script>") == 2
    assert "<img" not in html


@needs_browser
def test_a_hostile_name_does_not_run(tmp_path: Path) -> None:
    path = write(sample(HOSTILE), tmp_path / "page.html")
    found = visit(path, "return [document.title, document.querySelectorAll('img').length]", tmp_path).found
    assert found == [f"Report on {HOSTILE}", 0]


@needs_browser
@pytest.mark.parametrize("width", [1000, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_page_in_a_browser(tmp_path: Path, width: int, dark: bool) -> None:
    path = write(sample(), tmp_path / "page.html")
    script = """
      const root = document.documentElement;
      const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, nav, svg, .skip"))
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80));
      return { ready: root.dataset.ready, over: root.scrollWidth - innerWidth, inner: innerWidth, wide,
        paper: getComputedStyle(document.body).backgroundColor, charts: document.querySelectorAll("svg.chart").length,
        named: [...document.querySelectorAll("svg.chart")].every((s) => s.getAttribute("aria-label")) };
    """
    seen = visit(path, script, tmp_path, width=width, dark=dark)
    assert seen.console == []
    assert [url for url in seen.asked if not url.startswith("data:")] == []
    assert seen.found["ready"] == "yes" and seen.found["inner"] == width
    assert seen.found["over"] <= 0 and seen.found["wide"] == []
    assert seen.found["charts"] == 6 and seen.found["named"]
    assert (seen.found["paper"] == "rgb(255, 255, 255)") is not dark


@needs_browser
def test_tables_are_the_numbers_that_were_given(tmp_path: Path) -> None:
    path = write(sample(), tmp_path / "page.html")
    script = """
      const rows = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
      return [...document.querySelectorAll("table")].slice(0, 4).map(rows);
    """
    lines, bars, matrix, runs = visit(path, script, tmp_path).found
    assert lines[0] == ["series", "step", "loss", "low", "high"]
    assert lines[1][:3] == ["LSTM", "1", "2"]
    assert bars[1:] == [["LSTM", "0.500", "0.400", "0.600"], ["GRU", "0.750", "0.700", "0.800"]]
    assert matrix[1:] == [["LSTM", "3", "1"], ["b", "0", "4"]]
    assert runs[1:] == [["LSTM", "1,821", "0.812"], ["GRU", "–", "yes"]]


@needs_browser
def test_sliders_recompute_the_formulas(tmp_path: Path) -> None:
    path = write(sample(), tmp_path / "page.html")
    script = """
      const set = (name, value) => {
        const slider = document.querySelector(`input[name="${name}"]`);
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
      };
      const answers = () => [...document.querySelectorAll(".answer")].map((p) => p.textContent);
      const before = answers();
      set("R", 0.5); set("beta", 2);
      const first = document.querySelectorAll('[data-panel="1"] tbody tr')[0];
      return { before, after: answers(), copy: [...first.cells].map((c) => c.textContent) };
    """
    found = visit(path, script, tmp_path).found
    assert found["before"][0] != found["after"][0]
    # worst relative error of the degree-2 polynomial on [-1/2, 1/2], and the largest weights at beta = 2
    worst = abs((1 - 0.5 + 0.125) / math.exp(-0.5) - 1)
    assert f"{worst:.3g}" in found["after"][0]
    z = math.exp(8) + math.exp(4) + 1
    assert float(found["copy"][1]) == pytest.approx(math.exp(8) / z, rel=1e-5)


def test_difference_names_what_is_missing_and_what_is_extra() -> None:
    assert difference("abc", "abc") == [("same", "abc")]
    assert difference("abc", "axcd") == [("same", "a"), ("missing", "b"), ("extra", "x"), ("same", "c"), ("extra", "d")]


def test_shown() -> None:
    assert [shown(v) for v in (None, True, 12345, 0.123456, "x")] == ["–", "yes", "12,345", "0.123", "x"]


def test_backticks_are_code_and_nothing_else_is_markup() -> None:
    assert coded("run `threefold demo` now") == "run <code>threefold demo</code> now"
    assert coded("`<b>` & <i>") == "<code>&lt;b&gt;</code> &amp; &lt;i&gt;"


def test_data_cannot_end_its_element() -> None:
    html = render(sample("<!--<script>"))
    embedded = re.search(r'id="data"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert embedded and "<" not in embedded.group(1)
    assert json.loads(embedded.group(1))["figures"][0]["series"][0]["name"] == "<!--<script>"


@needs_browser
def test_every_control_is_named_and_reached_by_keyboard(tmp_path: Path) -> None:
    path = write(sample(), tmp_path / "page.html")
    script = """
      const controls = [...document.querySelectorAll("a, button, input, select, summary, [tabindex], audio")];
      const name = (e) => e.getAttribute("aria-label") || (e.labels && e.labels[0] && e.labels[0].textContent.trim()) ||
        e.textContent.trim() || (e.controls ? "audio" : "");
      const slider = document.querySelector('input[name="R"]'), before = slider.value;
      slider.focus();
      const focused = document.activeElement === slider;
      const levels = [...document.querySelectorAll("h1, h2, h3")].map((h) => Number(h.tagName[1]));
      return {
        unnamed: controls.filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 80)),
        unreachable: controls.filter((e) => e.tabIndex < 0).map((e) => e.outerHTML.slice(0, 80)),
        focused, said: slider.getAttribute("aria-valuetext"), lang: document.documentElement.lang,
        skips: levels.filter((level, i) => i && level > levels[i - 1] + 1).length,
        live: document.querySelectorAll('[role="status"][aria-live]').length,
        headers: [...document.querySelectorAll("th")].every((th) => th.getAttribute("scope") === "col"),
      };
    """
    found = visit(path, script, tmp_path).found
    assert found["unnamed"] == [] and found["unreachable"] == []
    assert found["focused"] and found["said"] == "3.00" and found["lang"] == "en"
    assert found["skips"] == 0 and found["live"] == 3 and found["headers"]


@needs_browser
def test_csv_is_the_table(tmp_path: Path) -> None:
    path = write(sample('a, "b"'), tmp_path / "page.html")
    script = """
      let saved = null;
      URL.createObjectURL = (blob) => { saved = blob; return "#"; };
      HTMLAnchorElement.prototype.click = () => {};
      document.querySelectorAll("[data-csv]")[1].click();
      return saved.text();
    """
    seen = visit(path, script, tmp_path)
    assert seen.found == 'name,accuracy,low,high\n"a, ""b""",0.5,0.4,0.6\nGRU,0.75,0.7,0.8\n'
    assert seen.console == []


@needs_browser
def test_printed_it_is_black_on_white_and_whole(tmp_path: Path) -> None:
    page = write(sample(), tmp_path / "page.html")
    page.write_text(page.read_text().replace("@media print", "@media screen"))
    script = """
      const seen = (what) => [...document.querySelectorAll(what)].filter((e) => e.getClientRects().length).length;
      const style = getComputedStyle(document.querySelector(".scroll"));
      return { hidden: seen("nav") + seen("input") + seen("button") + seen("audio"), height: style.maxHeight,
        ink: getComputedStyle(document.body).color, charts: seen("svg.chart") };
    """
    found = visit(page, script, tmp_path).found
    assert found == {"hidden": 0, "height": "none", "ink": "rgb(0, 0, 0)", "charts": 6}
