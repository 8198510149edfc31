"""Planned beside counted: build a spec where nothing is allocated, count it there, and compare to the unit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from threefold.cost import Plan
from threefold.errors import require
from threefold.plan.conventions import Causal, Conventions, Recompute
from threefold.plan.count import Count, count
from threefold.specs.base import Form, MixerSpec
from threefold.specs.nets import ClassifierSpec, NetSpec, Seq2SeqSpec, StackSpec
from threefold.specs.speech import SpeechSpec
from threefold.specs.vision import CNNSpec

CHECKED = ("params", "forward", "backward", "saved")


class Formed(nn.Module):
    """A mixer or a net in one form, so that its parameters are seen as its own."""

    def __init__(self, inner: nn.Module, form: Form | None) -> None:
        super().__init__()
        self.inner, self.form = inner, form

    def forward(self, *given: Tensor) -> Tensor:
        call = getattr(self.inner, "whole", self.inner)
        return call(*given) if self.form is None else call(*given, form=self.form)


@dataclass(frozen=True)
class Check:
    """What was planned and what was counted, by name."""

    pairs: Mapping[str, tuple[int, int]]
    seen: Count

    @property
    def holds(self) -> bool:
        """Everything is equal, and nothing remained uncounted."""
        return all(planned == found for planned, found in self.pairs.values()) and not self.seen.unknown

    @property
    def verdict(self) -> str:
        """One line."""
        unequal = [f"{name} {found:,}, planned {plan:,}" for name, (plan, found) in self.pairs.items() if plan != found]
        if unequal:
            return f"counted {'; '.join(unequal)}: NOT what was planned; {self.seen.says}"
        said = ", ".join(f"{found:,} {NAMES[name]}" for name, (_, found) in self.pairs.items())
        return f"counted {said} = planned; {self.seen.says}"


NAMES = {"params": "parameters", "forward": "FLOPs forward", "backward": "FLOPs backward", "saved": "bytes saved"}


def inputs(spec: MixerSpec | NetSpec, sizes: Mapping[str, int], dtype: torch.dtype, width: int = 0) -> tuple:
    """Inputs without numbers: vectors that want a gradient for mixers and stacks, data for nets."""
    B, T, S = (sizes.get(axis, 1) for axis in "BTS")

    def ids(length: int) -> Tensor:
        return torch.zeros(B, length, dtype=torch.long, device="meta")

    def numbers(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=dtype, device="meta")

    match spec:
        case MixerSpec():
            return (numbers(B, T, width).requires_grad_(),)
        case StackSpec():
            return (numbers(B, T, spec.width).requires_grad_(),)
        case Seq2SeqSpec():
            return ids(S), ids(T)
        case SpeechSpec():
            heard = torch.ones(B, 2 * S, dtype=torch.bool, device="meta")
            return numbers(B, 2 * S, spec.front.bins), ids(T), heard
        case CNNSpec():
            return (numbers(B, spec.channels, spec.side, spec.side),)
        case ClassifierSpec():
            return (ids(T),)
    return (ids(T),)


def check(
    spec: MixerSpec | NetSpec,
    plan: Plan,
    sizes: Mapping[str, int],
    conventions: Conventions,
    form: Form | None = None,
    width: int = 0,
) -> Check:
    """Count one training step on the meta device and hold the plan against it."""
    require(conventions.causal is Causal.FULL, "--check counts what kernels run, which is every pair: use causal full.")
    require(conventions.recompute is Recompute.NONE, "--check counts without recomputation: use recompute none.")
    dtype = getattr(torch, conventions.dtype.value)
    heard = isinstance(spec, SpeechSpec)  # its front end computes tables when it is built
    with nullcontext() if heard else torch.device("meta"):
        module = spec.build(width) if isinstance(spec, MixerSpec) else spec.build()
    formed = Formed(module.to("meta", dtype).train(), form)
    seen = count(formed, *inputs(spec, sizes, dtype, width), scores=conventions.scores)
    total = plan.total.placed(sizes)
    return Check({name: (int(getattr(total, name)), getattr(seen, name)) for name in CHECKED}, seen)
