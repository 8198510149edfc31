"""LJSpeech-format folders, with everything that is wrong in them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from threefold.data.speech import Limits, load, scan, splits
from threefold.errors import InputError


def folder_of(path: Path, rows: list[str], seconds: float = 0.2) -> Path:
    (path / "wavs").mkdir(parents=True)
    for number in range(len(rows)):
        soundfile.write(path / "wavs" / f"u{number}.wav", np.full(int(16000 * seconds), 0.1), 16000)
    (path / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_the_last_column_is_the_text(tmp_path: Path) -> None:
    found = load(folder_of(tmp_path, ["u0|No. 3|number three", 'u1|he said "so"', "u2|سلام|سلام"]))
    assert [u.text for u in found] == ["number three", 'he said "so"', "سلام"]
    assert found[0].seconds == pytest.approx(0.2)


def test_every_fault_is_named_and_none_is_dropped(tmp_path: Path) -> None:
    rows = ["u0|fine", "u1", "u2|", "u0|again", "../u3|out", "u9|lost", "u6|" + "x" * 50, "u7|fine"]
    folder = folder_of(tmp_path / "a", rows)
    (folder / "wavs" / "u7.wav").write_bytes(b"")
    utterances, problems = scan(folder, Limits(characters=40))
    assert [u.name for u in utterances] == ["u0"]
    said = [f"{p.where}: {p.what}" for p in problems]
    wanted = ["line 2: 1 columns", "line 3: u2: the text is empty", "used twice", "../u3: no wavs", "u9: no wavs",
              "over the limit of 40", "wavs/u7.wav: the file has 0 bytes"]  # fmt: skip
    assert len(said) == len(wanted)
    for line, part in zip(said, wanted, strict=True):
        assert part in line
    with pytest.raises(InputError, match="7 problems"):
        load(folder, Limits(characters=40))


def test_an_id_does_not_leave_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a", ["u0|fine", "../../b/secret|out"])
    (tmp_path / "b").mkdir()
    soundfile.write(tmp_path / "b" / "secret.wav", np.zeros(8000), 16000)
    assert len(scan(folder)[1]) == 1


def test_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0.2 s, over the limit of 0.1"):
        load(folder_of(tmp_path, ["u0|fine"]), Limits(seconds=0.1))


def test_not_a_speech_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no metadata.csv"):
        load(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "metadata.csv").write_bytes(b"u0|\xff\n")
    assert "not utf-8" in scan(tmp_path)[1][0].what


def test_one_text_is_in_one_part(tmp_path: Path) -> None:
    rows = [f"u{i}|text {i % 10}" for i in range(30)]
    parts = splits(folder_of(tmp_path, rows, 0.06))
    texts = {name: {u.text for u in part} for name, part in parts.items()}
    assert sum(len(part) for part in parts.values()) == 30
    assert all(len(part) == 3 * len(texts[name]) for name, part in parts.items())
    assert all(texts.values())


def test_parts_by_folder(tmp_path: Path) -> None:
    for name in ("train", "test"):
        folder_of(tmp_path / name, ["u0|one", "u1|two"])
    assert {name: len(part) for name, part in splits(tmp_path).items()} == {"train": 2, "test": 2}
