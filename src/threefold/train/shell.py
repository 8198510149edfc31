"""One model, alone or spread over processes, behind one call: `shell(f, ...)` is f(model, ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from threefold.errors import require
from threefold.train.settings import Sharding
from threefold.train.world import World

R = TypeVar("R")
CALLED = ("scan", "step", "whole", "remember", "init_state")  # what nets call on a part beside its forward


class Shell(nn.Module):
    """Carries any function of the model through `forward`, which is where DDP and fully_shard listen."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, act: Callable[..., R], *arguments: Any) -> R:
        return act(self.model, *arguments)


class Spread:
    """The model of one process, and how its gradients meet those of the others."""

    def __init__(self, model: nn.Module, sharding: Sharding, world: World) -> None:
        self.model, self.world, self.sharded = model, world, False
        self.shell: nn.Module = Shell(model)
        if world.size > 1 and sharding is Sharding.DDP:
            self.shell = nn.parallel.DistributedDataParallel(self.shell)
        elif sharding is Sharding.FULL:
            require(world.size > 1, "train.sharding full needs several processes: add --processes 2, or use torchrun.")
            self.sharded = True
            _shard(self.shell)

    def __call__(self, act: Callable[..., R], *arguments: Any) -> R:
        """act(model, ...), with gradients that will meet."""
        return cast(R, self.shell(act, *arguments))

    def measure(self, act: Callable[..., R], *arguments: Any) -> R:
        """act(model, ...) without gradients: on the first process for all, or on all where each holds a share."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                if self.sharded:
                    return cast(R, self.shell(act, *arguments))
                return cast(R, self.world.tell(act(self.model, *arguments) if self.world.first else None))
        finally:
            self.model.train(training)

    @contextmanager
    def meeting(self, last: bool) -> Iterator[None]:
        """Gradients are exchanged in the last micro-step only."""
        if isinstance(self.shell, nn.parallel.DistributedDataParallel) and not last:
            with self.shell.no_sync():
                yield
            return
        if self.sharded:
            cast(Any, self.shell).set_requires_gradient_sync(last)
        yield

    def parameters(self) -> dict[str, Tensor]:
        """Parameters by name, each once."""
        return dict(self.model.named_parameters())

    def clip(self, limit: float) -> float:
        """Scale the gradient to at most this norm; the norm that it had."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        return float(whole(norm))


def _shard(shell: nn.Module) -> None:
    """Shard what is called by itself (mixers, by their methods too), every repeated block, and the rest as one."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    blocks = [block for module in shell.modules() if isinstance(module, nn.ModuleList) for block in module]
    for unit in [*(part for block in blocks for part in _called(block)), *blocks]:
        if any(True for _ in unit.parameters()):
            fully_shard(unit)
            for name in CALLED:
                if hasattr(unit, name):
                    register_fsdp_forward_method(unit, name)
    fully_shard(shell)


def _called(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost parts of a module whose methods a net may call beside their forward."""
    for child in module.children():
        if any(hasattr(child, name) for name in CALLED):
            yield child
        else:
            yield from _called(child)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor behind a share of it. Every process must ask."""
    return cast(Any, tensor).full_tensor() if hasattr(tensor, "full_tensor") else tensor


def share_of(value: Tensor, like: Tensor) -> Tensor:
    """This process's share of a full tensor, laid out like `like`."""
    if not hasattr(like, "full_tensor") or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    placed = cast(Any, like)
    return distribute_tensor(value, placed.device_mesh, placed.placements)
