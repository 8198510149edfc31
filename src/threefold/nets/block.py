"""One layer of a stack: a mixer, perhaps a reading of a memory, perhaps a feed-forward part, each in residual form."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from threefold.mixers.base import CausalMixer
from threefold.specs.base import Form, MixerSpec
from threefold.specs.nets import FFN, Bend, Norm, StackSpec


class Residual(nn.Module):
    """The frame around a branch f: x + drop(f(norm(x))) with pre-norm, norm(x + drop(f(x))) with post-norm."""

    def __init__(self, width: int, place: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.place = place

    def enter(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """What the branch reads."""
        return self.norm(x) if self.place is Norm.PRE else x

    def leave(self, x: Float[Tensor, "b t d"], y: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """The stream after the branch has said y."""
        x = x + functional.dropout(y, self.dropout, self.training)
        return x if self.place is Norm.PRE else self.norm(x)


class Feedforward(nn.Module):
    """W_2 bend(W_1 x + b_1) + b_2."""

    def __init__(self, spec: FFN, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, spec.hidden, bias=spec.bias)
        self.outer = nn.Linear(spec.hidden, width, bias=spec.bias)
        self.bend = functional.relu if spec.bend is Bend.RELU else functional.gelu

    def forward(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        return self.outer(self.bend(self.inner(x)))


class Block(nn.Module):
    """Layer of a stack; `whole` for any mixer, `scan` for causal ones."""

    def __init__(self, spec: StackSpec, mixer: MixerSpec) -> None:
        super().__init__()
        self.mixer = mixer.build(spec.width)
        self.mixed = Residual(spec.width, spec.norm, spec.dropout)
        self.cross = spec.cross.build(spec.width) if spec.cross else None
        self.crossed = Residual(spec.width, spec.norm, spec.dropout) if spec.cross else None
        self.ffn = Feedforward(spec.ffn, spec.width) if spec.ffn else None
        self.fed = Residual(spec.width, spec.norm, spec.dropout) if spec.ffn else None

    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None, memory: tuple | None, form: Form | None
    ) -> Float[Tensor, "b t d"]:
        """A whole sequence from an empty state."""
        x = self.mixed.leave(x, self.mixer.whole(self.mixed.enter(x), valid, form=form))
        return self._after(x, memory)

    def scan(
        self,
        x: Float[Tensor, "b t d"],
        state: tuple,
        memory: tuple | None,
        valid: Bool[Tensor, "b t"] | None,
        form: Form | None,
    ) -> tuple[Float[Tensor, "b t d"], tuple]:
        """Continue from `state`."""
        assert isinstance(self.mixer, CausalMixer)
        y, state = self.mixer.scan(self.mixed.enter(x), state, valid=valid, form=form)
        return self._after(self.mixed.leave(x, y), memory), state

    def _after(self, x: Tensor, memory: tuple | None) -> Tensor:
        if self.cross is not None and self.crossed is not None and memory is not None:
            x = self.crossed.leave(x, self.cross(self.crossed.enter(x), memory))
        if self.ffn is not None and self.fed is not None:
            x = self.fed.leave(x, self.ffn(self.fed.enter(x)))
        return x
