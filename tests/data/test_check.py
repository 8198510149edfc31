"""One command judges whatever a person has."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from threefold.data.check import check
from threefold.data.tables import Columns
from threefold.errors import InputError


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("good\t1\nbad\t0\n")
    (tmp_path / "test.csv").write_text("text,label\nodd,2\n,1\n")
    found = check(tmp_path)
    assert (found.kind, found.recipe) == ("labelled text", "sentiment")
    assert len(found.problems) == 2
    assert "text is empty" in str(found.problems[0])
    assert "'2' does not occur in training" in str(found.problems[1])
    assert check(tmp_path / "train.tsv").problems == ()
    (tmp_path / "a.tsv").write_text("1\tx\tgood\n0\tx\tbad\n")
    assert "no text column" in str(check(tmp_path / "a.tsv").problems[0])
    assert check(tmp_path / "a.tsv", Columns("2", "0")).problems == ()


def test_what_a_recipe_refuses_is_said_before(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("fine\t1\ngood\t1\n")
    assert "one label only (1)" in str(check(tmp_path / "one.tsv").problems[0])
    (tmp_path / "long.tsv").write_text("text\tlabel\n" + "w " * 1001 + "\t1\nbad\t0\n")
    assert str(check(tmp_path / "long.tsv").problems[0]).startswith("long.tsv text 1: 1001 words, over the limit")


def test_speech(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    assert "without a metadata.csv" in str(check(tmp_path).problems[0])
    soundfile.write(tmp_path / "wavs" / "a.flac", np.zeros(16000), 16000)
    (tmp_path / "metadata.csv").write_text("a|one\nb|two\n")
    found = check(tmp_path)
    assert found.holds == "1 sound utterances, 0.0 minutes"
    assert "b: no wavs/b.wav" in str(found.problems[0])


def test_images_and_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", test_images=np.zeros((2, 8, 8), np.uint8), test_labels=np.zeros((2, 1), int))
    assert check(tmp_path / "a.npz").holds == "test 2 images of 8x8x1"
    (tmp_path / "a.txt").write_text("abca")
    assert check(tmp_path / "a.txt").holds == "4 characters, 3 different"
    (tmp_path / "b.txt").write_bytes(b"\xff")
    assert len(check(tmp_path / "b.txt").problems) == 1


def test_nothing_to_judge(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        check(tmp_path / "nowhere")
    with pytest.raises(InputError, match="neither"):
        check(tmp_path)
