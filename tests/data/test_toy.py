"""Tasks whose answers can be worked out by hand from the tokens."""

import numpy as np
import pytest

from threefold.data.toy import IGNORE, Adding, Comparator, Copy, Permutation, Recall, TokenToy
from threefold.errors import InputError

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_recall(seed: int) -> None:
    toy = Recall(pairs=5, keys=9, values=4)
    tokens, answers = toy.example(seed, 3)
    told = dict(zip(tokens[:10:2].tolist(), tokens[1:10:2].tolist(), strict=True))
    assert len(told) == 5
    assert answers.tolist() == [IGNORE] * 10 + [told[key] for key in tokens[10:].tolist()]
    assert set(tokens[10:]) == set(told)
    assert tokens.max() < toy.vocab == 13


@pytest.mark.parametrize("seed", SEEDS)
def test_copy(seed: int) -> None:
    tokens, answers = Copy(length=3, delay=4, symbols=5).example(seed, 0)
    assert tokens[3:].tolist() == [5, 5, 5, 5, 6, 5, 5]
    assert answers.tolist() == [IGNORE] * 7 + tokens[:3].tolist()


def test_permutation() -> None:
    toy = Permutation(length=6, symbols=5)
    assert sorted(toy.places()) == list(range(6))
    tokens, answers = toy.example(0, 0)
    assert answers[6:].tolist() == [tokens[place] for place in toy.places()]


@pytest.mark.parametrize("seed", SEEDS)
def test_adding(seed: int) -> None:
    numbers, answer = Adding(length=11).example(seed, 1)
    marked = np.flatnonzero(numbers[:, 1])
    assert len(marked) == 2
    assert marked[0] < 5 <= marked[1]
    assert answer == pytest.approx(float(numbers[marked, 0].sum()))


@pytest.mark.parametrize("seed", SEEDS)
def test_comparator_is_the_documents_recurrence(seed: int) -> None:
    numbers, answer = Comparator(length=6).example(seed, 0)
    h = 0.0
    for x in numbers[:, 0].tolist():
        h = x - h
    assert answer == pytest.approx(1 / (1 + np.exp(-np.clip(1000 * h, -500, 500))))


@pytest.mark.parametrize("toy", [Recall(), Copy(), Permutation()], ids=lambda toy: type(toy).__name__)
def test_an_example_is_a_function_of_seed_and_number(toy: TokenToy) -> None:
    first, again, other = toy.example(0, 5), toy.example(0, 5), toy.example(0, 6)
    assert np.array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, other.tokens)
    assert len(first.tokens) == len(first.answers)


def test_impossible_tasks_are_refused() -> None:
    for wrong in (lambda: Recall(pairs=9, keys=8), lambda: Comparator(length=7), lambda: Adding(length=1)):
        with pytest.raises(InputError):
            wrong()
