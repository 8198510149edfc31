"""How to train, as frozen declarations: optimiser, schedule, the loop's own numbers. Reading them needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import cos, pi
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.base import Spec

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


class Optimiser(Spec, ABC):
    """A rule of descent. The learning rate is the loop's, which sets it before every step."""

    @abstractmethod
    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        """The torch optimiser over these parameters."""


@dataclass(frozen=True)
class AdamW(Optimiser):
    """Adam with decoupled weight decay; vectors and scalars (biases, norms) are not decayed."""

    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        from torch.optim import AdamW

        every = list(parameters)
        groups = [
            {"params": [p for p in every if p.ndim >= 2], "weight_decay": self.weight_decay},
            {"params": [p for p in every if p.ndim < 2], "weight_decay": 0.0},
        ]
        return AdamW([g for g in groups if g["params"]], betas=(self.beta1, self.beta2), eps=self.eps)


@dataclass(frozen=True)
class SGD(Optimiser):
    """Plain or momentum descent."""

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        from torch import optim

        return optim.SGD(
            list(parameters), momentum=self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov
        )


class Decay(Enum):
    """How the learning rate falls after the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(frozen=True)
class Schedule(Spec):
    """The learning rate's factor: up from 0 over the share `warmup` of all steps, then down to `floor`."""

    warmup: float = 0.0
    decay: Decay = Decay.CONSTANT
    floor: float = 0.0

    def __post_init__(self) -> None:
        require(0.0 <= self.warmup < 1.0, f"warmup {self.warmup}: give the share of all steps, at least 0 and below 1.")
        require(0.0 <= self.floor <= 1.0, f"floor {self.floor}: give a share of the learning rate, from 0 to 1.")

    def factor(self, step: int, total: int) -> float:
        """The factor for step number `step` (from 0) of `total`: a function, so that nothing needs saving."""
        rising = round(self.warmup * total)
        if step < rising:
            return (step + 1) / rising
        if self.decay is Decay.CONSTANT:
            return 1.0
        done = min(1.0, (step - rising) / max(1, total - rising))
        shape = 1.0 - done if self.decay is Decay.LINEAR else 0.5 * (1.0 + cos(pi * done))
        return self.floor + (1.0 - self.floor) * shape


class Sharding(Enum):
    """What the processes of one run share."""

    DDP = "ddp"  # each holds the whole model, gradients are averaged
    FULL = "full"  # each holds a share of every parameter and of the optimiser (fully_shard)


@dataclass(frozen=True)
class Train(Spec):
    """The loop's settings. `batch` counts examples; one step sees batch x accumulate x processes of them."""

    lr: float = 1e-3
    epochs: int = 10
    steps: int | None = None  # at most this many, however many the epochs would make
    batch: int = 32
    accumulate: int = 1
    optimiser: Optimiser = AdamW()
    schedule: Schedule = Schedule()
    clip: float | None = None  # largest norm of the gradient
    smoothing: float = 0.0  # label smoothing, for tasks that classify
    count_padding: bool = False  # padding in the loss: the source documents' convention
    seed: int = 0
    watch: str = "loss"  # the validation metric that chooses the best checkpoint
    patience: int | None = None  # evaluations without a better `watch` before stopping
    evaluate_every: int | None = None  # steps; None: after each epoch
    save_every: int | None = None  # steps; None: after each evaluation
    bfloat16: bool = False  # autocast
    workers: int = 0  # processes that load data; the order does not depend on it
    sharding: Sharding = Sharding.DDP

    def __post_init__(self) -> None:
        for name in ("epochs", "steps", "batch", "accumulate", "patience", "evaluate_every", "save_every"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"train.{name} {value}: give at least 1.")
        require(self.lr > 0, f"train.lr {self.lr}: give a positive learning rate.")
        require(self.clip is None or self.clip > 0, f"train.clip {self.clip}: give a positive norm, or leave it out.")
        require(0 <= self.smoothing < 1, f"train.smoothing {self.smoothing}: give a share, at least 0 and below 1.")
        require(self.seed >= 0, f"train.seed {self.seed}: give 0 or a positive whole number.")
        require(self.workers >= 0, f"train.workers {self.workers}: give 0 (load in this process) or more.")
