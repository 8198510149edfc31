"""The sliders' curves are the plan's own numbers at every length, width and degree, and cross where plans cross."""

import math
from pathlib import Path

import pytest

from tests.browser import needs_browser, visit
from threefold.report.page import Page, write
from threefold.report.sections import cost
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.features import Taylor
from threefold.specs.recurrent import LSTM

SET = """
  const set = (name, at) => {
    const made = document.querySelector(`[name="${name}"]`);
    made.value = at;
    made.dispatchEvent(new Event("input"));
  };
  const rows = () => Object.fromEntries([...document.querySelectorAll('[data-panel="0"] tbody tr')].map(
    (row) => [row.cells[0].textContent, [row.cells[1].textContent, row.cells[2].textContent]]));
  const shown = (name) => document.querySelector(`[name="${name}"]`).parentElement.querySelector(".value").textContent;
"""


def whole(text: str) -> int:
    return int(text.replace(",", ""))


def page(folder: Path) -> Path:
    return write(Page("Cost", "", (cost.section(),)), folder / "page.html")


@needs_browser
@pytest.mark.parametrize(("T", "B", "width", "degree"), [(0, 0, 0, 1), (24, 3, 2, 2), (44, 6, 4, 3)])
def test_sliders_show_the_plan(tmp_path: Path, T: int, B: int, width: int, degree: int) -> None:
    script = (
        SET
        + f"""
      set("T", {T}); set("B", {B}); set("D", {width}); set("degree", {degree - 1});
      const found = {{}};
      for (const option of document.querySelector('[name="measure"]').options) {{
        set("measure", option.value);
        found[option.value] = rows();
      }}
      return {{ found, at: [shown("T"), shown("B"), shown("D"), shown("degree")] }};
    """
    )
    seen = visit(page(tmp_path), script, tmp_path).found
    length, batch, wide, order = map(whole, seen["at"])
    assert order == degree and wide == cost.WIDTHS[width]
    heads = max(1, wide // 64)
    features = Taylor(degree, odd=degree % 2 == 1)
    specs: dict[str, MixerSpec] = {
        "softmax": Softmax(heads=heads),
        "LSTM": LSTM(),
        f"Taylor {degree}": Linear(heads=heads, key_dim=cost.HEAD, features=features),
    }
    for name, spec in specs.items():
        total = spec.plan(wide).total.at(B=batch, T=length)
        planned = {
            "forward": total.forward(),
            "both": total.forward() + total.backward(),
            "saved": total.saved(),
            "state": total.state(),
        }
        for measure, key in cost.MEASURES.items():
            assert whole(seen["found"][measure][name][0]) == planned[key], (name, measure)


@needs_browser
def test_curves_cross_where_plans_cross(tmp_path: Path) -> None:
    script = SET + 'set("D", 0); set("degree", 1); return rows();'
    seen = visit(page(tmp_path), script, tmp_path).found
    softmax = Softmax(heads=1).plan(64).total.forward
    for name, spec in (("LSTM", LSTM()), ("Taylor 2", Linear(heads=1, key_dim=cost.HEAD, features=Taylor(2)))):
        T, flops = whole(seen[name][1]), spec.plan(64).total.forward
        assert flops(B=1, T=T - 1) >= softmax(B=1, T=T - 1)
        assert all(flops(B=1, T=later) < softmax(B=1, T=later) for later in range(T, T + 200))


@needs_browser
def test_the_drawn_curve_is_the_polynomial(tmp_path: Path) -> None:
    script = (
        SET
        + """
      set("D", 1);
      return document.querySelector('[data-panel="0"] svg.chart path[fill="none"]').getAttribute("d");
    """
    )
    path = visit(page(tmp_path), script, tmp_path).found
    drawn = [tuple(map(float, point.split())) for point in path.removeprefix("M").split("L")]
    lengths = [round(2 ** (4 + i * 0.25)) for i in range(45)]
    flops = [math.log(Softmax(heads=2).plan(128).total.forward(B=1, T=T)) for T in lengths]
    assert len(drawn) == len(lengths)
    (left, low), (right, high) = drawn[0], drawn[-1]
    for (x, y), T, value in zip(drawn, lengths, flops, strict=True):
        along = math.log(T / lengths[0]) / math.log(lengths[-1] / lengths[0])
        up = (value - flops[0]) / (flops[-1] - flops[0])
        assert x == pytest.approx(left + along * (right - left), abs=0.11)
        assert y == pytest.approx(low + up * (high - low), abs=0.11)
