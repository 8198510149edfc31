"""`threefold claims`: what is shown, and what the exit code says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from threefold.cli.claims import run
from threefold.errors import InputError

OWN = """
from threefold.claims import Evidence, Outcome, claim, equals

@claim("mine-1", "1 + 1 = 2", recorded=Outcome.{recorded})
def one(e: Evidence) -> None:
    e.said("1 + 1", {value}, equals(2))
"""


def own(folder: Path, value: str = "1 + 1", recorded: str = "TRUE") -> str:
    path = folder / "my_claims.py"
    path.write_text(OWN.format(value=value, recorded=recorded))
    return str(path)


def test_one_claim_in_detail(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["c18", "002-2a-x1"]) == 0
    shown = capsys.readouterr().out
    assert "C18   TRUE" in shown
    assert "✗ ‖x_1‖ − (‖d‖ + ‖b‖) = 0.585786   (needs ≤ 1e-12)" in shown
    assert "counter-example: β = 1" in shown
    assert 'verdict = find("002-2a-x1").evidence()' in shown
    assert "2 statements: 1 true, 1 false; all as recorded." in shown


def test_a_table_by_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--subject", "copying"]) == 0
    shown = capsys.readouterr().out
    assert "Copying by attention" in shown
    assert "002-2b-dot" in shown
    assert "all as recorded" in shown


def test_ids_are_shown_whole_in_a_narrow_window(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["--subject", "lstm", "--source", "003"]) == 0
    shown = capsys.readouterr().out
    assert "003-1.3-dgu-chain " in shown and "003-1.3-daprev " in shown
    assert max(map(cell_len, shown.splitlines()[:-1])) <= 60


def test_filters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--subject", "copying", "--verdict", "false", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in rows} == {"002-2a-x1", "002-2b-dot", "002-2b-self"}
    assert all(row["verdict"] == row["recorded"] == "false" and not row["moved"] for row in rows)
    assert all(row["numbers"] and row["counter_example"] for row in rows)
    assert run(["--subject", "copying", "--source", "003", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["C18"]


def test_not_run_says_what_to_type(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["C17", "--runs", str(tmp_path)]) == 0
    assert "`threefold compare octmnist --vary 'model.shrink=pool,stride'" in capsys.readouterr().out


def test_own_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run([own(tmp_path)]) == 0
    assert "mine-1   TRUE" in capsys.readouterr().out


def test_what_moved_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run([own(tmp_path, value="3")]) == 1
    shown = capsys.readouterr().out
    assert "mine-1   FALSE   (MOVED: recorded true)" in shown
    assert "1 moved:\n  mine-1: recorded true, found false" in shown


def test_evidence_that_stops_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run([own(tmp_path, value="1 / 0")]) == 1
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().out


def test_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.html"
    assert run(["C18", "003-5.3-share", "--html", str(target)]) == 0
    text = target.read_text()
    assert str(target) in capsys.readouterr().out
    assert "<svg" in text
    assert "β²" in text


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["C99"], "no claim 'C99'; did you mean 'C9'"),
        (["--source", "9"], "no source '9'"),
        (["--subject", "lstmm"], "did you mean 'lstm'"),
        (["--verdict", "flase"], "did you mean 'false'"),
        (["nothing.py"], "is not a file"),
        (["C5", "nothing.py"], "give ids or files, not both"),
        (["--jsn"], "did you mean '--json'"),
    ],
)
def test_wrong_words(argv: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(argv)


@pytest.mark.parametrize(
    ("text", "says"),
    [("x = 1\n", "holds no claim"), ("x = \n", "SyntaxError"), ("import nowhere_at_all\n", "nowhere_at_all")],
)
def test_wrong_files(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        run([str(path)])
