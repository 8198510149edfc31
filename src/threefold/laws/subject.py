"""A subject: something to be judged, and the ways in that the laws use. Each way may be absent, with a reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from threefold.laws.case import Case
from threefold.laws.guard import seeded

WIDE = torch.float64
Score = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Claims:
    """What a subject is meant to be. None: nobody said, so it is inferred, and said."""

    causal: bool | None = None
    permutes: bool | None = None
    relative: bool | None = None
    bounded: bool | None = None  # the state's bytes do not grow with T
    growth: int | None = None  # the degree in T of FLOPs and of bytes saved for backward


class Subject(ABC):
    """Inputs are (B, T, width) vectors, or (B, T) ids when there is a `vocabulary`. Outputs are (B, T, ...)."""

    name: str
    width: int
    vocabulary: int | None = None
    claims: Claims
    strict: bool = False  # refusing a length is a fault, not a limit to be noted
    precision: torch.dtype = WIDE  # the narrowest in which it computes when all it is given is float64
    blocks: tuple[int, ...] = ()  # block sizes at which it may change its ways
    masks: bool = False  # takes `valid`
    streams: bool = False  # continues from a state
    moves: bool = False  # takes positions
    spec: Any = None  # a MixerSpec, where there is one
    features: Any = None  # a feature map, where there is one
    mixes: bool = True  # a sequence layer, not only a feature map
    per_token: bool = True  # an output for every token, not one for the sequence
    notes: tuple[str, ...] = ()

    @abstractmethod
    def fresh(self) -> nn.Module:
        """A newly built module; the same for the same random stream."""

    @abstractmethod
    def call(
        self, module: nn.Module, x: Tensor, *, valid: Tensor | None, at: Tensor | None, form: str | None
    ) -> Tensor:
        """The whole sequence at once."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Names of the ways to compute it; the first is the default."""
        return ("whole", "step") if self.streams else ("whole",)

    def start(self, module: nn.Module, batch: int) -> Any:
        """The state before the first token."""
        raise TypeError(f"{self.name} has no state")

    def feed(
        self, module: nn.Module, x: Tensor, state: Any, *, valid: Tensor | None, form: str | None
    ) -> tuple[Tensor, Any]:
        """Continue from a state."""
        raise TypeError(f"{self.name} has no state")

    def leaves(self, state: Any) -> dict[str, Tensor]:
        """A state's tensors by name, batch first."""
        return {}

    def build(self, dtype: torch.dtype = WIDE, seed: int = 0) -> nn.Module:
        """A new module in eval mode, no parameter of which is constant: zeros hide faults."""
        with seeded(seed):
            module = self.fresh().eval()
            with torch.no_grad():
                for parameter in module.parameters():
                    if (
                        parameter.is_floating_point()
                        and parameter.numel()
                        and bool((parameter == parameter.flatten()[0]).all())
                    ):
                        parameter.add_(0.2 * torch.randn_like(parameter))
        return module.to(dtype)

    def module(self, dtype: torch.dtype = WIDE) -> nn.Module:
        """The module that most laws share; they leave it as it was."""
        built = self.__dict__.setdefault("_built", {})
        if dtype not in built:
            built[dtype] = self.build(dtype)
        return built[dtype]

    def rounded_twin(self, dtype: torch.dtype) -> nn.Module:
        """A float64 module with exactly the weights of `module(dtype)`."""
        built = self.__dict__.setdefault("_twins", {})
        if dtype not in built:
            built[dtype] = self.build(dtype).to(WIDE)
        return built[dtype]

    def scores(self) -> dict[str, tuple[Score, tuple[int, ...]]]:
        """By name, functions (q, k, q_at, k_at) -> scores of its position modules, and the shape of a token's heads."""
        return {}

    def run(
        self,
        x: Tensor,
        valid: Tensor | None = None,
        *,
        at: Tensor | None = None,
        form: str | None = None,
        training: bool = False,
        module: nn.Module | None = None,
    ) -> Tensor:
        """The outputs; every call draws the same random numbers, and leaves mode and buffers as they were."""
        module = self.module(x.dtype if x.is_floating_point() else WIDE) if module is None else module
        was, kept = module.training, [buffer.clone() for buffer in module.buffers()] if training else []
        module.train(training)
        try:
            with seeded(0):
                return self.call(module, x, valid=valid, at=at, form=form)
        finally:
            module.train(was)
            for buffer, old in zip(module.buffers(), kept, strict=False):
                buffer.data.copy_(old)

    def inputs(
        self, case: Case, salt: int = 0, *, T: int | None = None, B: int | None = None, loud: float = 1.0
    ) -> Tensor:
        """Draws of the case; another salt is another draw, `loud` times as large."""
        shape = (B or case.B, case.T if T is None else T)
        source = torch.Generator().manual_seed(1_000_003 * case.seed + salt)
        if self.vocabulary:
            return torch.randint(self.vocabulary, shape, generator=source)
        return torch.randn(*shape, self.width, generator=source, dtype=WIDE) * (case.scale * loud)

    def differing(self, x: Tensor, case: Case, salt: int) -> Tensor:
        """Another draw, no token of which equals that of x."""
        if self.vocabulary:
            step = torch.randint(1, self.vocabulary, x.shape, generator=torch.Generator().manual_seed(salt))
            return (x + step) % self.vocabulary
        return x + self.inputs(case, salt, T=x.shape[1], B=x.shape[0], loud=4.0).to(x.dtype)
