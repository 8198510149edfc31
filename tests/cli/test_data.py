"""What data is here, what is wrong with it, and how it is made, from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from threefold.cli.main import run as threefold
from threefold.data import fetch
from threefold.data.fetch import SOURCES


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path / "cache"))


def test_the_list_says_what_is_here_under_which_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert threefold(["data", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"digits", "espeak", "opinions", "toys"} | {source.name for source in SOURCES} <= rows.keys()
    assert rows["octmnist"]["here"] == "not fetched" and rows["octmnist"]["licence"] == "CC BY 4.0"
    place = fetch.place(fetch.source("tinyshakespeare"))
    place.parent.mkdir(parents=True)
    place.write_text("text")
    assert threefold(["data", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["tinyshakespeare"]["here"] == str(place)
    assert threefold(["data", "list"]) == 0
    assert "threefold data fetch NAME" in capsys.readouterr().out


def test_a_check_names_everything_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "voice"
    (folder / "wavs").mkdir(parents=True)
    soundfile.write(folder / "wavs" / "good.wav", np.zeros(8000), 8000)
    soundfile.write(folder / "wavs" / "number.wav", np.full(800, np.nan), 8000, subtype="FLOAT")
    (folder / "wavs" / "nothing.wav").write_bytes(b"")
    (folder / "wavs" / "text.wav").write_bytes(b"this is not sound at all" * 20)
    whole = (folder / "wavs" / "good.wav").read_bytes()
    (folder / "wavs" / "cut.wav").write_bytes(whole[: len(whole) // 2])
    names = ["good", "number", "nothing", "text", "cut", "absent"]
    (folder / "metadata.csv").write_text("".join(f"{name}|words\n" for name in names) + "silent|\nlone\n")
    assert threefold(["data", "check", str(folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "speech"
    told = {problem["where"]: problem["what"] for problem in found["problems"]}
    lines = [f"metadata.csv line {number}" for number in range(2, 9)]
    assert list(told) == lines
    for line, name in zip(lines, [*names[1:], "silent", "1 columns"], strict=True):
        assert name in told[line]
    assert threefold(["data", "check", str(folder)]) == 1
    assert capsys.readouterr().out.endswith("7 problems\n")


def test_nothing_wrong_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "own.tsv"
    table.write_text("5\tgood film\n1\tdull\n")
    assert threefold(["data", "check", str(table), "--text", "1", "--label", "0"]) == 0
    assert f"threefold train sentiment --data {table}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lst"], "did you mean 'list'?"),
        (["fetch", "octminst"], "did you mean 'octmnist'"),
        (["check", "nowhere"], "nowhere: no such file or folder"),
        (["check"], "needed"),
        (["speak", "nowhere.txt", "out"], "nowhere.txt: no such file"),
    ],
)
def test_wrong_words(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert threefold(["data", *words]) == 2
    assert says in capsys.readouterr().err


def test_lines_are_spoken_by_the_voices_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("espeakng_loader", reason="made speech needs the extra `speech`")
    (tmp_path / "lines.txt").write_text("one\n\ntwo\nthree\n")
    words = ["data", "speak", str(tmp_path / "lines.txt"), str(tmp_path / "out"), "--voice", "en-us", "pt-br"]
    assert threefold(words) == 0
    assert "3 utterances" in capsys.readouterr().out
    rows = (tmp_path / "out" / "metadata.csv").read_text().splitlines()
    assert [row.split("|")[1] for row in rows] == ["one", "two", "three"]
    sounds = sorted((tmp_path / "out" / "wavs").iterdir())
    assert len(sounds) == 3 and all(soundfile.info(path).duration > 0.1 for path in sounds)
    assert threefold(words) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_fetch_prints_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    place = fetch.place(fetch.source("sst2"))
    place.mkdir(parents=True)
    assert threefold(["data", "fetch", "sst2"]) == 0
    assert capsys.readouterr().out == f"{place}\n"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert threefold(["data"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {action}" in shown for action in ("list", "fetch", "check", "speak"))
