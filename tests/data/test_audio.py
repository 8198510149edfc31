"""Sound at any rate, and files that lie about themselves."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from threefold.data.audio import check, load, resampled
from threefold.errors import InputError


def tone(seconds: float = 0.5, rate: int = 22050) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)


def put(folder: Path, samples: np.ndarray, rate: int = 22050, name: str = "a.wav", subtype: str = "PCM_16") -> Path:
    path = folder / name
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_any_rate_and_channels_become_one(tmp_path: Path, rate: int, channels: int, name: str) -> None:
    path = put(tmp_path, np.tile(tone(rate=rate)[:, None], (1, channels)), rate, name)
    samples = load(path, 16000)
    assert samples.dtype == np.float32
    assert abs(len(samples) - 8000) <= 1
    wanted = tone(rate=16000)[: len(samples)]
    assert np.abs(samples[500:7500] - wanted[500:7500]).max() < 2e-3


def test_same_rate_is_untouched() -> None:
    samples = tone().astype(np.float32)
    assert resampled(samples, 22050, 22050) is samples


def test_files_that_lie(tmp_path: Path) -> None:
    path = put(tmp_path, tone(3.0))
    raw = path.read_bytes()
    at = raw.index(b"data") + 4

    def said(content: bytes) -> str:
        path.write_bytes(content)
        return check(path)

    assert said(raw) == ""
    assert said(b"") == "the file has 0 bytes"
    assert "truncated" in said(raw[: len(raw) // 2])
    assert "truncated" in said(raw[:30])
    assert "its header says 0 bytes of sound, though 132300 follow" in said(raw[:at] + b"\0\0\0\0" + raw[at + 4 :])
    assert "not a wav or flac" in said(b"ID3\x04 this is an mp3, really")
    with pytest.raises(InputError, match="not a wav or flac"):
        load(path, 16000)


def test_flac_that_lies(tmp_path: Path) -> None:
    path = put(tmp_path, np.random.default_rng(0).uniform(-0.5, 0.5, 40000), name="a.flac")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    assert check(path)
    renamed = tmp_path / "b.wav"
    renamed.write_bytes(raw)
    assert check(renamed) == "it is FLAC, not what its name says"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, wrong: float) -> None:
    samples = tone()
    samples[300] = wrong
    assert "NaN or infinite" in check(put(tmp_path, samples, subtype="FLOAT"))


def test_too_short(tmp_path: Path) -> None:
    assert "at least 0.05 s" in check(put(tmp_path, tone(0.01)))
    assert check(put(tmp_path, tone(0.0)))
