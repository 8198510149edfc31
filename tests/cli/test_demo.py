"""The demonstration does what is not done, says which job failed, and finds what its records say."""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from threefold import demo
from threefold.cli.main import run as threefold
from threefold.errors import InputError
from threefold.recipes.saved import recipe_of
from threefold.train.record import Run

LAWS = [{"law": "forms", "subject": "LSTM", "status": status} for status in ("lawful", "lawful", "broken")]
CLAIMS = [{"id": "a", "says": "1 + 1 = 2", "verdict": "true", "recorded": "true", "moved": False}]


def job(folder: Path, name: str, code: str = "") -> demo.Job:
    leaves = folder / name
    script = code or f"import pathlib; pathlib.Path({str(leaves)!r}).open('a').write('x')"
    return demo.Job(name, (sys.executable, "-c", script), leaves)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"mixer": "LSTM", "T": 64, "milliseconds": 1.0, "flops": 10**6, "planned": 10, "counted": 10, "here": 20}
    about = {"rows": [row], "machine": "a machine", "threads": 1, "torch": "2", "width": 8, "batch": 1}
    monkeypatch.setattr(demo, "measured", lambda: about)


def test_interrupted_it_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: None) -> None:
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'a')!r}).exists(): time.sleep(0.01)\n"
    stop = job(tmp_path, "b", wait + "time.sleep(0.5); raise SystemExit('the power went')")
    monkeypatch.setattr(demo, "jobs", lambda folder: [job(folder, "a"), stop])
    with pytest.raises(InputError, match="b did not finish: the power went"):
        demo.run(tmp_path, lambda *told: None)
    heard: list[tuple[str, int, int]] = []
    monkeypatch.setattr(demo, "jobs", lambda folder: [job(folder, "a"), job(folder, "b"), job(folder, "c")])
    demo.run(tmp_path, lambda *told: heard.append(told))
    assert heard[0] == ("", 1, 4) and heard[-1] == ("time and memory", 4, 4)
    assert {says for says, _, _ in heard[1:-1]} == {"b", "c"}
    assert all((tmp_path / name).read_text() == "x" for name in "abc"), "what was done is not done again"
    heard.clear()
    demo.run(tmp_path, lambda *told: heard.append(told))
    assert heard == [("", 3, 4), ("time and memory", 4, 4)]


def test_stopped_it_stops_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: None) -> None:
    forever = job(tmp_path, "b", "import time; time.sleep(600)")
    monkeypatch.setattr(demo, "jobs", lambda folder: [job(folder, "a"), forever])
    began = time.monotonic()

    def heard(says: str, done: int, total: int) -> None:
        if says == "a":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path, heard)
    assert time.monotonic() - began < 300


def test_jobs_are_every_mixer_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {each.leaves.relative_to(tmp_path) for each in demo.jobs(tmp_path)}
    assert {path.parts[0] for path in made} >= {"sentiment", "laws.json", "claims.json"}
    runs = [Run.open(path.parent) for path in tmp_path.rglob("recipe.json")]
    assert len(made) == len(runs) + 2
    films = [recipe_of(run) for run in runs if run.folder.parent.name == "sentiment"]
    assert {each.train.seed for each in films} == set(demo.SEEDS) and len(films) == 5 * len(demo.MIXERS)
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    folders = {each.leaves.parts[-3] for each in demo.jobs(tmp_path / "silent") if each.leaves.name == "done"}
    assert folders == {"digits", "sentiment"}, "without a synthesiser it looks at digits"


def test_findings_are_read_off_the_records(tmp_path: Path) -> None:
    (tmp_path / "laws.json").write_text(json.dumps(LAWS))
    (tmp_path / "claims.json").write_text(json.dumps(CLAIMS))
    run = tmp_path / "sentiment" / "one"
    run.mkdir(parents=True)
    (run / "recipe.json").write_text(json.dumps({"spec": "SentimentRecipe", "train": {"spec": "Train", "seed": 0}}))
    row = {"kind": "test", "step": 1, "accuracy": 0.75, "confusion": [[30, 10], [10, 30]], "names": ["a", "b"]}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    found = demo.lines(tmp_path)
    assert found[0] == "sentiment: run accuracy 0.750 (95% interval 0.645 to 0.832)."
    assert found[-1].startswith("trust: 2 laws hold on 4 mixers, 1 broken; 1 statements")


def test_the_crossover_is_where_the_plans_cross() -> None:
    plans = {name: spec.plan(demo.WIDTH).total for name, spec in demo.MIXERS.items()}

    def flops(name: str, T: int) -> int:
        return int(plans[name].forward(B=1, T=T) + plans[name].backward(B=1, T=T))

    said = demo.crossover()
    for name in set(plans) - {"Softmax"}:
        T = int(said.split(f"{name} from T = ")[1].split(",")[0].rstrip("."))
        assert flops(name, T - 1) >= flops("Softmax", T - 1)
        assert all(flops(name, later) < flops("Softmax", later) for later in range(T, T + 300))


def test_planned_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LENGTHS", (16, 130))
    rows: list[dict[str, Any]] = demo.measured(repeats=1)["rows"]
    assert len(rows) == 2 * len(demo.MIXERS)
    assert all(row["planned"] == row["counted"] > 0 and row["here"] > 0 and row["milliseconds"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("espeakng_loader") is None, reason="made speech needs the extra `speech`")
def test_the_whole_demonstration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--run", str(tmp_path / "demo")]
    child = subprocess.Popen(
        [sys.executable, "-m", "threefold", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        child.wait(timeout=20)
    except subprocess.TimeoutExpired:
        child.terminate()
        child.communicate()
    assert threefold(words) == 0
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 5 and found[-1].startswith("next: ") and "0 broken" in found[3]
    page = (tmp_path / "demo" / "index.html").read_text()
    for part in ("Test accuracy", "Spectrogram", "Where the decoder looked", "Statements by verdict", "audio controls"):
        assert part in page
