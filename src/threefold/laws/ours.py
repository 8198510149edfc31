"""Subjects that declare themselves: this library's mixers and feature maps. Nothing is inferred."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from threefold.laws.subject import Claims, Score, Subject
from threefold.mixers.base import CausalMixer, Mixer
from threefold.ops.scan import leaves
from threefold.positions import HeadPosition, ScorePosition
from threefold.specs.attention import Linear
from threefold.specs.base import Form, MixerSpec, Site, Spec, fields_of
from threefold.specs.features import FeatureMap
from threefold.specs.positions import Rotary


class MixerSubject(Subject):
    """A mixer judged by its spec's traits. `make` may build something else than the spec would: a mutant of it."""

    strict = True
    masks = True

    def __init__(
        self, spec: MixerSpec, width: int = 12, make: Callable[[], Mixer] | None = None, name: str = ""
    ) -> None:
        self.spec = spec
        self.width = width
        self.name = name or repr(spec)
        self._make = make or (lambda: spec.build(width))
        traits = spec.traits
        position = getattr(spec, "position", None)
        self.features = getattr(spec, "features", None)
        self.streams = traits.causal
        self.blocks = tuple(sorted(chunks(spec))) or (16,)
        self.claims = Claims(
            causal=traits.causal,
            permutes=traits.permutes,
            relative=position.relative if position is not None and position.site is not Site.DECAY else None,
            bounded=traits.bounded_state if traits.causal else None,
        )
        # a linear state's clock can be set; a cache's positions are its slots
        self.moves = traits.causal and isinstance(spec, Linear) and isinstance(position, Rotary)

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(form.value for form in self.spec.traits.forms)

    def fresh(self) -> nn.Module:
        return self._make()

    def call(
        self, module: nn.Module, x: Tensor, *, valid: Tensor | None, at: Tensor | None, form: str | None
    ) -> Tensor:
        assert isinstance(module, Mixer)
        if at is None:
            return module.whole(x, valid, form=Form(form) if form else None)
        assert isinstance(module, CausalMixer)
        return self._placed(module, x, at, form)

    def _placed(self, module: CausalMixer[Any], x: Tensor, at: Tensor, form: str | None) -> Tensor:
        """Outputs with token i at position at[i]: a run of consecutive positions is fed, then the clock is set."""
        state, ys, first = module.init_state(len(x)), [], 0
        jumps = (torch.diff(at) != 1).nonzero().flatten() + 1
        for last in [*jumps.tolist(), len(at)]:
            state = state._replace(tokens=torch.full_like(state.tokens, int(at[first])))
            y, state = module.scan(x[:, first:last], state, form=Form(form) if form else None)
            ys.append(y)
            first = last
        return torch.cat(ys, 1)

    def start(self, module: nn.Module, batch: int) -> Any:
        assert isinstance(module, CausalMixer)
        return module.init_state(batch)

    def feed(
        self, module: nn.Module, x: Tensor, state: Any, *, valid: Tensor | None, form: str | None
    ) -> tuple[Tensor, Any]:
        assert isinstance(module, CausalMixer)
        return module.scan(x, state, valid=valid, form=Form(form) if form else None)

    def leaves(self, state: Any) -> dict[str, Tensor]:
        return leaves(state)

    def scores(self) -> dict[str, tuple[Score, tuple[int, ...]]]:
        """The scores that its position modules make of queries and keys."""
        found: dict[str, tuple[Score, tuple[int, ...]]] = {}
        if self.claims.relative is None:
            return found
        shape = (self.spec.heads, self.spec.key_size(self.width))
        for part in self.module().modules():
            if isinstance(part, HeadPosition):
                found["turn"] = partial(_turned, part), shape
            elif isinstance(part, ScorePosition):
                found["bias"] = partial(_added, part), shape
        return found


def chunks(spec: Spec) -> set[int]:
    """The chunk sizes of a spec and of those inside it."""
    values = {f.name: getattr(spec, f.name) for f in fields_of(spec)}
    inner = {size for value in values.values() if isinstance(value, Spec) for size in chunks(value)}
    return inner | ({values["chunk"]} if "chunk" in values else set())


def _turned(part: HeadPosition, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return torch.einsum("bthk,bshk->bhts", part(q, i), part(k, j))


def _added(part: ScorePosition, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return part(q, i, j)


class FeatureSubject(Subject):
    """A feature map alone: only the law about feature maps speaks of it."""

    mixes = False

    def __init__(self, features: FeatureMap | Any, width: int = 4, name: str = "") -> None:
        self.features = features
        self.width = width
        self.name = name or repr(features)
        self.claims = Claims()

    def fresh(self) -> nn.Module:
        return self.features if isinstance(self.features, nn.Module) else nn.Identity()

    def call(
        self, module: nn.Module, x: Tensor, *, valid: Tensor | None, at: Tensor | None, form: str | None
    ) -> Tensor:
        return self.features.phi(x)
