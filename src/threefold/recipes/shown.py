"""Single examples as a person sees them: what spoke for a label, what was heard and where the decoder looked.

Written once as `samples.json` beside a run's metrics, for the report to read.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from threefold.data.text import WORD
from threefold.mixers.cross import SoftmaxCross

if TYPE_CHECKING:
    from threefold.recipes.sentiment import SentimentTask
    from threefold.recipes.speech_task import SpeechTask

Row = dict[str, Any]
LONGEST = 30  # words
FRAMES, BANDS = 160, 40  # of a spectrogram that is shown


def sentences(task: SentimentTask, model: nn.Module, count: int) -> list[Row]:
    """The first short test sentences, each word with what its absence does to the guess."""
    rows = task.rows["test"]
    chosen = [at for at, text in enumerate(rows.texts) if 2 <= len(WORD.findall(text)) <= LONGEST][:count]
    return [_sentence(task, model, rows.texts[at], rows.labels[at]) for at in chosen]


def _sentence(task: SentimentTask, model: nn.Module, text: str, label: str) -> Row:
    """log p(guess | text) - log p(guess | text without the word), as a share of the largest."""
    words = [(found.start(), found.end()) for found in WORD.finditer(text)]
    without = [(text[:start] + text[end:]).strip() or "." for start, end in words]
    found = task.predict(model, [text, *without])
    guess = found[0]["label"]
    logs = torch.tensor([row["probabilities"][guess] for row in found]).clamp_min(1e-12).log()
    changes = (logs[0] - logs[1:]).tolist()
    most = max(map(abs, changes), default=0.0) or 1.0
    shown = [(text[start:end], change / most) for (start, end), change in zip(words, changes, strict=True)]
    return {"text": text, "label": label, "guess": guess, "words": shown}


def utterances(task: SpeechTask, model: nn.Module, count: int) -> list[Row]:
    """The first test recordings: sound, spectrogram, what was heard, and where the decoder looked for each symbol."""
    return [_utterance(task, model, utterance) for utterance in task.utterances["test"][:count]]


def _utterance(task: SpeechTask, model: Any, utterance: Any) -> Row:
    frames = task.frames(utterance)[None]
    real = torch.ones(frames.shape[:2], dtype=torch.bool)
    text = task.transcribe(model, frames, real)[0]
    tokens = torch.tensor([[1, *task.alphabet.encode(text)]])
    with _looking(model) as looks:
        model(frames, tokens, real)
    step = -(-frames.shape[1] // FRAMES)
    shown = frames[0, ::step].unflatten(1, (BANDS, -1)).mean(-1)
    return {
        "reference": utterance.text,
        "hypothesis": text,
        "wav": _wav(task, utterance),
        "spectrogram": _rounded(shown),
        "alignment": _rounded(looks[-1][0].mean(0)[:-1]) if looks and text else [],
        "symbols": list(text.replace(" ", "␣")),
    }


@contextmanager
def _looking(model: nn.Module) -> Iterator[list[Float[Tensor, "b h t s"]]]:
    """The weights of every reading of a memory by softmax attention, layer by layer, while the block runs."""
    looks: list[Tensor] = []

    def see(cross: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(cross, SoftmaxCross)
        looks.append(cross.weights(*given))

    readers = [module for module in model.modules() if isinstance(module, SoftmaxCross)]
    hooks = [reader.register_forward_pre_hook(see) for reader in readers]
    try:
        yield looks
    finally:
        for hook in hooks:
            hook.remove()


def _wav(task: SpeechTask, utterance: Any) -> str:
    import soundfile

    from threefold.data import audio

    rate = task.spec.front.sample_rate
    file = io.BytesIO()
    soundfile.write(file, audio.load(utterance.sound, rate), rate, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in values.tolist()]
