"""Sound files: any rate, mono or stereo, wav or flac, to mono float32 at one rate; and what can be wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from threefold.errors import InputError, require

KINDS = {".wav": "WAV", ".flac": "FLAC"}
SHORTEST = 0.05  # seconds


def load(path: Path, rate: int) -> NDArray[np.float32]:
    """The samples in [-1, 1], channels averaged, resampled to `rate`."""
    import soundfile

    require(path.is_file(), f"{path}: no such file.")
    if fault := check(path):
        raise InputError(f"{path}: {fault}.")
    samples, own_rate = soundfile.read(path, dtype="float32", always_2d=True)
    return resampled(samples.mean(1), own_rate, rate)


def resampled(samples: NDArray[np.float32], own_rate: int, rate: int) -> NDArray[np.float32]:
    """Band-limited resampling; the samples themselves when the rates agree."""
    if own_rate == rate:
        return samples
    import soxr

    return np.asarray(soxr.resample(samples, own_rate, rate), dtype=np.float32)


def seconds(path: Path) -> float:
    """Length by the header."""
    import soundfile

    info = soundfile.info(path)
    return info.frames / info.samplerate


def check(path: Path) -> str:
    """What is wrong with a sound file, or nothing."""
    import soundfile

    size = path.stat().st_size
    if size == 0:
        return "the file has 0 bytes"
    with path.open("rb") as file:
        head = file.read(12)
    real = "WAV" if head[:4] in (b"RIFF", b"RF64") and head[8:] == b"WAVE" else "FLAC" if head[:4] == b"fLaC" else ""
    said = KINDS.get(path.suffix.lower(), "")
    if not real:
        return f"not a wav or flac file, whatever its name says (it begins with {head[:4]!r})"
    if real != said:
        return f"it is {real}, not what its name says"
    if real == "WAV" and head[:4] == b"RIFF" and (fault := _check_riff(path, size)):
        return fault
    try:
        return _check_samples(path)
    except soundfile.LibsndfileError as error:
        return f"not readable ({error.error_string.strip('. ')})"


def _check_riff(path: Path, size: int) -> str:
    """Whether the wav header's data chunk is the one that is there."""
    with path.open("rb") as file:
        at = 12
        while at + 8 <= size:
            file.seek(at)
            name, length = file.read(4), int.from_bytes(file.read(4), "little")
            if name == b"data":
                there = size - at - 8
                if length > there:
                    return f"truncated: its header says {length} bytes of sound, {there} are there"
                if length == 0:
                    return f"its header says 0 bytes of sound, though {there} follow" if there else "there is no sound"
                return ""
            at += 8 + length + length % 2
    return "truncated before any sound"


def _check_samples(path: Path) -> str:
    import soundfile

    with soundfile.SoundFile(path) as file:
        if file.frames / file.samplerate < SHORTEST:
            return f"{file.frames / file.samplerate:.3f} s of sound; at least {SHORTEST} s is needed"
        if file.subtype in ("FLOAT", "DOUBLE"):
            if not np.isfinite(file.read(dtype="float64")).all():
                return "it holds NaN or infinite samples"
        else:
            file.seek(max(0, file.frames - file.samplerate))
            if len(file.read(dtype="int16")) < min(file.frames, file.samplerate):
                return f"truncated: its header says {file.frames} samples, fewer are there"
    return ""
