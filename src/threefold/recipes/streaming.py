"""Sound in pieces as it comes, the text that each piece adds, and how far behind the sound it is."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from threefold.errors import InputError, require
from threefold.train.task import Listener

Samples = NDArray[np.float32]


class Resampler:
    """Pieces at one rate to pieces at another, without a seam between them."""

    def __init__(self, own_rate: int, rate: int) -> None:
        import soxr

        self._stream = None if own_rate == rate else soxr.ResampleStream(own_rate, rate, 1, dtype="float32")

    def __call__(self, samples: Samples, *, last: bool = False) -> Samples:
        if self._stream is None:
            return samples
        return np.asarray(self._stream.resample_chunk(samples, last=last), dtype=np.float32)


def of_file(path: Path, rate: int, seconds: float) -> Iterator[Samples]:
    """A sound file in pieces of so many seconds, mono, at `rate`."""
    import soundfile

    from threefold.data.audio import check

    require(path.is_file(), f"{path}: no such file.")
    if fault := check(path):
        raise InputError(f"{path}: {fault}.")
    with soundfile.SoundFile(path) as file:
        resample = Resampler(file.samplerate, rate)
        size = max(1, round(seconds * file.samplerate))
        for block in file.blocks(blocksize=size, dtype="float32", always_2d=True):
            yield resample(np.ascontiguousarray(block.mean(1)))
        yield resample(np.zeros(0, np.float32), last=True)


def of_stream(source: BinaryIO, own_rate: int | None, rate: int, seconds: float) -> Iterator[Samples]:
    """A pipe of 16-bit samples in pieces: a WAV with its header, or bare mono samples at `own_rate` (None: `rate`)."""
    head = source.read(4)
    channels, kept = 1, head
    if head == b"RIFF":
        channels, own_rate, kept = *_header(source), b""
    own_rate = own_rate or rate
    resample = Resampler(own_rate, rate)
    size = 2 * channels * max(1, round(seconds * own_rate))
    while piece := kept + source.read(size - len(kept)):
        kept = b""
        whole = len(piece) - len(piece) % (2 * channels)
        samples = np.frombuffer(piece[:whole], "<i2").reshape(-1, channels).astype(np.float32).mean(1) / 32768
        yield resample(samples.astype(np.float32))
    yield resample(np.zeros(0, np.float32), last=True)


def _header(source: BinaryIO) -> tuple[int, int]:
    """Channels and rate of a WAV stream, read up to where its samples begin."""
    require(source.read(8)[4:] == b"WAVE", "the stream begins like a WAV and is none.")
    channels, rate = 0, 0
    while True:
        name, length = source.read(4), source.read(4)
        require(len(length) == 4, "the WAV stream ends before its samples begin.")
        if name == b"data":
            require(channels > 0, "the WAV stream has samples before it says what they are.")
            return channels, rate
        content = source.read(struct.unpack("<I", length)[0])
        if name == b"fmt ":
            require(len(content) >= 16, f"the WAV stream describes its samples in {len(content)} bytes; 16 are needed.")
            kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", content[:16])
            require(
                bits == 16 and kind in (1, 0xFFFE) and channels > 0 and rate > 0,
                f"the WAV stream has {bits}-bit samples of kind {kind}: give 16-bit PCM.",
            )


@dataclass
class Timing:
    """How long the pieces were, and how long each took to understand."""

    heard: float = 0.0  # seconds of sound
    delays: list[float] = field(default_factory=list)  # seconds from the end of a piece to its text
    first: float | None = None  # seconds of sound before the first text

    @property
    def real_time_factor(self) -> float:
        """Computing time over sound time: below 1 keeps up."""
        return sum(self.delays) / self.heard if self.heard else 0.0

    def to_dict(self) -> dict[str, float | None]:
        """As JSON, delays in milliseconds."""
        middle, late, worst = (1000 * float(q) for q in np.quantile(self.delays or [0.0], (0.5, 0.95, 1.0)))
        return {
            "seconds": round(self.heard, 3),
            "first_text_after": self.first,
            "delay_ms_median": round(middle, 3),
            "delay_ms_95": round(late, 3),
            "delay_ms_worst": round(worst, 3),
            "real_time_factor": round(self.real_time_factor, 4),
        }


def follow(listener: Listener, pieces: Iterable[Samples], timing: Timing) -> Iterator[str]:
    """The text that each piece adds, and the rest at the end."""
    import torch

    for samples in pieces:
        if not len(samples):
            continue
        timing.heard += len(samples) / listener.rate
        begun = time.perf_counter()
        text = listener.hear(torch.from_numpy(samples))
        timing.delays.append(time.perf_counter() - begun)
        if text and timing.first is None:
            timing.first = round(timing.heard, 3)
        yield text
    begun = time.perf_counter()
    text = listener.end()
    timing.delays.append(time.perf_counter() - begun)
    yield text
