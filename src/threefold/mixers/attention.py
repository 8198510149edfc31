"""Softmax attention: projections and heads around ops.softmax."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.mixers.base import CausalMixer, Mixer
from threefold.ops import cache, fused, softmax
from threefold.ops.cache import Cache
from threefold.ops.place import positions
from threefold.ops.scan import cleared
from threefold.specs.attention import Attention, Softmax
from threefold.specs.base import Form
from threefold.specs.positions import Rotary, ScorePositionSpec

FORMS = {Form.STEP: softmax.step, Form.CHUNKED: softmax.chunked, Form.PARALLEL: softmax.parallel}


class Heads(nn.Module):
    """The projections in front of attention, and the one behind: shared by softmax and linear, self and cross."""

    def __init__(self, spec: Attention, width: int, groups: int, source: int | None = None) -> None:
        super().__init__()
        self.key_dim, self.value_dim = spec.key_size(width), spec.value_size(width)
        source = source or width
        self.query = nn.Linear(width, spec.heads * self.key_dim, spec.bias)
        self.key = nn.Linear(source, groups * self.key_dim, spec.bias)
        self.value = nn.Linear(source, groups * self.value_dim, spec.bias)
        self.output = nn.Linear(spec.heads * self.value_dim, width, spec.bias)

    def queries(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t h k"]:
        return self.query(x).unflatten(-1, (-1, self.key_dim))

    def keys(self, x: Float[Tensor, "b s m"]) -> Float[Tensor, "b s g k"]:
        return self.key(x).unflatten(-1, (-1, self.key_dim))

    def values(self, x: Float[Tensor, "b s m"]) -> Float[Tensor, "b s g v"]:
        return self.value(x).unflatten(-1, (-1, self.value_dim))

    def joined(self, y: Float[Tensor, "b t h v"]) -> Float[Tensor, "b t d"]:
        return self.output(y.flatten(-2))


class SoftmaxHeads(Heads):
    """Queries and keys also normalised and turned, in this order; scores may get a term."""

    def __init__(self, spec: Softmax, width: int, source: int | None = None) -> None:
        super().__init__(spec, width, spec.groups, source)
        self.query_norm = nn.RMSNorm(self.key_dim, eps=1e-6) if spec.qk_norm else None
        self.key_norm = nn.RMSNorm(self.key_dim, eps=1e-6) if spec.qk_norm else None
        position = spec.position
        self.turn = position.build(self.key_dim) if isinstance(position, Rotary) else None
        self.bias = (
            position.build(spec.heads, self.key_dim, spec.causal) if isinstance(position, ScorePositionSpec) else None
        )

    def entering(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v of tokens at these positions."""
        q, k = self.queries(x), self.keys(x)
        if self.query_norm is not None and self.key_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        if self.turn is not None:
            q, k = self.turn(q, at), self.turn(k, at)
        return q, k, self.values(x)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        """The kernel that torch chooses for attention of tokens like x."""
        size = max(self.key_dim, self.value_dim)
        q, k = (x.new_empty(len(x), each.out_features // self.key_dim, 2, size) for each in (self.query, self.key))
        learned = self.bias is not None and next(self.bias.parameters(), None) is not None
        mask = x.new_zeros(1, 1, 2, 2, requires_grad=learned) if masked or self.bias is not None else None
        return f"torch's {fused.kernel(q, k, k, mask, causal=mask is None).removesuffix('_attention')}"


class SoftmaxMixer(CausalMixer[Cache]):
    """Causal softmax attention. STEP and CHUNKED continue a cache; PARALLEL is torch's fused attention."""

    spec: Softmax

    def __init__(self, spec: Softmax, width: int) -> None:
        super().__init__(spec, width)
        self.heads = SoftmaxHeads(spec, width)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        return self.heads.path(x, masked=masked)

    def init_state(self, batch: int) -> Cache:
        dtype = self.heads.key.weight.dtype  # a cache keeps, it does not accumulate
        groups = self.spec.groups
        return cache.empty(
            self._zeros(batch, groups, 0, self.heads.key_dim, dtype=dtype),
            self._zeros(batch, groups, 0, self.heads.value_dim, dtype=dtype),
        )

    def mix(
        self, x: Float[Tensor, "b t d"], state: Cache, valid: Bool[Tensor, "b t"] | None, form: Form
    ) -> tuple[Float[Tensor, "b t d"], Cache]:
        start = state.tokens[:1] if state.even and valid is None else state.tokens
        q, k, v = self.heads.entering(x, positions(start, x.shape[1], valid))
        y, state = FORMS[form](q, k, v, state, valid=valid, bias=self.heads.bias, chunk=self.spec.chunk)
        return self.heads.joined(y), state


class SoftmaxEverywhere(Mixer):
    """Softmax attention in which every token sees every valid token."""

    spec: Softmax

    def __init__(self, spec: Softmax, width: int) -> None:
        super().__init__(spec, width)
        self.heads = SoftmaxHeads(spec, width)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        return self.heads.path(x, masked=masked)

    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        form = self._asked(x, valid, form)
        x = cleared(x, valid)
        start = torch.zeros(1 if valid is None else len(x), dtype=torch.long, device=x.device)
        q, k, v = self.heads.entering(x, positions(start, x.shape[1], valid))
        memory = softmax.Memory(k.transpose(1, 2), v.transpose(1, 2), valid)
        chunk = self.spec.chunk if form is Form.CHUNKED else None
        y = softmax.everywhere(q, memory, valid=valid, bias=self.heads.bias, chunk=chunk)
        return cleared(self.heads.joined(y), valid)


def build_softmax(spec: Softmax, width: int) -> Mixer:
    """The module of a Softmax spec."""
    return SoftmaxMixer(spec, width) if spec.causal else SoftmaxEverywhere(spec, width)
