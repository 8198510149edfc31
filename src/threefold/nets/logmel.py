"""Sound to log-mel frames, for whole recordings and for sound as it comes in."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from threefold.errors import require
from threefold.specs.speech import Floor, LogMelSpec

SILENCE = 1e-10  # power below which the logarithm is not asked


class LogMelState(NamedTuple):
    """`tail` (B, n): samples that later frames need; `loudest` (B,): the maximum so far; `heard`: how many samples."""

    tail: Tensor
    loudest: Tensor
    heard: int


class LogMel(nn.Module):
    """frame_i = (max(log10(mel_i), max - 8) + 4) / 4 with mel_i = triangles . |STFT_i|^2, i < samples / hop.

    The window is a periodic Hann of n_fft samples centred on i * hop; the sound is mirrored at its ends.
    """

    window: Tensor
    triangles: Tensor

    def __init__(self, spec: LogMelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("window", torch.hann_window(spec.n_fft), persistent=False)
        self.register_buffer("triangles", mel_triangles(spec), persistent=False)

    @property
    def shortest(self) -> int:
        """The least number of samples that can be mirrored."""
        return self.spec.n_fft // 2 + 1

    def forward(self, wave: Float[Tensor, "b samples"]) -> Float[Tensor, "b t bins"]:
        """The frames of whole recordings of equal length."""
        require(
            wave.shape[1] >= self.shortest,
            f"{wave.shape[1]} samples of sound: at least {self.shortest} are needed to compute a frame.",
        )
        half = self.spec.n_fft // 2
        padded = functional.pad(wave[:, None], (half, half), mode="reflect")[:, 0]
        log = self._log(padded, wave.shape[1] // self.spec.hop)
        if self.spec.floor is Floor.UTTERANCE:
            return _floored(log, log.amax((1, 2), keepdim=True))
        return _floored(log, log.amax(2, keepdim=True).cummax(1).values)

    def init_state(self, batch: int) -> LogMelState:
        """Before the first sample."""
        return LogMelState(self.window.new_zeros(batch, 0), self.window.new_full((batch,), -torch.inf), 0)

    def scan(
        self, samples: Float[Tensor, "b n"], state: LogMelState, *, last: bool = False
    ) -> tuple[Float[Tensor, "b t bins"], LogMelState]:
        """The frames that these samples complete, floored by the loudest so far; `last` mirrors the end.

        Any split of a recording gives what `forward` gives with Floor.RUNNING.
        """
        half, hop, total = self.spec.n_fft // 2, self.spec.hop, state.heard + samples.shape[1]
        sound = torch.cat([state.tail, samples], 1)
        if total < self.shortest:
            require(not last, f"{total} samples of sound: at least {self.shortest} are needed to compute a frame.")
            return samples.new_zeros(len(samples), 0, self.spec.bins), LogMelState(sound, state.loudest, total)
        if state.heard < self.shortest:
            sound = functional.pad(sound[:, None], (half, 0), mode="reflect")[:, 0]
        if last:
            sound = functional.pad(sound[:, None], (0, half), mode="reflect")[:, 0]
        before = _frames_by(state.heard, half, hop) if state.heard >= self.shortest else 0
        count = (total // hop if last else _frames_by(total, half, hop)) - before
        log = self._log(sound, count)
        loudest = torch.maximum(log.amax(2).cummax(1).values, state.loudest[:, None])
        frames = _floored(log, loudest[..., None])
        after = loudest[:, -1] if count > 0 else state.loudest
        return frames, LogMelState(sound[:, count * hop :], after, total)

    def _log(self, sound: Tensor, count: int) -> Tensor:
        """log10 of the mel power of the first `count` windows."""
        if count <= 0:
            return sound.new_zeros(len(sound), 0, self.spec.bins)
        windows = sound.unfold(1, self.spec.n_fft, self.spec.hop)[:, :count] * self.window
        power = torch.fft.rfft(windows).abs().square()
        return (power @ self.triangles).clamp_min(SILENCE).log10()


def _frames_by(heard: int, half: int, hop: int) -> int:
    """How many windows are complete after `heard` samples, when the next sample is unknown."""
    return (heard - half) // hop + 1


def _floored(log: Tensor, loudest: Tensor) -> Tensor:
    return (torch.maximum(log, loudest - 8.0) + 4.0) / 4.0


def mel_triangles(spec: LogMelSpec) -> Float[Tensor, "freqs bins"]:
    """Slaney's triangles: corners equally spaced on his scale from 0 to half the sample rate, each of area 1 (in Hz).

    His scale is linear below 1000 Hz (3/200 per Hz), then 27 steps for every factor 6.4.
    """
    top = _mel(torch.tensor(spec.sample_rate / 2, dtype=torch.float64))
    corners = _hertz(torch.linspace(0.0, float(top), spec.bins + 2, dtype=torch.float64))
    freqs = torch.linspace(0, spec.sample_rate / 2, spec.n_fft // 2 + 1, dtype=torch.float64)
    low, mid, high = corners[:-2], corners[1:-1], corners[2:]
    rising = (freqs[:, None] - low) / (mid - low)
    falling = (high - freqs[:, None]) / (high - mid)
    return (torch.minimum(rising, falling).clamp_min(0) * 2 / (high - low)).float()


_STEP = torch.log(torch.tensor(6.4, dtype=torch.float64)) / 27


def _mel(hertz: Tensor) -> Tensor:
    return torch.where(hertz < 1000, hertz * 3 / 200, 15 + (hertz.clamp_min(1) / 1000).log() / _STEP)


def _hertz(mel: Tensor) -> Tensor:
    return torch.where(mel < 15, mel * 200 / 3, 1000 * ((mel - 15) * _STEP).exp())
