"""`threefold export` writes the folder, says what was made, and why the rest was not."""

import json
import sys
from pathlib import Path

import pytest

import threefold
from threefold.cli.main import run as command


def test_a_run_is_exported_and_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    options = ["--data.count", "200", "--train.steps", "2", "--model.width", "8", "--model.buckets", "50"]
    run, out = str(tmp_path / "run"), tmp_path / "out"
    words = ["train", "sentiment", "--model.mixer", "softmax", *options, "--run", run, "--progress", "none"]
    assert command(words) == 0
    assert command(["export", run, str(out)]) == 0
    shown = capsys.readouterr().out
    assert f'threefold.load("{out}")' in shown
    assert "not as onnx: onnx is not installed: pip install 'threefold[export]'" in shown
    made = json.loads((out / "export.json").read_text())
    assert all(each["file"] in shown for each in made if each["file"])
    assert command(["predict", run, "a fine film", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert threefold.load(out).predict(["a fine film"]) == [said]

    assert command(["export", run, str(out)]) == 2
    assert "not empty" in capsys.readouterr().err
