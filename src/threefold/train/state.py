"""A training run's whole state as named tensors, and back to the same bits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from threefold.errors import require
from threefold.train.shell import share_of, whole


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters (each once, however often it is used) and saved buffers."""
    names = set(model.state_dict())
    buffers = {name: b for name, b in model.named_buffers() if name in names}
    return {f"model.{name}": whole(t.detach()) for name, t in [*model.named_parameters(), *buffers.items()]}


@torch.no_grad()
def load_model(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy saved tensors into a model of the same recipe."""
    own = dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if n in model.state_dict()}
    saved = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    odd = sorted(set(own) ^ set(saved))
    require(not odd, f"the checkpoint is of another model: {', '.join(odd[:3])} stand in only one of the two.")
    for name, tensor in own.items():
        here, there = tuple(tensor.shape), tuple(saved[name].shape)
        require(here == there, f"the checkpoint is of another model: {name} has shape {there}, and {here} is needed.")
        tensor.copy_(share_of(saved[name], tensor))


def optimiser_tensors(optimiser: Optimizer, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter."""
    found = {}
    for name, parameter in parameters.items():
        for key, value in sorted(optimiser.state.get(parameter, {}).items()):
            if value is not None:
                found[f"optimiser.{key}.{name}"] = whole(value.detach())
    return found


def load_optimiser(optimiser: Optimizer, parameters: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Give the optimiser its memories back."""
    optimiser.state.clear()
    for full, tensor in tensors.items():
        kind, _, rest = full.partition(".")
        if kind == "optimiser":
            key, _, name = rest.partition(".")
            memory = optimiser.state[parameters[name]]
            memory[key] = tensor.clone() if key == "step" else share_of(tensor, parameters[name]).clone()
