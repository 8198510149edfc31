"""What the tests of native linear attention share: cases, their inputs, and the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from threefold.ops import linear
from threefold.ops.linear import LinearState
from threefold.specs.features import Elu1, FeatureMap, Identity, Relu, Taylor

TAYLOR = Taylor(2)
MAPS: tuple[FeatureMap, ...] = (TAYLOR, Taylor(1, odd=True), Elu1(), Relu(), Identity())
LIMIT = {torch.float32: 2e-6, torch.float64: 1e-12}
NAMES = ("q", "k", "v", "memory", "mass")


@dataclass(frozen=True)
class Case:
    """One call. `normalised` a signed map divides by what may vanish, so its queries and keys are kept small."""

    features: FeatureMap = TAYLOR
    T: int = 19
    K: int = 5
    V: int = 7
    B: int = 2
    H: int = 3
    normalised: bool = True
    decay: bool = False
    masked: bool = False
    seed: int = 0

    def __str__(self) -> str:
        words = [f"{self.features!r}", f"T{self.T} K{self.K} V{self.V} B{self.B} H{self.H}"]
        flags = ("normalised", "decay", "masked")
        return " ".join([*words, *(flag for flag in flags if getattr(self, flag))])

    def tensors(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """q, k, v, S, z: the state as some earlier tokens left it."""
        draw = torch.Generator().manual_seed(self.seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, dtype=torch.float64)

        size = 0.3 if self.normalised and isinstance(self.features, Taylor | Identity) else 1.0
        q, k = (size * random(self.B, self.T, self.H, self.K) for _ in range(2))
        v, before = random(self.B, self.T, self.H, self.V), self.features.phi(size * random(self.B, self.H, 4, self.K))
        if isinstance(self.features, Identity) and self.normalised:
            q, k, before = q.abs() + 0.1, k.abs() + 0.1, before.abs()
        memory = before.transpose(-1, -2) @ random(self.B, self.H, 4, self.V)
        mass = before.sum(-2) if self.normalised else before.new_zeros(self.B, self.H, 0)
        return [x.to(dtype) for x in (q, k, v, memory, mass)]

    def options(self) -> dict:
        """Features, mask and rates, as the ops take them."""
        draw = torch.Generator().manual_seed(self.seed + 1)
        valid = torch.rand(self.B, self.T, generator=draw) < 0.6 if self.masked else None
        rates = torch.linspace(0.01, 0.7, self.H, dtype=torch.float64) if self.decay else None
        return {"features": self.features, "valid": valid, "rates": rates}


def state(memory: Tensor, mass: Tensor) -> LinearState:
    zero = torch.zeros(len(memory), dtype=torch.long)
    return LinearState(memory, mass, zero, zero)


def values(form, tensors: list[Tensor], options: dict) -> tuple[Tensor, LinearState]:
    """One form's outputs: y and the state after it."""
    q, k, v, memory, mass = tensors
    return form(q, k, v, state(memory, mass), **options)


def reference(tensors: list[Tensor], options: dict) -> tuple[Tensor, LinearState]:
    """All pairs at once in float64: no chunks, no blocks, never native."""
    return values(linear.parallel, [x.double() for x in tensors], options)


def gradients(form, tensors: list[Tensor], options: dict, through: str = "y S z") -> tuple[Tensor, ...]:
    """d/d(q, k, v, S, z) of fixed random sums over the outputs named in `through`."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    y, after = values(form, leaves, options)
    loss = torch.zeros((), dtype=torch.float64)
    for seed, (name, out) in enumerate((("y", y), ("S", after.memory), ("z", after.mass))):
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        if name in through.split():
            loss = loss + (out.double() * weight.to(tensors[0].dtype).double()).sum()
    return torch.autograd.grad(loss, leaves, materialize_grads=True, allow_unused=True)


def apart(got: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    if not got.numel():
        return 0.0
    scale = wanted.abs().max().double().item()
    difference = (got.double() - wanted.double()).abs()
    assert not difference.isnan().any(), "NaN"
    return difference.max().item() / (scale or 1.0)
