"""The processes of one run. Alone by default; under torchrun, one of several that talk through gloo."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

PATIENCE = timedelta(hours=2)  # the first process may evaluate for long while the others wait


@dataclass(frozen=True)
class World:
    """Which process this is, and the few things that processes say to each other."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def sum(self, *values: float) -> tuple[float, ...]:
        """Each value summed over the processes, in double precision."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tuple(tensor.tolist())

    def tell(self, value: Any) -> Any:
        """The first process's value, in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in every process."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def meet(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            dist.barrier()


ALONE = World()


def launched() -> bool:
    """Whether torchrun started this process."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined() -> Iterator[World]:
    """Join the other processes if torchrun started us, and leave in the order that lets gloo's threads end first.

    Whatever holds a wrapped model must be out of scope before the block ends: gloo's workers abort the interpreter
    when they outlive it with tensors in hand.
    """
    if not launched():
        yield ALONE
        return
    dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield World(dist.get_rank(), dist.get_world_size())
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()
