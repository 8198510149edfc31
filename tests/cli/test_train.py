"""From the command line to a run and back: train, resume, evaluate, predict."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.train.toy import equal, measured, weights
from threefold.cli.main import run as threefold
from threefold.recipes.toys import CopyRecipe
from threefold.specs.recurrent import GRU
from threefold.train.files import fingerprint, read_json
from threefold.train.record import Run

SMALL = ["--train.steps", "6", "--train.evaluate-every", "3", "--model.layers", "1", "--model.width", "16"]
SMALL += ["--data.count", "64", "--data.tested", "16"]


def trained(folder: Path, *words: str, progress: str = "none") -> Run:
    assert threefold(["train", "copy", *SMALL, "--run", str(folder), "--progress", progress, *words]) == 0
    return Run.open(folder)


def test_every_option_reaches_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(
        tmp_path / "run", "--model.mixer", "gru", "--train.schedule.decay", "linear", "--train.optimiser", "sgd"
    )
    recipe = run.recipe
    assert recipe["model"]["mixer"] == GRU().to_dict() and recipe["train"]["schedule"]["decay"] == "linear"
    assert recipe["train"]["optimiser"]["spec"] == "SGD"
    assert run.done and run.done["step"] == 6
    assert threefold(["train", "copy", "--run", str(tmp_path / "run")]) == 2
    assert "is not empty: give another --run, or `threefold resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sentimnet"], "did you mean 'sentiment'?"),
        (["copy", "--model.mixer", "grru"], "did you mean 'gru'?"),
        (["copy", "--modle.mixer", "gru"], "--model.mixer"),
        (["copy", "--train.schedule.decay", "linaer"], "did you mean 'linear'?"),
        (["copy", "--train.batch", "0"], "train.batch 0: give at least 1"),
        (["copy", "--data", "x.tsv"], "reads no file"),
        (["sentiment", "--data", "absent.tsv"], "absent.tsv"),
        (["copy", "--train.watch", "acuracy", *SMALL], "choose one of loss"),
    ],
)
def test_a_wrong_word_is_one_sentence(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert threefold(["train", *words]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and "Traceback" not in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model.layers", "0"], "give one mixer a layer"),
        (["--train.watch", "acuracy", *SMALL], "choose one of loss"),
        (["--train.seed", "-1"], "train.seed -1: give 0"),
    ],
)
def test_what_cannot_begin_leaves_no_folder(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert threefold(["train", "copy", *words, "--run", str(tmp_path / "run")]) == 2
    assert says in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert threefold(["train", "copy", *SMALL, "--run", str(tmp_path / "file" / "run")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("threefold train: ") and "Not a directory" in told and told.count("\n") == 1


def test_help_lists_recipes_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert threefold(["train", "--help"]) == 0
    assert "sentiment" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        threefold(["train", "copy", "--help"])
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "--train.schedule.warmup" in shown and "gru|" in shown and "Example: threefold train copy" in shown


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert threefold(["train", "copy", *SMALL]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["copy", "copy-2"]


def test_json_progress_is_json_and_lines_are_sparse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "json", progress="json")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [rows[0]["kind"], rows[-1]["kind"]] == ["begin", "end"] and rows[0]["total"] == 6
    assert sum(row["kind"] == "valid" for row in rows) == 2
    trained(tmp_path / "lines", progress="lines")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 7 and "finished at step 6" in lines[-2] and "waiting for data" in lines[-1]


def test_evaluate_and_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data.count", "200", "--train.steps", "5", "--model.width", "8", "--model.buckets", "50"]
    folder = str(tmp_path / "run")
    assert threefold(["train", "sentiment", *options, "--run", folder, "--progress", "none"]) == 0
    assert threefold(["evaluate", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] == pytest.approx(Run.open(folder).rows("test")[0]["loss"], rel=1e-6)
    assert {"accuracy", "per_class", "confusion"} <= found.keys() and found["checkpoint"].startswith("best-")

    own = tmp_path / "own.tsv"
    own.write_text("text\tlabel\na fine film\tpositive\ndull\tnegative\n")
    assert threefold(["evaluate", folder, "--data", str(own)]) == 0
    shown = capsys.readouterr().out
    assert "accuracy" in shown and "said negative" in shown
    assert threefold(["evaluate", folder, "--data", str(own), "--split", "tset"]) == 2
    assert threefold(["evaluate", folder, "--checkpoint", "best-77"]) == 2
    assert "it has" in capsys.readouterr().err

    assert threefold(["predict", folder, "a fine film", "not dull", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["input"] for row in rows] == ["a fine film", "not dull"]
    assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in rows)
    assert threefold(["predict", folder, "a fine film"]) == 0
    assert capsys.readouterr().out.startswith(rows[0]["label"])
    assert threefold(["predict", folder, ""]) == 2


def test_a_signal_saves_and_resume_gives_the_same_bits(tmp_path: Path) -> None:
    words = ["--train.steps", "400", "--train.evaluate-every", "100", *SMALL[4:]]
    whole = tmp_path / "whole"
    assert threefold(["train", "copy", *words, "--run", str(whole)]) == 0
    command = [sys.executable, "-m", "threefold", "train", "copy", *words, "--run", str(tmp_path / "run")]
    environment = os.environ | {"OMP_NUM_THREADS": str(Run.open(whole).environment["threads"])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while not (tmp_path / "run" / "metrics.jsonl").exists() or len(Run(tmp_path / "run").rows("train")) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    run = Run.open(tmp_path / "run")
    assert run.done is None and run.shelf.names("last")[0] == f"last-{len(run.rows('train'))}"
    assert threefold(["resume", str(run.folder), "--progress", "none"]) == 0
    assert measured(run) == measured(Run.open(whole))
    assert equal(weights(run), weights(Run.open(whole)))


def test_resume_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path / "run")
    assert threefold(["resume", str(run.folder), "--progress", "none"]) == 0
    assert "is done: finished at step 6" in capsys.readouterr().out
    (run.folder / "done").unlink()
    newest, previous = run.shelf.names("last")
    path = run.shelf.folder / f"{newest}.safetensors"
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    before = measured(run)
    assert threefold(["resume", str(run.folder), "--progress", "none"]) == 2
    assert f"{newest}.safetensors is damaged" in (told := capsys.readouterr().err) and f"--from {previous}" in told
    assert threefold(["resume", str(run.folder), "--from", previous, "--progress", "none"]) == 0
    assert measured(run) == before
    (run.folder / "done").unlink()
    best, *_ = run.shelf.names("best")
    assert threefold(["resume", str(run.folder), "--from", best]) == 2
    assert f"{best}: it holds weights only; continue from last-" in capsys.readouterr().err
    damaged = run.shelf.folder / f"{best}.safetensors"
    damaged.write_bytes(b"abc")
    assert threefold(["evaluate", str(run.folder)]) == 2
    assert "use it with --checkpoint best-3" in capsys.readouterr().err
    assert threefold(["resume", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_two_begun_at_once_get_a_folder_each(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "threefold", "train", "copy", *SMALL, "--progress", "none"]
    started = [subprocess.Popen(command, cwd=tmp_path) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    one, two = (Run.open(tmp_path / "runs" / name) for name in ("copy", "copy-2"))
    assert one.done and two.done and equal(weights(one), weights(two))


def test_a_run_that_ended_while_resume_made_ready_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run")
    (run.folder / "done").unlink()
    before, original = measured(run), CopyRecipe.task
    run.rewind(3)

    def late(recipe: CopyRecipe, *given: Any) -> Any:
        monkeypatch.setattr(CopyRecipe, "task", original)
        assert threefold(["resume", str(run.folder), "--progress", "none"]) == 0  # another one, meanwhile
        return original(recipe, *given)

    monkeypatch.setattr(CopyRecipe, "task", late)
    assert threefold(["resume", str(run.folder), "--progress", "none"]) == 0
    assert run.done and measured(run) == before and run.newest == "last-6"
    assert len(read_json(run.folder / "environment.json")["sessions"]) == 2


def test_what_is_done_continues_from_where_it_is_told_to(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "--train.save-every", "3")
    before = measured(run)
    assert threefold(["resume", str(run.folder), "--from", "last-3", "--progress", "none"]) == 0
    assert measured(run) == before
    assert read_json(run.folder / "environment.json")["sessions"][-1]["from_step"] == 3


def test_other_data_is_not_continued_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same words, same labels, another order: nothing but the bytes tells."""
    lines = [f"{'good' if at % 2 else 'bad'} film\t{at % 2}\n" for at in range(40)]
    table = tmp_path / "films.tsv"
    table.write_text("text\tlabel\n" + "".join(lines))
    words = ["--data", str(table), "--train.steps", "2", "--model.width", "8", "--model.buckets", "50"]
    run = tmp_path / "run"
    assert threefold(["train", "sentiment", *words, "--run", str(run), "--progress", "none"]) == 0
    (run / "done").unlink()
    table.write_text("text\tlabel\n" + "".join(reversed(lines)))
    assert threefold(["resume", str(run), "--progress", "none"]) == 2
    assert "films.tsv is no longer what" in capsys.readouterr().err
    table.write_text("text\tlabel\n" + "".join(lines))
    assert threefold(["resume", str(run), "--progress", "none"]) == 0


def test_a_folder_is_known_by_names_sizes_and_tables(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    (tmp_path / "metadata.csv").write_text("a|one\n")
    (tmp_path / "wavs" / "a.wav").write_bytes(b"1234")
    seen = [fingerprint(tmp_path)]
    (tmp_path / "metadata.csv").write_text("a|two\n")
    seen.append(fingerprint(tmp_path))
    (tmp_path / "wavs" / "a.wav").write_bytes(b"12345")
    seen.append(fingerprint(tmp_path))
    assert len(set(seen)) == 3 and fingerprint(tmp_path) == seen[-1]


@pytest.mark.slow
def test_two_processes_of_one_machine(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "--processes", "2")
    assert run.left() == 2 and run.done and run.environment["processes"] == 2
