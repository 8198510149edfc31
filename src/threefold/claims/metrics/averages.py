"""Averages of precision and recall: which of them can differ from accuracy at all."""

from __future__ import annotations

import torch

from threefold.claims.claim import Evidence, Outcome, above, at_most, claim
from threefold.train import metrics

EQUAL = at_most(1e-15)


def drawn(seed: int) -> metrics.Classification:
    """Random three-class labels and guesses."""
    source = torch.Generator().manual_seed(seed)
    truths = torch.randint(0, 3, (200,), generator=source)
    guesses = torch.where(
        torch.rand(200, generator=source) < 0.6, truths, torch.randint(0, 3, (200,), generator=source)
    )
    return metrics.classification(truths.tolist(), guesses.tolist(), ("a", "b", "c"))


def same_accuracy() -> tuple[metrics.Classification, metrics.Classification]:
    """Two classifiers, both right on 8 of 10, with different mistakes."""
    truths = [0] * 8 + [1] * 2
    first, second = (metrics.classification(truths, said, ("neg", "pos")) for said in ([0] * 10, [0] * 6 + [1] * 4))
    return first, second


@claim(
    "000-1.1-prf",
    "LSTM has slightly better precision, recall and F1 at the same accuracy",
    "possible only for macro or per-class averages: micro precision, recall and F1 are the accuracy, "
    "and so is weighted recall",
    recorded=Outcome.CONDITIONAL,
)
def at_equal_accuracy(e: Evidence) -> None:
    first, second = same_accuracy()
    assert first.accuracy == second.accuracy
    e.when(
        "two classifiers of accuracy 0.8: difference of macro F1",
        abs(first.macro()["f1"] - second.macro()["f1"]),
        above(0.01),
    )
    for seed in range(3):
        c = drawn(seed)
        rows = c.per_class().values()
        total = sum(row["support"] for row in rows)
        weighted = sum(row["support"] * row["recall"] for row in rows) / total
        right = sum(c.confusion[i][i] for i in range(3))
        wrong = total - right
        e.truth(f"draw {seed}: |weighted recall − accuracy|", abs(weighted - c.accuracy), EQUAL)
        e.truth(f"draw {seed}: |micro F1 − accuracy|", abs(2 * right / (2 * right + wrong + wrong) - c.accuracy), EQUAL)
    e.otherwise("weighted recall: difference of the two", abs(_weighted(first) - _weighted(second)), above(0.01))
    e.counter_example("Accuracy 0.8 twice: weighted recall is 0.8 twice, macro F1 0.444 and 0.762.")
    e.limit("Whether the LSTM is better is experiment E1.")


def _weighted(c: metrics.Classification) -> float:
    rows = list(c.per_class().values())
    return sum(row["support"] * row["recall"] for row in rows) / sum(row["support"] for row in rows)
