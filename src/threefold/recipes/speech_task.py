"""What the speech recipe gives to the loop: frames and characters in batches, transcripts judged by their errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from threefold.data import audio, speech
from threefold.data.order import bucketed
from threefold.data.problems import Problem, refuse
from threefold.data.text import PAD, START, STOP, Alphabet
from threefold.nets.decode import beam, greedy
from threefold.nets.speech import Speech
from threefold.recipes import shown
from threefold.recipes.common import pad
from threefold.recipes.listening import Follower
from threefold.train import metrics
from threefold.train.task import Assets

if TYPE_CHECKING:
    from threefold.recipes.speech import SpeechData, SpeechRecipe

KEPT = 1 << 30  # bytes of frames that are kept in memory once computed
SHOWN = 10


class SpeechBatch(NamedTuple):
    """Frames (B, T, bins); tokens that are read, the ones that they should be answered with; what of each is real."""

    frames: Tensor
    frames_valid: Tensor
    tokens: Tensor
    answers: Tensor
    tokens_valid: Tensor


class SpeechTask:
    """Utterances of a folder, whatever their rate, as log-mel frames and characters."""

    def __init__(self, recipe: SpeechRecipe, assets: Assets | None) -> None:
        from threefold.recipes.speech import Letters

        self.recipe = recipe
        self._saved = assets is not None
        if assets is not None:
            self.alphabet = Alphabet(tuple(assets["symbols"]), bool(assets["fold"]))
        elif recipe.data.letters is Letters.DOCUMENTS:
            self.alphabet = Alphabet.documents()
        else:
            self.alphabet = Alphabet.of(u.text for u in self.utterances["train"])
        self.spec = recipe.model.spec(len(self.alphabet))
        self.front = self.spec.front.build()
        self._frames: dict[Path, Tensor] = {}
        self._room = KEPT

    @cached_property
    def utterances(self) -> dict[str, tuple[speech.Utterance, ...]]:
        """The utterances of every split, read and checked when first asked for."""
        data: SpeechData = self.recipe.data
        limits = speech.Limits(data.seconds, data.characters)
        if data.path is None:
            return speech.splits(data.synthetic.folder(), limits)
        folder = Path(data.path)
        if self._saved and (folder / "metadata.csv").is_file():
            return {"test": speech.load(folder, limits)}
        return speech.splits(folder, limits)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.utterances)

    def assets(self) -> Assets:
        return {"symbols": list(self.alphabet.symbols), "fold": self.alphabet.fold}

    def build(self) -> nn.Module:
        if self.spec.ctc and "train" in self.utterances:
            self._alignable("train")
        return self.spec.build()

    def _alignable(self, split: str) -> None:
        """A reading without alignment needs a frame for each character, and one between equal neighbours."""
        hop = self.spec.front.hop / self.spec.front.sample_rate * (1 - self.recipe.data.stretch)
        short = []
        for u in self.utterances[split]:
            need = len(u.text) + sum(a == b for a, b in zip(u.text, u.text[1:], strict=False))
            if u.seconds / hop / 2 < need + 2:
                short.append(Problem(u.name, f"{len(u.text)} characters in {u.seconds:.2f} s are too many to align"))
        refuse(short, f"{split} (set --model.ctc 0 to do without alignment)")

    def order(self, seed: int, epoch: int, size: int) -> list[list[int]]:
        return bucketed([round(100 * u.seconds) for u in self.utterances["train"]], seed, epoch, size)

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> SpeechBatch:
        chosen = [self.utterances["train"][index] for index in indices]
        frames = [
            augmented(self.frames(u), self.recipe.data, np.random.default_rng([seed, epoch, index]))
            for u, index in zip(chosen, indices, strict=True)
        ]
        return self._batch(frames, [u.text for u in chosen])

    def frames(self, utterance: speech.Utterance) -> Tensor:
        """Log-mel frames (T, bins), kept while there is room."""
        if utterance.sound not in self._frames:
            found = self._listen(utterance.sound)
            self._room -= found.numel() * 4
            if self._room < 0:
                return found
            self._frames[utterance.sound] = found
        return self._frames[utterance.sound]

    def _listen(self, sound: Path) -> Tensor:
        samples = audio.load(sound, self.spec.front.sample_rate)
        with torch.no_grad():
            return self.front(torch.from_numpy(samples)[None])[0]

    def _batch(self, frames: list[Tensor], texts: list[str]) -> SpeechBatch:
        heard, heard_valid = pad(frames)
        encoded = [self.alphabet.encode(text) for text in texts]
        tokens, valid = pad([torch.tensor([START, *row]) for row in encoded])
        answers, _ = pad([torch.tensor([*row, STOP]) for row in encoded])
        return SpeechBatch(heard, heard_valid, tokens, answers, valid)

    def weight(self, batch: SpeechBatch) -> float:
        counted = batch.answers if self.recipe.train.count_padding else batch.tokens_valid
        return float(counted.numel() if self.recipe.train.count_padding else counted.sum())

    def loss(self, model: nn.Module, batch: SpeechBatch) -> Tensor:
        share, train = self.recipe.model.ctc, self.recipe.train
        spoken = model(batch.frames, batch.tokens, batch.frames_valid, batch.tokens_valid)
        ignored = -100 if train.count_padding else PAD
        answers = batch.answers.flatten()
        written = functional.cross_entropy(
            spoken.written.flatten(0, 1),
            answers,
            reduction="sum",
            ignore_index=ignored,
            label_smoothing=train.smoothing,
        )
        if share == 0:
            return written
        return (1 - share) * written + share * aligned(spoken.letters, batch)

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        assert isinstance(model, Speech)
        every = self.utterances[split]
        every = every[: self.recipe.data.choose] if split == "valid" else every
        truths, guesses = [], []
        loss = weight = 0.0
        by_length = sorted(every, key=lambda u: u.seconds)
        for start in range(0, len(by_length), 16):
            group = by_length[start : start + 16]
            batch = self._batch([self.frames(u) for u in group], [u.text for u in group])
            loss += float(self._written_loss(model, batch))
            weight += float(batch.tokens_valid.sum())
            truths += [self._shown(u.text) for u in group]
            guesses += self.transcribe(model, batch.frames, batch.frames_valid)
        samples = [{"truth": t, "guess": g} for t, g in list(zip(truths, guesses, strict=True))[:SHOWN]]
        found = metrics.error_rates(truths, guesses) | metrics.similarity(truths, guesses)
        wrong = metrics.wrong_characters(truths, guesses)
        return {"loss": loss / weight, **found, "wrong_characters": wrong, "samples": samples}

    def _written_loss(self, model: Speech, batch: SpeechBatch) -> Tensor:
        written = model(batch.frames, batch.tokens, batch.frames_valid, batch.tokens_valid).written.float()
        return functional.cross_entropy(
            written.flatten(0, 1), batch.answers.flatten(), reduction="sum", ignore_index=PAD
        )

    def _shown(self, text: str) -> str:
        """The text as this alphabet writes it."""
        return self.alphabet.decode(self.alphabet.encode(text))

    def transcribe(self, model: Speech, frames: Tensor, valid: Tensor) -> list[str]:
        """The decoder's texts of a batch."""
        sound = model.listen(frames, valid)
        state, first = model.init_state(sound), torch.full((len(frames),), START)
        limit = sound.memory.shape[1]
        if self.recipe.model.beams == 1:
            written = greedy(model.step, state, first, stop=STOP, limit=limit)
        else:
            beams = beam(model.step, state, first, stop=STOP, limit=limit, beams=self.recipe.model.beams)
            written = [found[0].tokens for found in beams]
        longest = sound.valid.sum(1).tolist()  # a row's limit is its own, whatever stands beside it
        return [self.alphabet.decode(tokens[:most]) for tokens, most in zip(written, longest, strict=True)]

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        assert isinstance(model, Speech)
        rows = []
        for path in inputs:
            frames = self._listen(Path(path))[None]
            text = self.transcribe(model, frames, torch.ones(frames.shape[:2], dtype=torch.bool))[0]
            rows.append({"input": path, "text": text})
        return rows

    def show(self, model: nn.Module, count: int) -> list[dict[str, Any]]:
        return shown.utterances(self, model, count)

    def listen(self, model: nn.Module) -> Follower:
        assert isinstance(model, Speech)
        return Follower(model, self.alphabet)


