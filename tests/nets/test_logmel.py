"""Log-mel frames against a reference written from the definition in plain numpy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from threefold.errors import InputError
from threefold.specs.base import Spec
from threefold.specs.speech import Floor, LogMelSpec


def to_mel(hertz: float) -> float:
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)


def to_hertz(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def reference(wave: NDArray[np.float64], rate: int, n_fft: int, hop: int, bins: int) -> NDArray[np.float64]:
    """Frame by frame, bin by bin."""
    corners = [to_hertz(to_mel(rate / 2) * i / (bins + 1)) for i in range(bins + 2)]
    weights = np.zeros((bins, n_fft // 2 + 1))
    for b, (low, mid, high) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        for k in range(n_fft // 2 + 1):
            hertz = k * rate / n_fft
            height = min((hertz - low) / (mid - low), (high - hertz) / (high - mid))
            weights[b, k] = max(0.0, height) * 2 / (high - low)
    half = n_fft // 2
    mirrored = np.concatenate([wave[half:0:-1], wave, wave[-2 : -half - 2 : -1]])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    phases = np.exp(-2j * np.pi * np.outer(np.arange(half + 1), np.arange(n_fft)) / n_fft)
    frames = []
    for i in range(len(wave) // hop):
        power = np.abs(phases @ (mirrored[i * hop : i * hop + n_fft] * window)) ** 2
        frames.append(np.log10(np.maximum(weights @ power, 1e-10)))
    log = np.array(frames)
    return (np.maximum(log, log.max() - 8) + 4) / 4


def sound(samples: int, rate: int = 16000) -> NDArray[np.float64]:
    """A rising tone over noise, with a pause that the floor must cut."""
    rng = np.random.default_rng(0)
    t = np.arange(samples) / rate
    wave = 0.3 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.01 * rng.standard_normal(samples)
    wave[samples // 3 : samples // 2] = 0
    return wave


@pytest.mark.parametrize(
    ("spec", "samples"),
    [
        (LogMelSpec(), 8000),
        (LogMelSpec(), 201),
        (LogMelSpec(), 4801),
        (LogMelSpec(sample_rate=8000, n_fft=200, hop=80, bins=40), 3000),
    ],
)
def test_every_frame_is_the_definitions(spec: LogMelSpec, samples: int) -> None:
    wave = sound(samples, spec.sample_rate)
    wanted = reference(wave, spec.sample_rate, spec.n_fft, spec.hop, spec.bins)
    found = spec.build()(torch.tensor(wave, dtype=torch.float32)[None])[0].numpy()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < 2e-5


@pytest.mark.parametrize("cuts", [[], [1], [100, 200, 201, 202], [160, 320, 480, 4000], list(range(0, 5000, 37))])
def test_sound_as_it_comes_gives_the_same_frames(cuts: list[int]) -> None:
    front = LogMelSpec(floor=Floor.RUNNING).build()
    wave = torch.tensor(sound(5000), dtype=torch.float32).repeat(2, 1)
    wave[1] *= 0.1
    state, found = front.init_state(2), []
    for piece in torch.tensor_split(wave, cuts, dim=1):
        frames, state = front.scan(piece, state)
        found.append(frames)
    frames, state = front.scan(wave[:, :0], state, last=True)
    assert torch.allclose(torch.cat([*found, frames], 1), front(wave), atol=1e-5)


def test_the_stream_keeps_little() -> None:
    front = LogMelSpec(floor=Floor.RUNNING).build()
    state = front.init_state(1)
    for _ in range(20):
        _, state = front.scan(torch.randn(1, 1600), state)
        assert state.tail.shape[1] < 400 + 160


def test_too_short_a_sound_is_refused() -> None:
    front = LogMelSpec().build()
    with pytest.raises(InputError, match="at least 201"):
        front(torch.zeros(1, 200))
    with pytest.raises(InputError, match="at least 201"):
        front.scan(torch.zeros(1, 200), front.init_state(1), last=True)


def test_silence_is_finite_and_spec_round_trips() -> None:
    assert torch.isfinite(LogMelSpec().build()(torch.zeros(1, 4000))).all()
    spec = LogMelSpec(floor=Floor.RUNNING)
    assert Spec.from_json(spec.to_json()) == spec
