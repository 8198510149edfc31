"""The residual stack that every token net shares: blocks over any mixers, with one state for all of them."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.mixers.base import CausalMixer
from threefold.nets.block import Block
from threefold.ops.scan import cleared
from threefold.specs.base import Form
from threefold.specs.nets import StackSpec


class StackState(NamedTuple):
    """What a stack remembers: one mixer state a layer, and what each layer's cross-mixer keeps of the memory."""

    layers: tuple
    memories: tuple


class Stack(nn.Module):
    """(B, T, D) -> (B, T, D). Causal stacks also `scan` and `step`; stacks with cross first `remember` a memory."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.spec = spec
        self.blocks = nn.ModuleList(Block(spec, mixer) for mixer in spec.mixers)
        self.norm = nn.LayerNorm(spec.width) if spec.ends_normed else nn.Identity()

    def forward(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        """A whole sequence, for mixers of any kind; an invalid token's output is 0."""
        require(self.spec.cross is None, "This stack reads a memory: `remember` it with `init_state`, then `scan`.")
        x = cleared(x, valid)
        for block in self._blocks():
            x = block.whole(x, valid, None, form)
        return cleared(self.norm(x), valid)

    def init_state(
        self,
        batch: int,
        memory: Float[Tensor, "b s d"] | None = None,
        memory_valid: Bool[Tensor, "b s"] | None = None,
    ) -> StackState:
        """The state before the first token; `memory` for stacks with cross."""
        require((memory is None) == (self.spec.cross is None), "A memory is for stacks with cross, and they need one.")
        layers = []
        for mixer in (block.mixer for block in self._blocks()):
            if not isinstance(mixer, CausalMixer):
                raise InputError(
                    f"{mixer.spec!r} reads the future, so this stack has no state; call it on whole sequences."
                )
            layers.append(mixer.init_state(batch))
        readers = [block.cross for block in self._blocks() if block.cross is not None]
        memories = () if memory is None else tuple(cross.remember(memory, memory_valid) for cross in readers)
        return StackState(tuple(layers), memories)

    def scan(
        self,
        x: Float[Tensor, "b t d"],
        state: StackState,
        *,
        valid: Bool[Tensor, "b t"] | None = None,
        form: Form | None = None,
    ) -> tuple[Float[Tensor, "b t d"], StackState]:
        """Continue from `state`: any split of T gives the same result."""
        x = cleared(x, valid)
        memories = state.memories or (None,) * len(self.blocks)
        layers = []
        for block, layer, memory in zip(self._blocks(), state.layers, memories, strict=True):
            x, layer = block.scan(x, layer, memory, valid, form)
            layers.append(layer)
        return cleared(self.norm(x), valid), StackState(tuple(layers), state.memories)

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]
