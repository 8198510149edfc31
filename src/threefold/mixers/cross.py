"""Reading a remembered memory: encoder-decoder attention over softmax or linear."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from threefold.errors import InputError
from threefold.mixers.attention import SoftmaxHeads
from threefold.mixers.base import CrossMixer, fits
from threefold.mixers.linear import LinearHeads, report
from threefold.ops import linear, softmax
from threefold.ops.linear import LinearState
from threefold.ops.scan import cleared
from threefold.ops.softmax import Memory
from threefold.specs.attention import Linear, Softmax
from threefold.specs.cross import CrossAttention


class SoftmaxCross(CrossMixer[Memory]):
    """The memory is its keys and values: its size grows with S."""

    def __init__(self, spec: CrossAttention, over: Softmax, width: int, memory_width: int) -> None:
        super().__init__()
        self.spec = spec
        self.heads = SoftmaxHeads(over, width, memory_width)

    def remember(self, memory: Float[Tensor, "b s m"], valid: Bool[Tensor, "b s"] | None = None) -> Memory:
        fits("CrossAttention", "a memory", memory, self.heads.key.in_features, valid)
        memory = cleared(memory, valid)
        k = self.heads.keys(memory)
        if self.heads.key_norm is not None:
            k = self.heads.key_norm(k)
        v = self.heads.values(memory)
        return Memory(cleared(k, valid).transpose(1, 2), cleared(v, valid).transpose(1, 2), valid)

    def forward(self, x: Float[Tensor, "b t d"], memory_state: Memory) -> Float[Tensor, "b t d"]:
        return self.heads.joined(softmax.everywhere(self._asking(x), memory_state))

    def weights(self, x: Float[Tensor, "b t d"], memory_state: Memory) -> Float[Tensor, "b h t s"]:
        """Where each token looks: the weights that `forward` gives to the memory's places."""
        return softmax.weights(self._asking(x), memory_state)

    def _asking(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t h k"]:
        fits("CrossAttention", "x", x, self.heads.query.in_features, None)
        q = self.heads.queries(x)
        return q if self.heads.query_norm is None else self.heads.query_norm(q)


class LinearCross(CrossMixer[LinearState]):
    """The memory is phi(K)^T V and the sum of phi(K): its size does not depend on S."""

    def __init__(self, spec: CrossAttention, over: Linear, width: int, memory_width: int) -> None:
        super().__init__()
        self.spec = spec
        self.over = over
        self.heads = LinearHeads(over, width, memory_width)

    def remember(self, memory: Float[Tensor, "b s m"], valid: Bool[Tensor, "b s"] | None = None) -> LinearState:
        fits("CrossAttention", "a memory", memory, self.heads.key.in_features, valid)
        memory = cleared(memory, valid)
        k, v = self.heads.keys(memory), self.heads.values(memory)
        return linear.remember(k, v, features=self.over.features, normalised=self.over.normalised, valid=valid)

    def forward(self, x: Float[Tensor, "b t d"], memory_state: LinearState) -> Float[Tensor, "b t d"]:
        fits("CrossAttention", "x", x, self.heads.query.in_features, None)
        q = self.heads.queries(x)
        y, after = linear.recall(q, memory_state, features=self.over.features)
        report(self.over, memory_state.nonpositive, after.nonpositive)
        return self.heads.joined(y)


def build_cross(spec: CrossAttention, width: int, memory_width: int) -> CrossMixer:
    """The module of a CrossAttention spec."""
    match spec.over:
        case Softmax() as over:
            return SoftmaxCross(spec, over, width, memory_width)
        case Linear() as over:
            return LinearCross(spec, over, width, memory_width)
    raise InputError(f"CrossAttention over {spec.over!r}: give Softmax(causal=False) or Linear(causal=False).")
