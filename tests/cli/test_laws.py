"""`threefold laws` as a person uses it: exit codes, what is printed, and what a wrong word is answered with."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from threefold.cli.main import run
from threefold.laws import IDS
from threefold.laws.law import Status, Verdict
from threefold.mixers.catalog import CATALOG

REPOSITORY = Path(__file__).parents[2]
LAYERS = '''
from torch import Tensor, nn


class Fine(nn.Module):
    """A running sum."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.map = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x).cumsum(1)


class Ahead(Fine):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.roll(-1, 1) / 8


def factory() -> Fine:
    return Fine(6)


class Fragile(Fine):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            raise ValueError("one token is too few")
        return super().forward(x)
'''
GIVEN = ["--with", '{"d_model": 6}']


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "layers.py").write_text(LAYERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "layers.py"


def test_a_lawful_layer_exits_0_and_says_what_was_inferred(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", f"{layers}:Fine", *GIVEN, "--law", "causal", "batch", "padding"]) == 0
    out = capsys.readouterr().out
    assert "Fine: looks causal: judged as causal" in out
    assert re.search(r"✓ causal +lawful +(to the bit|worst .*, limit 1.0e-12), \d+ cases; token 0 moves", out)
    assert "? padding     cannot be run     the layer takes no padding mask" in out
    assert out.splitlines()[-1] == "Fine: lawful: 2, cannot be run: 1"


def test_a_factory_is_built_without_arguments(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", f"{layers}:factory", "--law", "batch"]) == 0
    assert "factory: lawful: 1" in capsys.readouterr().out


def test_a_broken_layer_exits_1_and_its_last_line_replays_it(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["laws", f"{layers}:Ahead", *GIVEN, "--causal", "--law", "causal"]
    assert run(words) == 1
    out = capsys.readouterr().out
    for line in (
        "✗ causal      broken            change a token, and every earlier output keeps its bits",
        "    smallest case  T=2,B=1,at=1,feature=0,how=eval",
        "    what happens   changing token 1 moved an earlier output",
        "limit 0, to the bit",
    ):
        assert line in out
    where = re.search(r"where +(.+)", out)
    replay = re.search(r"replay +threefold (.+)", out)
    assert where and replay
    assert run(shlex.split(replay.group(1))) == 1
    assert where.group(1) in capsys.readouterr().out, "the same numbers again"


def test_json_says_the_same(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", f"{layers}:Ahead", *GIVEN, "--causal", "--law", "causal", "features", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["subject"] == "Ahead"
    causal, features = data["verdicts"]
    assert (causal["law"], causal["status"], causal["where"]["case"]) == (
        "causal",
        "broken",
        "T=2,B=1,at=1,feature=0,how=eval",
    )
    assert causal["replay"].startswith("threefold laws layers.py:Ahead --with")
    assert (features["status"], features["reason"]) == ("does not apply", "there is no feature map")


def test_a_tolerance_of_pyproject_is_taken_and_its_reason_printed(
    layers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("pyproject.toml")
    path.write_text('[tool.threefold.laws.tolerance]\ncausal = { limit = 10, because = "a trial" }\n')
    assert run(["laws", f"{layers}:Ahead", *GIVEN, "--causal", "--law", "causal"]) == 0
    assert "limit raised to 10 because a trial" in capsys.readouterr().out
    path.write_text("[tool.threefold.laws.tolerance]\ncausal = { limit = 10 }\n")
    assert run(["laws", f"{layers}:Ahead", *GIVEN]) == 2
    assert "a limit without a reason is not taken" in capsys.readouterr().err


def test_what_a_layer_cannot_do_is_noted(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", f"{layers}:Fragile", *GIVEN, "--law", "batch"]) == 0
    assert "ValueError: one token is too few" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a layer, as path/to/file.py:Layer, or --all"),
        (["layers.py:Fine"], "Fine needs d_model: add --with '{\"d_model\": 16}'"),
        (["layers.py:Fin"], "layers.py has no 'Fin'; did you mean 'Fine'?"),
        (["layer.py:Fine"], "there is no file layer.py; did you mean 'layers.py'?"),
        (["layers.py"], "names no layer"),
        (["torch.nm:LSTM"], "torch.nm cannot be imported"),
        (["layers.py:Fine", "--law", "casual"], "there is no law 'casual'; did you mean 'causal'?"),
        (["layers.py:Fine", "--with", "{d_model: 6}"], "is not JSON"),
        (["layers.py:Fine", "--with", "[6]"], "is not a JSON object"),
        (["layers.py:Fine", "--with", '{"model": 6}'], "takes no 'model'; did you mean 'd_model'?"),
        (["layers.py:Fine", *GIVEN, "--causal", "--not-causal"], "--causal and --not-causal contradict"),
        (["layers.py:Fine", *GIVEN, "--case", "T=x"], "'x' is not a number"),
        (["layers.py:Fine", "--all"], "give it no target"),
        (["layers.py:Fine", "--jsno"], "did you mean '--json'?"),
        (["template"], "write `threefold laws template lstm`"),
        (["template", "lsmt"], "did you mean 'lstm'?"),
        (["gradient", "layers.py:factory", "--like", "gru"], "gru-before (as published) and gru-after (as torch)"),
        (["gradient", "layers.py:factory"], "--like"),
    ],
)
def test_wrong_use_exits_2_with_one_sentence(
    layers: str, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["laws", *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.out == ""
    assert said.err.count("\n") == 1 and "Traceback" not in said.err


def test_a_derivation_is_graded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    example = REPOSITORY / "examples" / "my_lstm.py"
    assert run(["laws", "gradient", f"{example}:backward", "--like", "lstm"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"✗ dgamma_f +wrong +off by 1\.\d+ of its largest entry; c_tilde stands where c_prev belongs", out)
    assert "smallest case  T=1, m=1, n_x=1, n=1, n_y=2" in out
    assert re.search(r"there +x .*c_prev -?0\.\d+", out)
    assert "right: 3, follows: 18, missing: 5, wrong: 1" in out
    mended = tmp_path / "mended.py"
    wrong = "dgamma_f = dc * c_tilde *"
    text = example.read_text(encoding="utf-8")
    assert wrong in text
    mended.write_text(text.replace(wrong, "dgamma_f = dc * s.c_prev[t] *"), encoding="utf-8")
    assert run(["laws", "gradient", f"{mended}:backward", "--like", "lstm", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["right"] and {g["mark"] for g in data["grades"]} == {"right", "missing"}


def test_a_template_is_a_file_that_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["laws", "template", "gru-after"]) == 0
    path = tmp_path / "my_gru_after.py"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["laws", "gradient", f"{path}:backward", "--like", "gru-after"]) == 1
    out = capsys.readouterr().out
    assert "right: 2, missing: 21" in out
    assert "owed and missing: dW_r, db_r" in out


def fake(index: int, status: Status) -> tuple[Verdict, ...]:
    return tuple(Verdict(law, f"mixer {index}", status if law == "batch" else Status.LAWFUL) for law in IDS)


@pytest.mark.parametrize(("status", "code"), [(Status.LAWFUL, 0), (Status.BROKEN, 1), (Status.OUTSIDE, 0)])
def test_the_whole_catalogue_is_a_table(
    status: Status, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed of verdicts; the verdicts themselves are judged in test_laws.py."""
    found = [(i, fake(i, status if i == 2 else Status.LAWFUL)) for i in reversed(range(len(CATALOG)))]
    monkeypatch.setattr("threefold.laws.catalogue.judge_catalogue", lambda names: iter(found))
    assert run(["laws", "--all"]) == code
    said = capsys.readouterr()
    rows = [line for line in said.out.splitlines() if line.startswith("mixer ")][1:]
    assert [row.split()[1] for row in rows[: len(CATALOG)]] == [str(i) for i in range(len(CATALOG))], "in order"
    marks = {Status.LAWFUL: "✓", Status.BROKEN: "✗", Status.OUTSIDE: "·"}
    assert rows[2].split()[2:] == [marks[status] if law == "batch" else "✓" for law in IDS]
    assert "1 gradient  2 forms" in said.out
    assert f"{len(CATALOG)} mixers: lawful: " in said.out


@pytest.mark.slow
def test_the_catalogue_is_judged_in_processes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["laws", "--all", "--law", "causal", "shift", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data) == len(CATALOG) and all(len(row) == 2 for row in data)
    assert not [v for row in data for v in row if v["status"] in ("broken", "cannot be run")]
