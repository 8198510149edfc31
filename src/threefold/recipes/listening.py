"""Text as it comes: the alignment-free reading of an encoder that follows live sound."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.data.text import PAD, STOP, Alphabet
from threefold.errors import require
from threefold.nets.speech import Speech


class Follower:
    """Hears samples, says the characters that they settle. With bounded mixers its memory does not grow."""

    def __init__(self, model: Speech, alphabet: Alphabet) -> None:
        require(
            model.letters is not None,
            "This model has no alignment-free reading, which text as it comes is made of: train with --model.ctc 0.3.",
        )
        self.model = model.eval()
        self.alphabet = alphabet
        self.rate = model.spec.front.sample_rate
        self.state = model.init_hearing(1)
        self.before = PAD

    def hear(self, samples: Tensor) -> str:
        """More mono samples in [-1, 1]; the text that they add."""
        return self._follow(samples, last=False)

    def end(self) -> str:
        """No more samples; the rest of the text."""
        if self.state.mel.heard < self.model.front.shortest:
            return ""
        return self._follow(torch.zeros(0), last=True)

    @torch.no_grad()
    def _follow(self, samples: Tensor, last: bool) -> str:
        memory, self.state = self.model.hear(samples[None], self.state, last=last)
        assert self.model.letters is not None
        tokens = []
        for token in self.model.letters(memory)[0].argmax(-1).tolist():
            if token not in (self.before, PAD) and token > STOP:
                tokens.append(token)
            self.before = token
        return self.alphabet.decode(tokens)
