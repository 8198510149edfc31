"""Made speech: the same folder every time, in several languages."""

from pathlib import Path

import numpy as np
import pytest

from threefold.data import espeak, speech, words
from threefold.errors import InputError
from threefold.specs.base import Spec

pytest.importorskip("espeakng_loader", reason="made speech needs the extra `speech`")


@pytest.mark.parametrize(("text", "voice"), [("hello", "en-us"), ("سلام دنیا", "fa"), ("bom dia", "pt-br+m3")])
def test_it_speaks(text: str, voice: str) -> None:
    samples, rate = espeak.say(text, voice)
    assert rate == 22050
    assert 0.2 < len(samples) / rate < 3
    assert np.abs(samples.astype(int)).max() > 3000


def test_slower_is_longer() -> None:
    assert len(espeak.say("one two three", rate=100)[0]) > 1.3 * len(espeak.say("one two three", rate=200)[0])


def test_the_folder_is_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, sounds = espeak.Synthetic(count=5, shortest=1, longest=2), []
    for number in range(2):
        monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path / str(number)))
        folder = spec.folder()
        sounds.append([(u.text, u.sound.read_bytes()) for u in speech.load(folder)])
        espeak.say("something in between")
    assert sounds[0] == sounds[1]
    assert len({text for text, _ in sounds[0]}) == 5
    before = folder.stat().st_mtime_ns
    assert spec.folder().stat().st_mtime_ns == before


def test_sentences_are_a_function_of_the_seed() -> None:
    assert espeak.Synthetic(count=20).lines() == espeak.Synthetic(count=20).lines()
    assert espeak.Synthetic(count=20).lines() != espeak.Synthetic(count=20, seed=1).lines()
    lines = espeak.Synthetic(count=50, language="fa").lines()
    assert {word for text, *_ in lines for word in text.split()} <= set(words.listed("fa"))
    assert len(words.listed("en")) == len(set(words.listed("en"))) == 200


def test_wrong_wishes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no voice 'zzz'"):
        espeak.speak(tmp_path, [("hello", "zzz", 160, 50)])
    with pytest.raises(InputError, match="give one of en, fa, pt"):
        espeak.Synthetic(language="xx")
    with pytest.raises(InputError, match="different sentences"):
        espeak.Synthetic(count=500, shortest=1, longest=1).lines()
    with pytest.raises(InputError, match=r"line break or \|"):
        espeak.say("a|b")
    assert Spec.from_json(espeak.Synthetic().to_json()) == espeak.Synthetic()
