"""Sound to text, whatever the file's rate, whether recorded or live."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch.nn import functional

from threefold.data.text import PAD
from threefold.errors import InputError
from threefold.recipes.speech import Letters, SpeechData, SpeechModel, SpeechRecipe
from threefold.recipes.speech_task import SpeechTask, aligned, augmented
from threefold.specs.recurrent import LSTM

TEXTS = ["one", "two", "three", "four five", "six", "seven", "eight nine", "zero", "ten", "eleven", "twelve", "six ten"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("speech")
    (path / "wavs").mkdir()
    rng, rows = np.random.default_rng(0), []
    for number, text in enumerate(TEXTS):
        rate = (8000, 16000, 22050)[number % 3]
        samples = rng.standard_normal((int(rate * (0.4 + 0.05 * number)), 1 + number % 2)) * 0.1
        suffix = "flac" if number % 2 else "wav"
        soundfile.write(path / "wavs" / f"u{number}.{suffix}", samples, rate)
        rows.append(f"u{number}|{text}|{text}\n")
    (path / "metadata.csv").write_text("".join(rows))
    yield path


def recipe_on(folder: Path, model: dict[str, object] | None = None) -> SpeechRecipe:
    small = SpeechRecipe().smoke()
    data = SpeechData(str(folder))
    return replace(small, data=data, model=replace(small.model, **(model or {})))


def built(folder: Path, model: dict[str, object] | None = None) -> tuple[SpeechTask, torch.nn.Module]:
    task = recipe_on(folder, model).task()
    torch.manual_seed(0)
    return task, task.build().eval()


def test_the_defaults_are_the_documents() -> None:
    recipe = SpeechRecipe()
    assert (recipe.model.width, recipe.model.ffn) == (200, 400)
    assert (recipe.train.smoothing, recipe.train.lr, recipe.train.schedule.warmup) == (0.1, 1e-3, 0.15)
    assert len(replace(recipe, data=SpeechData("x", letters=Letters.DOCUMENTS)).task().alphabet) == 35


@torch.no_grad()
def test_any_rate_and_channels_are_heard(folder: Path) -> None:
    task, model = built(folder)
    for utterance in task.utterances["train"]:
        assert abs(len(task.frames(utterance)) - 100 * utterance.seconds) <= 1
    rows = task.predict(model, [str(folder / "wavs" / "u0.wav"), str(folder / "wavs" / "u1.flac")])
    assert [set(row) for row in rows] == [{"input", "text"}] * 2
    found = task.evaluate(model, "test")
    assert {"loss", "wer", "cer", "jaccard", "cosine", "damerau_levenshtein"} <= set(found)


@torch.no_grad()
def test_a_row_is_the_same_alone_and_in_a_batch(folder: Path) -> None:
    task, model = built(folder)
    chosen = task.utterances["train"][:3]
    batch = task._batch([task.frames(u) for u in chosen], [u.text for u in chosen])
    together = task.transcribe(model, batch.frames, batch.frames_valid)
    for utterance, text in zip(chosen, together, strict=True):
        frames = task.frames(utterance)[None]
        assert task.transcribe(model, frames, torch.ones(frames.shape[:2], dtype=torch.bool))[0] == text


def test_weight_and_padding(folder: Path) -> None:
    task, model = built(folder, {"ctc": 0.0})
    batch = task.batch([0, 1, 2], 0, 0)
    texts = [task.utterances["train"][i].text for i in range(3)]
    assert task.weight(batch) == sum(len(text) + 1 for text in texts)
    padded = replace(task.recipe, train=replace(task.recipe.train, count_padding=True)).task()
    assert padded.weight(batch) == 3 * (max(map(len, texts)) + 1)
    assert float(padded.loss(model, batch).detach()) > float(task.loss(model, batch).detach())


def test_alignment_free_loss_by_enumeration() -> None:
    """Every path of 4 frames over (none, a, b) that collapses to "ab", summed."""
    from itertools import product

    from threefold.recipes.speech_task import SpeechBatch

    torch.manual_seed(0)
    letters = torch.randn(1, 4, 6)
    log, total = letters.log_softmax(-1)[0], -torch.inf
    for path in product(range(6), repeat=4):
        said = [token for at, token in enumerate(path) if token != PAD and (at == 0 or token != path[at - 1])]
        if said == [4, 5]:
            total = np.logaddexp(total, float(sum(log[at, token] for at, token in enumerate(path))))
    answers = torch.tensor([[4, 5, 2]])
    batch = SpeechBatch(torch.zeros(1, 8, 80), torch.ones(1, 8, dtype=torch.bool), answers, answers, answers > 0)
    assert float(aligned(letters, batch)) == pytest.approx(-float(total), rel=1e-5)


def test_augmentation_is_a_function_of_its_seed() -> None:
    frames, data = torch.randn(120, 80), SpeechData()
    first = augmented(frames, data, np.random.default_rng([0, 1, 2]))
    assert torch.equal(first, augmented(frames, data, np.random.default_rng([0, 1, 2])))
    assert first.shape != augmented(frames, data, np.random.default_rng([0, 2, 2])).shape
    kept = augmented(frames, replace(data, stretch=0.0, gaps=0, bands=0), np.random.default_rng(0))
    assert torch.equal(kept, frames)
    longest = max(len(augmented(frames, data, np.random.default_rng(s))) for s in range(50))
    assert 120 < longest <= 132
    assert torch.equal(frames, frames.clone())


@pytest.mark.parametrize("piece", [160, 1000, 5000])
def test_live_text_is_the_recordings(folder: Path, piece: int) -> None:
    task, model = built(folder, {"encoder": LSTM(), "streaming": True})
    wave = torch.randn(20000, generator=torch.Generator().manual_seed(0)) * 0.1
    with torch.no_grad():
        letters = model.read(model.listen(model.front(wave[None])))[0].argmax(-1).tolist()
    collapsed = [t for at, t in enumerate(letters) if t > 2 and (at == 0 or t != letters[at - 1])]
    follower = task.listen(model)
    said = "".join(follower.hear(part) for part in wave.split(piece)) + follower.end()
    assert said == task.alphabet.decode(collapsed)
    assert task.listen(model).end() == ""


def test_what_cannot_stream_says_why(folder: Path) -> None:
    task, model = built(folder)
    with pytest.raises(InputError, match="reads the future"):
        task.listen(model)
    task, model = built(folder, {"encoder": LSTM(), "streaming": True, "ctc": 0.0})
    with pytest.raises(InputError, match=r"train with --model\.ctc"):
        task.listen(model)


def test_text_that_cannot_be_aligned_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    rows = []
    for number in range(4):
        soundfile.write(tmp_path / "wavs" / f"u{number}.wav", np.ones(3200) * 0.1, 16000)
        rows.append(f"u{number}|{'many words ' * 5}{number}\n")
    (tmp_path / "metadata.csv").write_text("".join(rows))
    with pytest.raises(InputError, match=r"characters in 0.20 s are too many to align"):
        recipe_on(tmp_path).task().build()
    assert recipe_on(tmp_path, {"ctc": 0.0}).task().build() is not None


@torch.no_grad()
def test_decoders_and_beams(folder: Path) -> None:
    for changes in ({"decoder": LSTM()}, {"beams": 3}, {"ctc": 0.0}):
        task, model = built(folder, changes)
        assert task.evaluate(model, "valid")["loss"] > 0
    assert SpeechModel(decoder=LSTM()).spec(30).decoder_position is None


def test_smoothing_has_the_documents_floor() -> None:
    """With 0.1 over 35 classes a perfect answer costs 0.6613 nats (the ledger's E10)."""
    keep = 1 - 0.1 + 0.1 / 35
    ideal = torch.full((35,), 0.1 / 35).log()
    ideal[3] = np.log(keep)
    loss = functional.cross_entropy(ideal[None], torch.tensor([3]), label_smoothing=0.1)
    assert float(loss) == pytest.approx(0.6613, abs=1e-4)
