"""A task small enough to train a hundred times: noisy points in three classes, a net with dropout, augmented batches.

As a program it trains (or continues) a run, and can kill itself at a chosen step or at a chosen write, without warning.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from threefold.specs.base import Spec
from threefold.train import files
from threefold.train.loop import fit
from threefold.train.metrics import classification
from threefold.train.record import Run
from threefold.train.settings import AdamW, Decay, Schedule, Sharding, Train
from threefold.train.world import joined

SETTINGS = Train(
    lr=0.01,
    epochs=3,
    batch=4,
    optimiser=AdamW(),
    schedule=Schedule(warmup=0.1, decay=Decay.COSINE),
    clip=1.0,
    save_every=3,
    seed=11,
)


class Points(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class ToySpec(Spec):
    """What the toy's folder says of it."""

    train: Train = SETTINGS


class Block(nn.Module):
    """One hidden layer, so that sharding has blocks to shard."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(torch.tanh(self.linear(x)))


class Net(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.inward, self.out = nn.Linear(6, 16), nn.Linear(16, 3)
        self.blocks = nn.ModuleList(Block(16, dropout) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.inward(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Toy:
    """Three noisy clusters."""

    splits: tuple[str, ...] = ("train", "valid", "test")

    def __init__(self, examples: int = 42, dropout: float = 0.3, noise: float = 0.5) -> None:
        draw = torch.Generator().manual_seed(5)
        centres = torch.randn(3, 6, generator=draw)
        self.y = torch.arange(examples + 60) % 3
        self.x = centres[self.y] + 0.8 * torch.randn(len(self.y), 6, generator=draw)
        self.examples, self.dropout, self.noise = examples, dropout, noise

    def assets(self) -> dict[str, Any]:
        return {"labels": ["a", "b", "c"]}

    def build(self) -> nn.Module:
        return Net(self.dropout)

    def order(self, seed: int, epoch: int, size: int) -> Sequence[Sequence[int]]:
        shuffled = np.random.default_rng([seed, epoch]).permutation(self.examples).tolist()
        return [shuffled[at : at + size] for at in range(0, self.examples, size)]

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> Points:
        noise = [np.random.default_rng([seed, epoch, index]).standard_normal(6) for index in indices]
        rows = list(indices)
        return Points(self.x[rows] + self.noise * torch.tensor(np.stack(noise)).float(), self.y[rows])

    def weight(self, batch: Points) -> float:
        return len(batch.y)

    def loss(self, model: nn.Module, batch: Points) -> Tensor:
        return F.cross_entropy(model(batch.x), batch.y, reduction="sum")

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        torch.rand(3)  # a careless draw, which must not move the training
        part = {"train": slice(0, self.examples), "valid": slice(-60, -30), "test": slice(-30, None)}[split]
        scores = model(self.x[part])
        found = classification(self.y[part].tolist(), scores.argmax(1).tolist(), "abc")
        return {"loss": float(F.cross_entropy(scores, self.y[part])), "accuracy": found.accuracy}

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        return [{"input": text} for text in inputs]


def weights(run: Run) -> dict[str, Tensor]:
    """The tensors of the newest checkpoint."""
    return run.shelf.load(run.shelf.names("last")[0]).tensors


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    """The same names, and under each the same bits."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def measured(run: Run) -> list[dict[str, Any]]:
    """All rows without what the clock says."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "waited")} for row in run.rows()]


def die() -> None:
    """As a power cut would: no handler, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def killing_writes(count: int) -> None:
    """Die in the middle of the given write: half of the bytes are in the temporary file."""
    plain, left = files.write, [count]

    def write(path: Path, content: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            path.with_name(f".{path.name}.0.tmp").write_bytes(content[: len(content) // 2])
            die()
        plain(path, content)

    for module in [m for name, m in sys.modules.items() if name.startswith("threefold.train")]:
        if getattr(module, "write", None) is plain:
            module.write = write  # type: ignore[attr-defined]


class DyingToy(Toy):
    """Dies when the loss of a step has been computed."""

    def __init__(self, dropout: float, at: int | None) -> None:
        super().__init__(dropout=dropout)
        self.left = at

    def loss(self, model: nn.Module, batch: Points) -> Tensor:
        loss = super().loss(model, batch)
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                die()
        return loss


def main(folder: str, *options: str) -> None:
    """folder [key=value ...]: workers, sharding, epochs, batch, dropout, kill (step), write (number of the write)."""
    given = dict(option.split("=") for option in options)
    train = replace(
        SETTINGS,
        workers=int(given.get("workers", 0)),
        sharding=Sharding(given.get("sharding", "ddp")),
        batch=int(given.get("batch", SETTINGS.batch)),
        accumulate=int(given.get("accumulate", 1)),
    )
    torch.set_num_threads(1)
    with joined() as world:
        if world.first and not (Path(folder) / "recipe.json").exists():
            Run.create(folder, ToySpec(train))
        world.meet()
        run = Run.open(folder)
        if "write" in given:
            killing_writes(int(given["write"]))
        kill = int(given["kill"]) if "kill" in given else None
        task = DyingToy(float(given.get("dropout", 0.3)), kill)
        begin = next(iter(run.shelf.names("last")), None)
        fit(task, train, run, begin=begin, world=world)
        run.leave(world.rank)


if __name__ == "__main__":
    main(*sys.argv[1:])
