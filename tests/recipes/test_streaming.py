"""Sound in pieces is the sound: from files and pipes, at any rate; and the text is that of all pieces together."""

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from threefold.cli.main import run as threefold
from threefold.data.audio import load
from threefold.errors import InputError
from threefold.recipes.streaming import Timing, follow, of_file, of_stream

RATE = 16000


def tone(seconds: float, rate: int) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize(("rate", "channels", "kind"), [(16000, 1, "wav"), (44100, 2, "wav"), (8000, 1, "flac")])
def test_pieces_of_a_file_are_the_file(tmp_path: Path, rate: int, channels: int, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, np.stack([tone(0.5, rate)] * channels, 1), rate)
    whole, joined = load(path, RATE), np.concatenate(list(of_file(path, RATE, 0.07)))
    assert abs(len(whole) - len(joined)) <= 2
    size = min(len(whole), len(joined))
    assert np.abs(whole[:size] - joined[:size]).max() < 2e-3


def test_pieces_of_a_pipe(tmp_path: Path) -> None:
    samples = (tone(0.3, RATE) * 32767).astype("<i2")
    bare = np.concatenate(list(of_stream(io.BytesIO(samples.tobytes()), None, RATE, 0.05)))
    assert np.array_equal(bare, samples.astype(np.float32) / 32768)
    path = tmp_path / "a.wav"
    soundfile.write(path, np.stack([samples, samples], 1), RATE)
    stereo = np.concatenate(list(of_stream(io.BytesIO(path.read_bytes()), None, RATE, 0.05)))
    assert np.allclose(stereo, bare, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"RIFF\0\0\0\0JUNK", "begins like a WAV"),
        (b"RIFF\0\0\0\0WAVEfmt ", "ends before"),
        (b"RIFF\0\0\0\0WAVEfmt \4\0\0\0abcd", "in 4 bytes; 16 are needed"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "before it says"),
        (b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 3, 1, RATE, 0, 4, 32), "16-bit PCM"),
    ],
)
def test_a_pipe_that_is_no_sound_is_named(content: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(of_stream(io.BytesIO(content), None, RATE, 0.1))


class Counting:
    """Says how many thousand samples it has heard."""

    rate = RATE

    def __init__(self) -> None:
        self.heard, self.said = 0, 0

    def hear(self, samples: torch.Tensor) -> str:
        self.heard += len(samples)
        new = self.heard // 1000 - self.said
        self.said += new
        return "x" * new

    def end(self) -> str:
        return "."


@pytest.mark.parametrize("seconds", [0.013, 0.1, 5.0])
def test_the_text_does_not_depend_on_the_pieces(tmp_path: Path, seconds: float) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(1.0, RATE), RATE)
    timing = Timing()
    assert "".join(follow(Counting(), of_file(path, RATE, seconds), timing)) == 16 * "x" + "."
    told = timing.to_dict()
    assert told["seconds"] == 1.0 and told["real_time_factor"] is not None and len(timing.delays) >= 2


def test_a_run_that_hears_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--train.steps",
        "1",
        "--model.layers",
        "1",
        "--data.count",
        "32",
        "--data.tested",
        "8",
        "--progress",
        "none",
    ]
    assert threefold(["train", "copy", *words, "--run", str(tmp_path / "run")]) == 0
    assert threefold(["stream", str(tmp_path / "run"), "a.wav"]) == 2
    assert "hears nothing" in capsys.readouterr().err


@pytest.mark.slow
def test_a_speech_run_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data.synthetic.count", "24", "--train.steps", "2", "--model.streaming", "--model.width", "32"]
    folder = str(tmp_path / "run")
    assert threefold(["train", "speech", *words, "--run", folder, "--progress", "none"]) == 0
    soundfile.write(tmp_path / "a.wav", tone(1.0, RATE), RATE)
    assert threefold(["stream", folder, str(tmp_path / "a.wav"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seconds"] == 1.0
