"""Measures of what a model says: classes, strings, and likelihood. Pure functions on plain sequences; no torch.

String similarities are those of `textdistance`: of two sequences a, b as multisets A, B with I = sum_c min(A_c, B_c)

    Jaccard = I / (|a| + |b| - I)
    cosine (Otsuka-Ochiai) = I / sqrt(|a| |b|)
    Damerau-Levenshtein = 1 - d / max(|a|, |b|)

where d is the restricted (optimal string alignment) distance. Elements are a string's characters or a list's tokens.
The first two ignore order: an anagram scores 1. Never show them without the third, or beside no error rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from threefold.errors import require

Elements = Sequence[Hashable]
LOWER_IS_BETTER = frozenset({"loss", "perplexity", "bits", "wer", "cer"})


def better(metric: str, new: float, old: float | None) -> bool:
    """Whether `new` beats `old`: losses and error rates fall, everything else rises. NaN beats nothing."""
    if math.isnan(new):
        return False
    if old is None:
        return True
    return new < old if metric in LOWER_IS_BETTER else new > old


def jaccard(a: Elements, b: Elements) -> float:
    """I / (|a| + |b| - I); two empty sequences are equal: 1."""
    common = _common(a, b)
    union = len(a) + len(b) - common
    return common / union if union else 1.0


def cosine(a: Elements, b: Elements) -> float:
    """I / sqrt(|a| |b|), the Otsuka-Ochiai coefficient (not the cosine of count vectors)."""
    if not len(a) and not len(b):
        return 1.0
    return _common(a, b) / math.sqrt(len(a) * len(b)) if len(a) and len(b) else 0.0


def damerau_levenshtein(a: Elements, b: Elements) -> float:
    """1 - d / max(|a|, |b|), d the optimal string alignment distance."""
    longest = max(len(a), len(b))
    return 1.0 - edits(a, b) / longest if longest else 1.0


def edits(a: Elements, b: Elements) -> int:
    """d: insertions, deletions, substitutions, swaps of neighbours; no place edited twice ('ca' to 'abc' takes 3)."""
    from rapidfuzz.distance import OSA

    return OSA.distance(a, b)


def _common(a: Elements, b: Elements) -> int:
    """I: the size of the multisets' intersection."""
    return (Counter(a) & Counter(b)).total()


def similarity(truths: Sequence[Elements], guesses: Sequence[Elements]) -> dict[str, float]:
    """The three similarities, each the mean over pairs."""
    _paired(truths, guesses)
    pairs = list(zip(truths, guesses, strict=True))
    measures = {"jaccard": jaccard, "cosine": cosine, "damerau_levenshtein": damerau_levenshtein}
    return {name: math.fsum(f(a, b) for a, b in pairs) / len(pairs) for name, f in measures.items()}


def error_rates(truths: Sequence[str], guesses: Sequence[str]) -> dict[str, float]:
    """WER and CER over all texts together: edits in all / words (characters) in all true texts."""
    import jiwer

    _paired(truths, guesses)
    require(any(text.strip() for text in truths), "every true text is empty: an error rate needs at least one word.")
    return {
        "wer": float(jiwer.wer(list(truths), list(guesses))),
        "cer": float(jiwer.cer(list(truths), list(guesses))),
    }


def wrong_characters(truths: Sequence[str], guesses: Sequence[str]) -> list[tuple[int, int]]:
    """(edits, characters) of each text: their sums are the CER's, and the texts are what an interval resamples."""
    from rapidfuzz.distance import Levenshtein

    _paired(truths, guesses)
    return [(Levenshtein.distance(t.strip(), g.strip()), len(t.strip())) for t, g in zip(truths, guesses, strict=True)]


@dataclass(frozen=True)
class Classification:
    """What a classifier did: counts first, everything else is derived from them."""

    names: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]  # [true][guessed]

    @property
    def accuracy(self) -> float:
        """The share on the diagonal; also micro precision, recall and F1, and the weighted recall."""
        return sum(row[i] for i, row in enumerate(self.confusion)) / sum(map(sum, self.confusion))

    def per_class(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each class; 0 where a class was never guessed (or never true), as is usual."""
        found = {}
        for i, name in enumerate(self.names):
            right = self.confusion[i][i]
            true, guessed = sum(self.confusion[i]), sum(row[i] for row in self.confusion)
            found[name] = {
                "precision": right / guessed if guessed else 0.0,
                "recall": right / true if true else 0.0,
                "f1": 2 * right / (true + guessed) if true + guessed else 0.0,
                "support": true,
            }
        return found

    def macro(self) -> dict[str, float]:
        """Unweighted means over the classes."""
        rows = self.per_class().values()
        return {key: math.fsum(row[key] for row in rows) / len(rows) for key in ("precision", "recall", "f1")}

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON: accuracy, macro precision, recall and F1, per class, confusion."""
        return {
            "accuracy": self.accuracy,
            **self.macro(),
            "per_class": self.per_class(),
            "confusion": [list(row) for row in self.confusion],
            "names": list(self.names),
        }


def classification(truths: Sequence[int], guesses: Sequence[int], names: Sequence[str]) -> Classification:
    """Count (true, guessed) pairs of class numbers 0 .. len(names) - 1."""
    _paired(truths, guesses)
    counts = [[0] * len(names) for _ in names]
    for true, guess in zip(truths, guesses, strict=True):
        require(
            0 <= true < len(names) and 0 <= guess < len(names),
            f"class {true} or guess {guess} is outside 0..{len(names) - 1}: give a name to every class.",
        )
        counts[true][guess] += 1
    return Classification(tuple(names), tuple(map(tuple, counts)))


def likelihood(nats: float) -> dict[str, float]:
    """A mean cross-entropy in nats per token, with its perplexity and its bits per token."""
    return {
        "loss": nats,
        "perplexity": math.exp(nats) if nats < 700 else math.inf,
        "bits": nats / math.log(2),
    }


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float

    def decides(self) -> int:
        """+1 or -1 when the whole interval has that sign; 0 when it cannot say."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def bootstrap(differences: Sequence[float], *, draws: int = 10_000, seed: int = 0) -> Interval:
    """The mean of paired differences and its 95% percentile interval under resampling of the pairs."""
    import numpy as np

    require(len(differences) > 0, "no paired differences: run both variants with at least one common seed.")
    values = np.asarray(differences, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))
    low, high = np.quantile(values[picks].mean(1), (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))


def bootstrap_ratio(pairs: Sequence[tuple[int, int]], *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Sum of firsts over sum of seconds, with its 95% percentile interval under resampling of the pairs."""
    import numpy as np

    require(len(pairs) > 0, "no pairs: nothing was measured.")
    values = np.asarray(pairs, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))
    sums = values[picks].sum(1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], (0.025, 0.975))
    total = values.sum(0)
    return Interval(float(total[0] / total[1]), float(low), float(high))


def _paired(truths: Sequence[Any], guesses: Sequence[Any]) -> None:
    require(
        len(truths) == len(guesses) and len(truths) > 0,
        f"{len(truths)} truths and {len(guesses)} guesses: give one guess for each truth, and at least one.",
    )
