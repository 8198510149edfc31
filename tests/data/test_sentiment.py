"""The grammar's labels follow from its sentences."""

from collections import Counter

import pytest

from threefold.data.sentiment import BAD, GOOD, LABELS, TURN, Opinions
from threefold.errors import InputError


def polarity(sentence: str) -> str:
    """Read the label off a sentence, without the grammar: the deciding clause, and whether it is turned."""
    sentence = sentence.replace("anything but", "hardly")
    if " but " in sentence:
        sentence = sentence.rpartition(" but ")[2]
    while sentence.startswith("although "):
        sentence = sentence.partition(" , ")[2]
    clause = sentence.rpartition(" and ")[2]
    good = clause.split()[-1] in GOOD
    assert good or clause.split()[-1] in BAD
    turned = any(f" {turn} " in clause for turn in TURN)
    return LABELS[good != turned]


def test_every_label_is_right() -> None:
    rows = Opinions(600).rows()
    assert len({text for text, _ in rows}) == 600
    assert Counter(label for _, label in rows) == {"negative": 300, "positive": 300}
    assert [text for text, label in rows if polarity(text) != label] == []


def test_words_alone_do_not_decide() -> None:
    """A good word stands in a sentence of either label nearly as often: negation and contrast matter."""
    counts = Counter(label for text, label in Opinions(2000).rows() if set(text.split()) & set(GOOD))
    assert 0.45 < counts["positive"] / counts.total() < 0.7


def test_a_function_of_the_seed() -> None:
    assert Opinions(50).rows() == Opinions(50).rows()
    assert Opinions(50).rows() != Opinions(50, seed=1).rows()
    with pytest.raises(InputError):
        Opinions(5)
