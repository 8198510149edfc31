"""Progress is live for a person, sparse in a log, JSON for a machine."""

import io
import json

import pytest
from rich.console import Console

from threefold.cli.live import Live
from threefold.train import progress
from threefold.train.progress import JsonLines, Lines, Progress, Silent, clock

ABOUT = {"run": "runs/x", "parameters": 1234, "step": 10, "total": 100, "per_epoch": 20}


def play(to: Progress) -> None:
    to.begin(ABOUT)
    for step in range(11, 41):
        to.row({"kind": "train", "step": step, "epoch": step // 20, "loss": 2.0 / step, "seconds": 1.0, "waited": 0.0})
    to.row({"kind": "valid", "step": 40, "epoch": 1, "loss": 0.25, "accuracy": 0.75})
    to.end({"step": 40, "reason": "stopped"})
    to.close()


def test_lines_are_sparse_and_say_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.__setitem__(0, now[0] + 5.0) or now[0])
    said: list[str] = []
    play(Lines(said.append, every=60.0))
    assert said[0] == "1,234 parameters, 20 steps an epoch, step 10 of 100\n"
    assert "step 40/100 valid: loss 0.25, accuracy 0.75, 5:" in said[-2] and said[-1] == "stopped at step 40\n"
    assert 4 <= len(said) <= 7


def test_json_is_throttled_but_keeps_evaluations() -> None:
    said: list[str] = []
    play(JsonLines(said.append, every=1e9))
    rows = [json.loads(line) for line in said]
    assert [row["kind"] for row in rows] == ["begin", "train", "valid", "end"]


def test_live_shows_the_epoch_the_numbers_and_keeps_evaluations() -> None:
    out = io.StringIO()
    play(Live(Console(file=out, force_terminal=True, width=120, highlight=False)))
    shown = out.getvalue()
    assert "runs/x" in shown and "epoch 3" in shown and "40/100" in shown
    assert "valid at step 40: loss 0.25, accuracy 0.75" in shown and "stopped at step 40" in shown


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    play(Silent())
    assert capsys.readouterr().out == ""


def test_clock() -> None:
    assert [clock(seconds) for seconds in (5, 125, 3725)] == ["0:05", "2:05", "1:02:05"]
