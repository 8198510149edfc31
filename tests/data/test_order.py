"""The order is a function of (seed, epoch), whole, and as long in every epoch."""

import pytest

from threefold.data.order import bucketed, held_out, shuffled

LENGTHS = [(7 * i) % 40 + 1 for i in range(503)]


@pytest.mark.parametrize("size", [1, 8, 32, 503, 1000])
def test_every_example_once_and_equally_many_batches(size: int) -> None:
    for epoch in range(3):
        for batches in (shuffled(503, 5, epoch, size), bucketed(LENGTHS, 5, epoch, size)):
            assert sorted(index for batch in batches for index in batch) == list(range(503))
            assert len(batches) == -(-503 // size)
            assert max(map(len, batches)) <= size


def test_a_function_of_seed_and_epoch() -> None:
    assert bucketed(LENGTHS, 5, 1, 8) == bucketed(LENGTHS, 5, 1, 8)
    assert bucketed(LENGTHS, 5, 1, 8) != bucketed(LENGTHS, 5, 2, 8)
    assert bucketed(LENGTHS, 5, 1, 8) != bucketed(LENGTHS, 6, 1, 8)
    assert shuffled(9, 0, 0, 3) != shuffled(9, 0, 1, 3)


def test_buckets_hold_similar_lengths() -> None:
    def waste(batches: list[list[int]]) -> int:
        return sum(max(LENGTHS[i] for i in b) * len(b) - sum(LENGTHS[i] for i in b) for b in batches)

    assert waste(bucketed(LENGTHS, 0, 0, 8)) * 5 < waste(shuffled(503, 0, 0, 8))


def test_batches_do_not_come_sorted() -> None:
    firsts = [LENGTHS[batch[0]] for batch in bucketed(LENGTHS, 0, 0, 8)]
    assert firsts != sorted(firsts)


def test_parts_are_whole_apart_and_never_empty() -> None:
    for count in (3, 10, 11, 503):
        parts = held_out(count, (0.8, 0.1, 0.1))
        assert sorted(index for part in parts for index in part) == list(range(count))
        assert all(parts)
        assert parts == held_out(count, (0.8, 0.1, 0.1))
