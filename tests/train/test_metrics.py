"""Metrics against the ledger's table and against independent libraries."""

import math
import random
from collections import Counter

import pytest
import textdistance
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from threefold.errors import InputError
from threefold.train import metrics

TABLE = (
    ("test", "text", 0.6, 0.75, 0.75),
    ("nelson", "neilsen", 0.625, 0.7715167498104595, 0.7142857142857143),
    ("abcdefgh", "hgfedcba", 1, 1, 0.125),
    ("ab", "ba", 1, 1, 0.5),
    ("ca", "abc", 0.6666666666666666, 0.8164965809277261, 0),
    ("aaaa", "aaab", 0.6, 0.75, 0.75),
    ("aaab", "abbb", 0.3333333333333333, 0.5, 0.5),
    ("the cat sat", "the cat sat on", 0.7857142857142857, 0.8864052604279183, 0.7857142857142857),
    ("<hello world>", "<helo wrold>", 0.9230769230769231, 0.9607689228305227, 0.8461538461538461),
    ([0, 4, 5, 1], [0, 5, 4, 1], 1, 1, 0.75),
    ("", "", 1, 1, 1),
    ("abc", "", 0, 0, 0),
)
MEASURES = (metrics.jaccard, metrics.cosine, metrics.damerau_levenshtein)
ORACLES = (
    textdistance.Jaccard(external=False),
    textdistance.Cosine(external=False),
    textdistance.DamerauLevenshtein(external=False),
)


def pairs(count: int, alphabet: int = 4, longest: int = 9) -> list[tuple[list[int], list[int]]]:
    draw = random.Random(7)

    def one() -> list[int]:
        return [draw.randrange(alphabet) for _ in range(draw.randint(0, longest))]

    return [(one(), one()) for _ in range(count)]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_similarities_of_the_table(row: tuple) -> None:
    a, b, *expected = row
    for measure, oracle, value in zip(MEASURES, ORACLES, expected, strict=True):
        assert measure(a, b) == pytest.approx(value, abs=1e-12)
        assert measure(b, a) == pytest.approx(value, abs=1e-12)
        assert measure(a, b) == pytest.approx(oracle.normalized_similarity(a, b), abs=1e-12)


def test_similarities_equal_the_oracle_on_random_lists() -> None:
    for a, b in pairs(3000):
        for measure, oracle in zip(MEASURES, ORACLES, strict=True):
            assert measure(a, b) == pytest.approx(oracle.normalized_similarity(a, b), abs=1e-12), (a, b)


def test_distance_is_the_restricted_one() -> None:
    assert metrics.edits("ca", "abc") == 3
    assert textdistance.DamerauLevenshtein(restricted=False, external=False)("ca", "abc") == 2


def test_anagrams_deceive_jaccard_and_cosine_only() -> None:
    assert metrics.similarity(["abcdefgh"], ["hgfedcba"]) == {
        "jaccard": 1.0,
        "cosine": 1.0,
        "damerau_levenshtein": 0.125,
    }


def test_relations_between_the_measures() -> None:
    for a, b in pairs(20_000):
        j, c, d = (measure(a, b) for measure in MEASURES)
        longest = max(len(a), len(b))
        bag = (Counter(a) & Counter(b)).total()
        ratio = bag / longest if longest else 1.0
        assert j <= ratio + 1e-12 and ratio <= c + 1e-12
        assert d <= ratio + 1e-12
        if len(a) == len(b):
            assert j == pytest.approx(c / (2 - c), abs=1e-12)


@pytest.mark.parametrize(
    ("j", "c", "gap"),
    [(0.503583607220501, 0.669388120203678, 5.2e-4), (0.7636617752753647, 0.8647155264952522, 2.0e-3)],
)
def test_reported_means_lie_above_the_identity(j: float, c: float, gap: float) -> None:
    assert j - c / (2 - c) == pytest.approx(gap, rel=0.03)


