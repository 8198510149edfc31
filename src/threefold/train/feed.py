"""Batches in their order, from any step on, loaded here or by other processes: always the same ones."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from threefold.errors import require
from threefold.train import chance
from threefold.train.settings import Train
from threefold.train.task import Task
from threefold.train.world import World


class Share(NamedTuple):
    """A micro-batch. It counts 0 where a short last batch left this process nothing of its own to do."""

    batch: Any
    counts: float


class Steps(Dataset[list[Share]]):
    """Step number -> this process's micro-batches. The order is f(seed, epoch) and the step is its position."""

    def __init__(self, task: Task[Any], train: Train, world: World) -> None:
        self.task, self.train, self.world = task, train, world
        self.epoch, self.batches = 0, self._order(0)
        self.per_epoch = len(self.batches)
        require(self.per_epoch > 0, "the training set is empty: give data with at least one example.")

    def _order(self, epoch: int) -> Sequence[Sequence[int]]:
        size = self.train.batch * self.train.accumulate * self.world.size
        with chance.kept():
            return self.task.order(self.train.seed, epoch, size)

    def __getitem__(self, step: int) -> list[Share]:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, self._order(epoch)
            assert len(self.batches) == self.per_epoch, f"epoch {epoch} has {len(self.batches)} batches"
        with chance.kept():
            chance.seed(self.train.seed, step, self.world.rank)
            return [
                Share(self.task.batch(part or self.batches[position][:1], self.train.seed, epoch), float(bool(part)))
                for part in self._deal(self.batches[position])
            ]

    def _deal(self, batch: Sequence[int]) -> list[Sequence[int]]:
        """This process's parts of a global batch, as even as can be; each at most `train.batch` long, perhaps empty."""
        parts = -(-len(batch) // (self.train.batch * self.world.size))
        return [batch[part * self.world.size + self.world.rank :: parts * self.world.size] for part in range(parts)]


class Feed:
    """An iterator over the steps from `start` on that knows how long it kept the loop waiting."""

    def __init__(self, steps: Steps, start: int, total: int) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores are his choice
            self._batches = self._begin(steps, range(start, total))
        self.waited = 0.0

    def _begin(self, steps: Steps, numbers: range) -> Iterator[list[Share]]:
        workers = steps.train.workers
        loader = DataLoader(
            steps,
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            collate_fn=_as_it_is,
            prefetch_factor=4 if workers else None,
            generator=torch.Generator(),  # the loader draws a seed from it, and so leaves the global one alone
        )
        return iter(loader)

    def next(self) -> list[Share]:
        """The next step's micro-batches."""
        begun = time.perf_counter()
        batches = next(self._batches)
        self.waited = time.perf_counter() - begun
        return batches


def _as_it_is(value: Any) -> Any:
    return value
