"""The order of examples as a function of (seed, epoch): nothing to save, and workers cannot change it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

POOL = 50  # batches whose examples are sorted by length together


def shuffled(count: int, seed: int, epoch: int, size: int) -> list[list[int]]:
    """Batches of a fresh permutation."""
    order = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    return [order[start : start + size] for start in range(0, count, size)]


def bucketed(lengths: Sequence[int], seed: int, epoch: int, size: int) -> list[list[int]]:
    """Batches of similar lengths: a permutation, sorted by length within pools of 50 batches, batches shuffled.

    Every example stands in exactly one batch, and the number of batches is ceil(count / size) in every epoch.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths)).tolist()
    batches = []
    for start in range(0, len(order), size * POOL):
        pool = sorted(order[start : start + size * POOL], key=lambda index: lengths[index])
        batches += [pool[at : at + size] for at in range(0, len(pool), size)]
    return [batches[at] for at in rng.permutation(len(batches))]


def held_out(count: int, shares: Sequence[float], seed: int = 0) -> list[list[int]]:
    """`count` examples dealt into parts of these shares, by a fixed permutation; each part sorted.

    A part of a positive share is never empty when there are as many examples as parts.
    """
    order = np.random.default_rng([seed, count]).permutation(count).tolist()
    edges = np.round(np.cumsum(shares) / sum(shares) * count).astype(int).tolist()
    parts = [order[start:end] for start, end in zip([0, *edges[:-1]], edges, strict=True)]
    for at, part in enumerate(parts):
        if not part and shares[at] > 0 and count >= len(shares):
            part.append(max(parts, key=len).pop())
    return [sorted(part) for part in parts]
