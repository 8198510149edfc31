"""Mutants of native code: the mistakes that a kernel invites, made around the operator that computes.

Where no native library was built the torch path is spoiled in the same way, so that the laws are tried everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.laws.mutants import Mutant
from tests.laws.mutants_forms import SPEC, mixer
from threefold.kernels import linear as native
from threefold.kernels.native import available
from threefold.mixers.linear import LinearMixer
from threefold.ops import linear
from threefold.ops.linear import LinearState
from threefold.specs.base import Form
from threefold.specs.positions import Decay

BLOCK = 8  # tokens that the kernel takes at once
Run = Callable[..., tuple[Tensor, LinearState]]


def compute(
    q: Tensor, k: Tensor, v: Tensor, state: LinearState, features: Any, valid: Tensor | None, rates: Tensor | None
) -> tuple[Tensor, LinearState]:
    """The operator as it is."""
    if not available():
        return native.run(q, k, v, state, features, valid, rates)
    return inspect.unwrap(linear.chunked)(q, k, v, state, features=features, valid=valid, rates=rates)


def cut(state: LinearState, q: Tensor, k: Tensor, v: Tensor, rest: tuple[Any, ...], part: slice) -> Any:
    """One stretch of the sequence."""
    features, valid, rates = rest
    return compute(
        q[:, part], k[:, part], v[:, part], state, features, None if valid is None else valid[:, part], rates
    )


class Native(LinearMixer):
    """A mixer whose sequences run by `spoiled` instead of the operator."""

    @staticmethod
    def spoiled(q: Tensor, k: Tensor, v: Tensor, state: LinearState, *rest: Any) -> tuple[Tensor, LinearState]:
        return compute(q, k, v, state, *rest)

    def mix(self, x: Tensor, state: LinearState, valid: Tensor | None, form: Form) -> tuple[Tensor, LinearState]:
        if form is not Form.CHUNKED:
            return super().mix(x, state, valid, form)
        kept = list(linear._accelerators)
        linear.accelerate(linear.Accelerator(lambda *_: "", self.spoiled))
        try:
            return super().mix(x, state, valid, form)
        finally:
            linear._accelerators[:] = kept


class BlockEdge(Native):
    """Every block starts from a state that lacks the last token of the block before."""

    @staticmethod
    def spoiled(q: Tensor, k: Tensor, v: Tensor, state: LinearState, *rest: Any) -> tuple[Tensor, LinearState]:
        end = cut(state, q, k, v, rest, slice(None))[1]
        ys, short = [], state
        for first in range(0, q.shape[1], BLOCK):
            ys.append(cut(short, q, k, v, rest, slice(first, first + BLOCK))[0])
            short = cut(state, q, k, v, rest, slice(first + BLOCK - 1))[1]
        return torch.cat(ys, 1), end


class MissedDecay(Native):
    """The state brought along does not fade within the sequence."""

    @staticmethod
    def spoiled(q: Tensor, k: Tensor, v: Tensor, state: LinearState, *rest: Any) -> tuple[Tensor, LinearState]:
        features, valid, _ = rest
        return compute(q, k, v, state, features, valid, None)


class ConstantNormaliser(Native):
    """Right forward; the backward takes the normaliser for a constant."""

    @staticmethod
    def spoiled(q: Tensor, k: Tensor, v: Tensor, state: LinearState, *rest: Any) -> tuple[Tensor, LinearState]:
        y, end = compute(q, k, v, state, *rest)
        top, _ = compute(q, k, v, state._replace(mass=state.mass[..., :0]), *rest)
        return top * (y / top).detach(), end


FADING = replace(SPEC, position=Decay())
NATIVE: tuple[Mutant, ...] = (
    Mutant("native block edge off by one", "forms", mixer(BlockEdge), mixer(Native)),
    Mutant("native decay missed", "forms", mixer(MissedDecay, FADING), mixer(Native, FADING)),
    Mutant("native normaliser without gradient", "gradient", mixer(ConstantNormaliser), mixer(Native)),
)
