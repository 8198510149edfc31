"""A speech synthesiser in the house: espeak-ng as a wheel, called in process; it makes LJSpeech-format folders.

Real enough to learn from, as long as one likes, without a download: voices, rates and pitches vary, and any text in any
of its languages can be spoken.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from threefold.data import words
from threefold.data.cache import folder, make_once
from threefold.errors import InputError, require
from threefold.specs.base import Spec

RETRIEVAL, UTF8, RATE, PITCH = 1, 1, 1, 3
_HEAR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


Line = tuple[str, str, int, int]  # text, voice, rate, pitch


@dataclass(frozen=True)
class Synthetic(Spec):
    """Sentences of `shortest` to `longest` words drawn from a list, each said once by one voice at one rate.

    `language` chooses the list and the voices (`en`, `fa`, `pt`); `voices` overrides them with espeak-ng's names, which
    take variants (`en-us+f4`; f2, f3 and f5 breathe, differently every time).
    """

    count: int = 2000
    language: str = "en"
    voices: tuple[str, ...] = ()
    rates: tuple[int, ...] = (140, 160, 180)
    shortest: int = 2
    longest: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.count >= 3, f"Synthetic(count={self.count}): give at least 3 utterances.")
        require(
            self.language in words.LANGUAGES,
            f"language {self.language!r}: give one of {', '.join(words.LANGUAGES)}.",
        )
        require(
            1 <= self.shortest <= self.longest,
            "words a sentence: give 1 <= shortest <= longest.",
        )
        require(
            all(80 <= rate <= 450 for rate in self.rates) and self.rates != (), "rates: give words a minute, 80 to 450."
        )

    def lines(self) -> list[Line]:
        """(text, voice, rate, pitch) of every utterance; no text twice."""
        rng = np.random.default_rng([self.seed, 7])
        listed, voices = words.listed(self.language), self.voices or words.VOICES[self.language]
        seen: dict[str, None] = {}
        tries = 0
        while len(seen) < self.count:
            tries += 1
            require(tries < 50 * self.count, f"{self.count} different sentences cannot be made: allow longer ones.")
            size = int(rng.integers(self.shortest, self.longest + 1))
            seen.setdefault(" ".join(listed[i] for i in rng.integers(0, len(listed), size)))
        return [(text, *self._speaker(rng, voices)) for text in seen]

    def _speaker(self, rng: np.random.Generator, voices: Sequence[str]) -> tuple[str, int, int]:
        voice, rate = voices[int(rng.integers(len(voices)))], self.rates[int(rng.integers(len(self.rates)))]
        return voice, rate, int(rng.integers(35, 66))

    def folder(self) -> Path:
        """The spoken folder: made once, then kept."""
        key = sha256(self.to_json().encode()).hexdigest()[:12]
        return make_once(folder() / f"espeak-{self.language}-{self.count}-{key}", self._fill)

    def _fill(self, target: Path) -> None:
        speak(target, self.lines())
        (target / "made-by.json").write_text(json.dumps(self.to_dict()) + "\n")


def speak(target: Path, lines: Sequence[Line]) -> None:
    """Speak (text, voice, rate, pitch) lines into an LJSpeech-format folder.

    In a fresh process: the synthesiser carries its phase from one utterance to the next, so only a whole folder from a
    fresh start is the same every time.
    """
    command = [sys.executable, "-m", "threefold.data.espeak", str(target)]
    done = subprocess.run(command, input=json.dumps(list(lines)), text=True, capture_output=True, check=False)
    require(done.returncode == 0, done.stderr.strip().rpartition("\n")[2].removeprefix("threefold.errors.InputError: "))


def write_folder(target: Path, lines: Sequence[Line]) -> None:
    """What the fresh process does."""
    import soundfile

    (target / "wavs").mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (text, voice, rate, pitch) in enumerate(lines):
        name = f"utt{number:06d}"
        samples, own_rate = say(text, voice, rate, pitch)
        require(len(samples) > 0, f"voice {voice!r} says nothing for {text!r}: use a voice of its language.")
        soundfile.write(target / "wavs" / f"{name}.wav", samples, own_rate, subtype="PCM_16")
        rows.append(f"{name}|{text}|{text}\n")
    (target / "metadata.csv").write_text("".join(rows), encoding="utf-8")


def say(text: str, voice: str = "en-us", rate: int = 160, pitch: int = 50) -> tuple[NDArray[np.int16], int]:
    """Samples and their rate."""
    library, own_rate = _library()
    require("|" not in text and "\n" not in text, f"{text!r}: a line break or | cannot stand in a metadata line.")
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise InputError(f"espeak-ng has no voice {voice!r}: give one such as en-us, en, fa, pt, pt-br, en-us+f4.")
    library.espeak_SetParameter(RATE, rate, 0)
    library.espeak_SetParameter(PITCH, pitch, 0)
    pieces: list[NDArray[np.int16]] = []

    def hear(wave: ctypes._Pointer[ctypes.c_short], count: int, _: object) -> int:
        if wave and count > 0:
            pieces.append(np.ctypeslib.as_array(wave, (count,)).copy())
        return 0

    kept = _HEAR(hear)
    library.espeak_SetSynthCallback(kept)
    raw = text.encode()
    library.espeak_Synth(raw, len(raw) + 1, 0, 1, 0, UTF8, None, None)
    library.espeak_Synchronize()
    return (np.concatenate(pieces) if pieces else np.zeros(0, np.int16)), own_rate


@cache
def _library() -> tuple[ctypes.CDLL, int]:
    """The synthesiser, started once a process."""
    try:
        import espeakng_loader
    except ImportError:
        raise InputError("Making speech needs espeak-ng: pip install 'threefold[speech]'.") from None
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    own_rate = library.espeak_Initialize(RETRIEVAL, 0, str(espeakng_loader.get_data_path()).encode(), 1 << 15)
    require(own_rate > 0, "espeak-ng did not start: its voice data was not found beside the wheel.")
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return library, own_rate


if __name__ == "__main__":
    write_folder(Path(sys.argv[1]), json.load(sys.stdin))