def aligned(letters: Tensor, batch: SpeechBatch) -> Tensor:
    """-log of the probability of all alignments together, summed over the batch; token 0 is "none" (Graves 2006)."""
    lengths = batch.frames_valid[:, ::2].sum(1)
    sizes = (batch.answers > STOP).sum(1)
    log = letters.float().log_softmax(-1).transpose(0, 1)
    return functional.ctc_loss(log, batch.answers, lengths, sizes, blank=PAD, reduction="sum")


def augmented(frames: Tensor, data: SpeechData, rng: np.random.Generator) -> Tensor:
    """Frames with time stretched and parts silenced, as `data` says; the frames themselves when it says nothing."""
    if data.stretch > 0:
        factor = float(rng.uniform(1 - data.stretch, 1 + data.stretch))
        size = max(8, round(len(frames) * factor))
        frames = functional.interpolate(frames.T[None], size=size, mode="linear", align_corners=False)[0].T
    if data.gaps or data.bands:
        frames, quiet = frames.clone(), frames.min()
        for _ in range(data.gaps):
            start, stop = _span(rng, len(frames), max(1, len(frames) // 12))
            frames[start:stop] = quiet
        for _ in range(data.bands):
            start, stop = _span(rng, frames.shape[1], frames.shape[1] // 6)
            frames[:, start:stop] = quiet
    return frames


def _span(rng: np.random.Generator, size: int, longest: int) -> tuple[int, int]:
    width = int(rng.integers(0, longest + 1))
    start = int(rng.integers(0, size - width + 1))
    return start, start + width