def test_error_rates_count_over_all_texts() -> None:
    found = metrics.error_rates(["the cat sat", "on"], ["the cat sit", "on"])
    assert found["wer"] == pytest.approx(1 / 4)
    assert found["cer"] == pytest.approx(1 / 13)
    with pytest.raises(InputError, match="every true text is empty"):
        metrics.error_rates(["", " "], ["a", "b"])
    with pytest.raises(InputError, match="1 truths and 0 guesses"):
        metrics.error_rates(["a"], [])


def test_classification_equals_scikit_learn() -> None:
    draw = random.Random(3)
    truths = [draw.randrange(3) for _ in range(500)]
    guesses = [t if draw.random() < 0.6 else draw.randrange(3) for t in truths]
    found = metrics.classification(truths, guesses, ["a", "b", "c"])
    assert [list(row) for row in found.confusion] == confusion_matrix(truths, guesses).tolist()
    assert found.accuracy == pytest.approx(accuracy_score(truths, guesses), abs=1e-15)
    macro = precision_recall_fscore_support(truths, guesses, average="macro")
    assert tuple(found.macro().values()) == pytest.approx(macro[:3], abs=1e-15)
    per_class = precision_recall_fscore_support(truths, guesses)
    for i, row in enumerate(found.per_class().values()):
        assert tuple(row.values()) == pytest.approx([column[i] for column in per_class], abs=1e-15)


def test_averages_that_are_accuracy() -> None:
    draw = random.Random(5)
    truths = [draw.choice([0, 0, 0, 1, 2]) for _ in range(400)]
    guesses = [draw.randrange(3) for _ in truths]
    found = metrics.classification(truths, guesses, "abc")
    rows = found.per_class().values()
    weighted = sum(row["recall"] * row["support"] for row in rows) / len(truths)
    assert weighted == pytest.approx(found.accuracy, abs=1e-15)
    assert found.macro()["f1"] != pytest.approx(found.accuracy, abs=1e-3)


def test_a_class_that_is_never_guessed_scores_zero() -> None:
    found = metrics.classification([0, 1, 1], [0, 0, 0], ["no", "yes"])
    assert found.per_class()["yes"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 2}
    with pytest.raises(InputError, match=r"outside 0\.\.1"):
        metrics.classification([2], [0], ["no", "yes"])


def test_likelihood() -> None:
    found = metrics.likelihood(math.log(8))
    assert found == {"loss": math.log(8), "perplexity": pytest.approx(8), "bits": pytest.approx(3)}
    assert metrics.likelihood(1e6)["perplexity"] == math.inf


def test_better_knows_the_direction() -> None:
    assert metrics.better("loss", 1.0, 2.0) and not metrics.better("loss", 2.0, 1.0)
    assert metrics.better("accuracy", 0.9, 0.8) and metrics.better("cer", 0.1, None)
    assert not metrics.better("loss", math.nan, None)


def test_bootstrap_is_fixed_by_its_seed_and_decides_only_when_it_can() -> None:
    clear = metrics.bootstrap([0.1, 0.12, 0.09, 0.11, 0.1])
    assert clear == metrics.bootstrap([0.1, 0.12, 0.09, 0.11, 0.1])
    assert clear.low <= clear.mean <= clear.high and clear.decides() == 1
    assert metrics.bootstrap([-0.1, 0.1, 0.2, -0.2]).decides() == 0
    assert metrics.bootstrap([-0.1, -0.2]).decides() == -1


def test_wrong_characters_sum_to_the_error_rate() -> None:
    truths, guesses = ["four lucky", "market", "a"], ["foure lucky", "mrkt", ""]
    pairs = metrics.wrong_characters(truths, guesses)
    assert pairs == [(1, 10), (2, 6), (1, 1)]
    cer = metrics.error_rates(truths, guesses)["cer"]
    found = metrics.bootstrap_ratio(pairs)
    assert found.mean == cer == 4 / 17
    assert found.low < found.mean < found.high <= 1
    assert metrics.bootstrap_ratio([(1, 4)] * 9) == metrics.Interval(0.25, 0.25, 0.25)
