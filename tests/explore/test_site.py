"""What explore shows: exact numbers at any size, and the text of a sound as it is heard."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from tests.browser import needs_browser, visit_served
from threefold.data.text import Alphabet
from threefold.errors import InputError
from threefold.explore.panels import ear
from threefold.explore.server import Site
from threefold.explore.site import Subject, assemble, site_of
from threefold.recipes.listening import Follower
from threefold.recipes.sentiment import SentimentRecipe
from threefold.recipes.speech import SpeechModel
from threefold.report.page import Page
from threefold.specs.attention import Linear
from threefold.specs.features import Taylor
from threefold.specs.recurrent import GRU
from threefold.train.loop import fit
from threefold.train.record import Run

RATE = 16000


def wav(seconds: float = 1.0, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    samples = 0.3 * np.random.default_rng(0).standard_normal(round(seconds * rate))
    soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def follower() -> Follower:
    torch.manual_seed(0)
    spec = SpeechModel(encoder=GRU(), decoder=GRU(), width=16, ffn=16, layers=1, streaming=True).spec(12)
    return Follower(spec.build(), Alphabet(tuple("abcdefgh ")))


def hearing() -> Site:
    return assemble(Subject("speech", hear=ear(follower)), Page("Speech", "", ()))


def test_a_mixer_is_planned_at_any_size() -> None:
    site = site_of("taylor2", 64)
    answer = site.answers["dimensions"]({"B": "3", "T": "77"})
    total = Linear(features=Taylor(2)).plan(64).total.at(B=3, T=77)
    assert answer["rows"][0][2:] == [int(each()) for each in (total.params, total.forward, total.saved, total.state)]
    assert f"{int(total.backward()):,} backward" in answer["verdict"]
    assert "Dimensions and cost" in site.page and site.hear is None


def test_a_preset_begins_at_its_own_sizes() -> None:
    page = site_of("encdec-12-8", 256).page
    assert '"sizes": {"B": 32, "T": 2048, "S": 2048}' in page
    rows = site_of("cnn-octmnist", 256).answers["dimensions"]({"B": "2"})["rows"]
    assert rows[0][2] == 224_892


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"T": "-1"}, "whole number"),
        ({"T": "1e9"}, "whole number"),
        ({"T2": "1"}, "not an axis"),
        ({"T": "9" * 40}, "2^40"),
    ],
)
def test_a_wrong_size_is_one_sentence(given: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says.replace("^", "\\^")):
        site_of("lstm", 8).answers["dimensions"]({"B": "1", **given})


def test_an_unknown_model_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="did you mean 'lstm'"):
        site_of("lstmm", 8)
    with pytest.raises(InputError, match="give at least 1"):
        site_of("lstm", 0)
    monkeypatch.chdir(tmp_path)
    assert "Threefold: softmax" in site_of("", 8).page


def test_text_comes_in_pieces_and_is_all_of_it() -> None:
    heard = list(ear(follower)(wav()))
    whole = follower()
    text = whole.hear(torch.from_numpy(soundfile.read(io.BytesIO(wav()), dtype="float32")[0])) + whole.end()
    assert len(heard) == 5 and "".join(row["text"] for row in heard) == text != ""
    assert "1.0 s of sound" in heard[-1]["says"] and "slowest piece" in heard[-1]["says"]


@pytest.mark.parametrize("sound", [b"", b"RIFF", b"not sound at all", wav()[:60], wav(0.01)])
def test_what_is_no_sound_is_named(sound: bytes) -> None:
    with pytest.raises(InputError, match="the sound that was sent"):
        list(ear(follower)(sound))


def test_a_run_and_a_folder_of_runs(tmp_path: Path) -> None:
    recipe = SentimentRecipe().smoke()
    recipe = replace(recipe, train=replace(recipe.train, steps=2))
    run = Run.create(tmp_path / "runs" / "one", recipe)
    fit(recipe.task(), recipe.train, run)
    Run.create(tmp_path / "runs" / "two", recipe)  # not begun
    for folder in (run.folder, tmp_path / "runs"):
        site = site_of(str(folder), 1)
        assert site.folder == folder and site.hear is None
        assert "Test accuracy" in site.page
        answer = site.answers["dimensions"]({"B": "1", "T": "9"})
        planned = sum(p.numel() for p in recipe.task(run.assets).build().parameters())
        assert answer["rows"][0][2] == planned
    with pytest.raises(InputError, match="holds no run"):
        site_of(str(tmp_path / "runs" / "one" / "checkpoints"), 1)


@needs_browser
def test_typing_a_length_asks_the_plan(tmp_path: Path) -> None:
    site = site_of("lstm", 32)
    script = """
      const rows = () => document.querySelectorAll('[data-panel="0"] tbody tr');
      const cells = () => [...rows()[0].cells].map((cell) => cell.textContent);
      const pause = () => new Promise((go) => setTimeout(go, 20));
      const until = async (made) => { while (!made()) await pause(); };
      await until(() => rows().length);
      const before = cells(), field = document.querySelector('input[name="T"]');
      field.value = 50; field.dispatchEvent(new Event("input", { bubbles: true }));
      await until(() => cells()[3] !== before[3]);
      const after = cells();
      field.value = -5; field.dispatchEvent(new Event("input", { bubbles: true }));
      const answer = document.querySelector('[data-panel="0"] .answer');
      await until(() => answer.textContent.includes("whole number"));
      return { before, after, wrong: answer.textContent };
    """
    seen, own = visit_served(site, script, tmp_path)
    expected = [
        int(site_of("lstm", 32).answers["dimensions"]({"B": "1", "T": t})["rows"][0][3]) for t in ("1024", "50")
    ]
    assert [seen.found["before"][3], seen.found["after"][3]] == [f"{n:,}" for n in expected]
    assert "whole number" in seen.found["wrong"]
    assert all(url.startswith(own) for url in seen.asked)
    assert [line for line in seen.console if "400" not in line] == []  # the browser itself notes the refused length


@needs_browser
def test_a_chosen_sound_becomes_text(tmp_path: Path) -> None:
    site = hearing()
    script = f"""
      const bytes = new Uint8Array({json.dumps(list(wav()))});
      const chooser = document.querySelector('input[type="file"]'), given = new DataTransfer();
      const answer = document.querySelector(".answer");
      const send = (content, name, last) => new Promise((done) => {{
        const watch = new MutationObserver(() => {{
          if (answer.textContent.includes(last)) {{ watch.disconnect(); done(); }}
        }});
        watch.observe(answer, {{ childList: true, characterData: true, subtree: true }});
        given.items.clear(); given.items.add(new File([content], name)); chooser.files = given.files;
        chooser.dispatchEvent(new Event("change"));
      }}).then(() => [document.querySelector("p.heard").textContent, answer.textContent]);
      const wrong = await send(new Uint8Array([1, 2, 3]), "broken.wav", "that was sent");
      return {{ wrong, right: await send(bytes, "sound.wav", "real-time factor") }};
    """
    found: Any = visit_served(site, script, tmp_path)[0].found
    assert found["wrong"][0] == "" and "the sound that was sent" in found["wrong"][1]
    assert found["right"][0] == "".join(row["text"] for row in ear(follower)(wav()))
    assert "1.0 s of sound" in found["right"][1]


@needs_browser
def test_a_recording_becomes_text(tmp_path: Path) -> None:
    script = """
      const button = document.querySelector('[data-panel="0"] button'), answer = document.querySelector(".answer");
      const pause = (ms) => new Promise((go) => setTimeout(go, ms));
      button.click();
      while (button.textContent !== "Stop" && !answer.textContent.startsWith("no microphone")) await pause(20);
      await pause(600);
      button.click();
      while (!/real-time factor|no microphone|was sent/.test(answer.textContent)) await pause(20);
      return [answer.textContent, button.textContent];
    """
    microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    said, button = visit_served(hearing(), script, tmp_path, *microphone)[0].found
    assert "s of sound in" in said and button == "Record"
