"""A comparison runs every variant with every seed, continues where it stood, and says what the differences prove."""

import json
import sys
from pathlib import Path

import pytest

from threefold.cli.compare import _split
from threefold.cli.main import run as threefold
from threefold.recipes import comparison
from threefold.recipes.toys import CopyRecipe
from threefold.train import sweep
from threefold.train.metrics import bootstrap
from threefold.train.record import Run
from threefold.train.sweep import Local

SMALL = [
    "--train.steps",
    "3",
    "--model.layers",
    "1",
    "--model.width",
    "16",
    "--data.count",
    "64",
    "--data.tested",
    "16",
]
WORDS = ["compare", "copy", *SMALL, "--vary", "model.mixer=gru,Linear(features=taylor2, heads=2)", "--seeds", "2"]


def resumed_here(folder: str, threads: int) -> tuple[int, str]:
    """A job without a fresh interpreter."""
    return threefold(["resume", folder, "--progress", "none"]), ""


def test_values_are_split_outside_brackets() -> None:
    assert _split("gru,Linear(features=taylor2, heads=2),lstm") == ["gru", "Linear(features=taylor2, heads=2)", "lstm"]


def test_the_table_and_its_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "work", resumed_here)
    words = [*WORDS, "--run", str(tmp_path)]
    assert threefold([*words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"mixer={m}-seed{s}" for m in ("Linear_features=taylor2_heads=2", "gru") for s in (0, 1)]
    losses = {name: Run.open(tmp_path / name).rows("test")[0]["loss"] for name in names}
    pairs = [losses[names[0]] - losses[names[2]], losses[names[1]] - losses[names[3]]]
    wanted = bootstrap(pairs)
    assert second["differences"]["loss"] == {"mean": wanted.mean, "low": wanted.low, "high": wanted.high}
    assert first["differences"] == {} and first["runs"] == 2
    assert first["metrics"]["loss"][0] == pytest.approx((losses[names[2]] + losses[names[3]]) / 2)

    def never(folder: str, threads: int) -> tuple[int, str]:
        raise AssertionError("a finished job was started again")

    monkeypatch.setattr(sweep, "work", never)
    assert threefold(words) == 0
    shown = capsys.readouterr().out
    assert "± " in shown and "minus mixer=gru" in shown
    assert threefold([*words, "--train.lr", "0.5"]) == 2
    assert "holds another recipe" in capsys.readouterr().err


@pytest.mark.parametrize(("cluster", "wanted"), [(Local(2), 2), (Local(8), 1), (Local(2, threads=3), 3)])
def test_jobs_share_the_cores_unless_told(
    cluster: Local, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(sweep, "work", lambda folder, threads: (given.append(threads) or 0, folder))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    folders = [tmp_path / name for name in "abc"]
    assert sorted(ended.said for ended in cluster.run(folders)) == [str(folder) for folder in folders]
    assert given == [wanted] * 3


def test_a_variant_that_failed_leaves_the_others_their_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_gru(folder: str, threads: int) -> tuple[int, str]:
        return (2, "the reason") if "gru" in folder else resumed_here(folder, threads)

    monkeypatch.setattr(sweep, "work", never_gru)
    assert threefold([*WORDS, "--run", str(tmp_path), "--json"]) == 1
    told = capsys.readouterr()
    (line,) = json.loads(told.out)
    assert line["label"].startswith("mixer=Linear") and line["runs"] == 2 and line["differences"] == {}
    assert "gru-seed0: failed (2): the reason" in told.err
    monkeypatch.setattr(sweep, "work", lambda folder, threads: (2, ""))
    assert threefold([*WORDS, "--run", str(tmp_path / "none")]) == 2
    assert "no run of 'mixer=gru'" in capsys.readouterr().err


def test_a_failed_job_is_said_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(folder: str, threads: int) -> tuple[int, str]:
        return (3, "first line\nthe reason") if folder.endswith("gru-seed1") else resumed_here(folder, threads)

    monkeypatch.setattr(sweep, "work", once)
    assert threefold([*WORDS, "--run", str(tmp_path), "--jobs", "2"]) == 1
    assert "mixer=gru-seed1: failed (3): the reason" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is varied"),
        (["--vary", "model.mixer"], "write FIELD=VALUE"),
        (["--vary", "model.mixer=grru"], "did you mean 'gru'?"),
        (["--vary", "train.lr=0.1,0.1"], "both called"),
        (["--vary", "train.lr=0.1", "--seeds", "0"], "at least 1"),
    ],
)
def test_wrong_words(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert threefold(["compare", "copy", "--run", str(tmp_path / "x"), *words]) == 2
    assert says in capsys.readouterr().err


def test_booleans_and_products() -> None:
    from threefold.cli.compare import _variant

    axes = [[("train.bfloat16", "true"), ("train.bfloat16", "false")], [("train.lr", "0.1"), ("train.lr", "0.2")]]
    variants = [_variant(CopyRecipe(), chosen) for chosen in comparison.combine(axes)]
    assert [(v.recipe.train.bfloat16, v.recipe.train.lr) for v in variants] == [
        (True, 0.1),
        (True, 0.2),
        (False, 0.1),
        (False, 0.2),
    ]
    assert variants[0].label == "bfloat16=true lr=0.1"


def test_a_job_in_a_fresh_interpreter(tmp_path: Path) -> None:
    assert threefold([*WORDS[:-4], "--vary", "model.mixer=gru", "--seeds", "1", "--run", str(tmp_path)]) == 0
    assert Run.open(tmp_path / "mixer=gru-seed0").done


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_on_a_local_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra cluster)")
    assert threefold([*WORDS, "--run", str(tmp_path), "--on", "ray"]) == 0
    assert capsys.readouterr().out.count(": done") == 4


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert threefold([*WORDS, "--run", str(tmp_path), "--on", "ray"]) == 2
    assert "pip install 'threefold[cluster]'" in capsys.readouterr().err
