"""Mutants of the laws about ways to compute one function: gradient, forms, streaming."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.laws.mutants import WIDTH, LinearAttention, Mutant, Sound, subject
from threefold.claims.lstm.mutations import MUTATIONS
from threefold.laws import Claims, MixerSubject, Subject
from threefold.mixers.linear import LinearMixer
from threefold.mixers.recurrent import LSTMMixer
from threefold.ops.linear import LinearState
from threefold.specs.attention import Linear
from threefold.specs.base import Form
from threefold.specs.features import Taylor
from threefold.specs.recurrent import LSTM

CAUSAL = Claims(causal=True)
SPEC = Linear(heads=2, key_dim=4, value_dim=5, chunk=3, features=Taylor(2))


def mixer(kind: type[LinearMixer], spec: Linear = SPEC) -> Callable[[], Subject]:
    """One of this library's mixers, broken."""
    return lambda: MixerSubject(spec, 12, make=lambda: kind(spec, 12), name=kind.__name__)


class Gates(nn.Module):
    """An LSTM in plain operations, resumable."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2 * WIDTH, 4 * WIDTH)

    def carried(self, f: Tensor, c: Tensor) -> Tensor:
        return f * c

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        a, c = state or (x.new_zeros(len(x), WIDTH), x.new_zeros(len(x), WIDTH))
        ys = []
        for x_t in x.unbind(1):
            u, f, o, p = self.map(torch.cat([a, x_t], -1)).chunk(4, -1)
            c = torch.sigmoid(u) * torch.tanh(p) + self.carried(torch.sigmoid(f), c)
            a = torch.sigmoid(o) * torch.tanh(c)
            ys.append(a)
        return torch.stack(ys, 1), (a, c)


class FrozenForgetGate(Gates):
    """The forget gate works and learns nothing."""

    def carried(self, f: Tensor, c: Tensor) -> Tensor:
        return f.detach() * c


class TruncatedMemory(Gates):
    """No gradient through the cell's past."""

    def carried(self, f: Tensor, c: Tensor) -> Tensor:
        return f * c.detach()


class ConstantNormaliser(LinearAttention):
    """Divides by a normaliser that gives no gradient."""

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory = torch.einsum("btf,btv->btfv", k, v).cumsum(1)
        return torch.einsum("btf,btfv->btv", q, memory) / (q * k.cumsum(1)).sum(-1, keepdim=True).detach()


class _Cube(torch.autograd.Function):
    """x^3 whose backward is right once: 3x^2 as a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * (3 * ctx.saved_tensors[0] ** 2).detach()


class Cubes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def cube(self, x: Tensor) -> Tensor:
        return x**3

    def forward(self, x: Tensor) -> Tensor:
        return self.cube(self.map(x).cumsum(1) / 4)


class WrongSecond(Cubes):
    def cube(self, x: Tensor) -> Tensor:
        return _Cube.apply(x)


class SumsOverHeads(LinearMixer):
    """The chunked form divides by normalisers summed over heads."""

    def mix(self, x: Tensor, state: LinearState, valid: Tensor | None, form: Form) -> tuple[Tensor, LinearState]:
        y, new = super().mix(x, state, valid, form)
        return (y / self.spec.heads if form is Form.CHUNKED else y), new


class DropsChunk(LinearMixer):
    """The chunked form forgets its state after every block of 3."""

    def mix(self, x: Tensor, state: LinearState, valid: Tensor | None, form: Form) -> tuple[Tensor, LinearState]:
        if form is not Form.CHUNKED:
            return super().mix(x, state, valid, form)
        ys, now = [], state
        for i, part in enumerate(x.split(3, 1)):
            start = self.init_state(len(x)) if i else now
            y, now = super().mix(part, start, None if valid is None else valid[:, 3 * i : 3 * i + 3], form)
            ys.append(y)
        return (torch.cat(ys, 1) if ys else x), now


class ScalesTwice(LinearMixer):
    """The parallel form scales queries a second time."""

    def mix(self, x: Tensor, state: LinearState, valid: Tensor | None, form: Form) -> tuple[Tensor, LinearState]:
        weight = self.heads.query.weight
        if form is not Form.PARALLEL:
            return super().mix(x, state, valid, form)
        kept = weight.data
        weight.data = kept * self.heads.key_dim**-0.5
        try:
            return super().mix(x, state, valid, form)
        finally:
            weight.data = kept


class LosesMass(LinearMixer):
    """The chunked form hands on a state without its normaliser."""

    def mix(self, x: Tensor, state: LinearState, valid: Tensor | None, form: Form) -> tuple[Tensor, LinearState]:
        y, new = super().mix(x, state, valid, form)
        return y, new._replace(mass=torch.zeros_like(new.mass)) if form is Form.CHUNKED else new


class Window(nn.Module):
    """A causal window of three tokens; the state is the last two."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(3 * WIDTH, WIDTH)

    def kept(self, full: Tensor) -> Tensor:
        return full[:, -2:]

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        full = torch.cat([x.new_zeros(len(x), 2, WIDTH) if state is None else state, x], 1)
        past = [full[:, i : i + x.shape[1]] for i in range(3)]
        return self.map(torch.cat(past, -1)), self.kept(full)


class ShortWindow(Window):
    """Keeps the last token only, whatever the chunk."""

    def kept(self, full: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(full[:, :1]), full[:, -1:]], 1)


class HiddenState(Window):
    """Keeps its state in itself."""

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, new = super().forward(x, None if state is None else self.last)
        self.last = new
        return y, new


class WritesState(Gates):
    """Updates the state it was given in place."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, new = super().forward(x, state)
        if state is not None and not torch.is_grad_enabled():
            state[0].copy_(new[0])
            state[1].copy_(new[1])
        return y, new


class StepRestarts(Sound):
    """Every step believes to be at position 0."""

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        keys = torch.cat([state[0], self.key(x)[:, None]], 1)
        values = torch.cat([state[1], self.value(x)[:, None]], 1)
        return self.read(self.query(x), keys, values), (keys, values)


def derived(name: str) -> Callable[[], Subject]:
    """An LSTM that computes as ever, and whose closed form has a mistake of the source documents; "" for none."""

    def make() -> LSTMMixer:
        made = LSTMMixer(LSTM(), 12)
        made.cell = MUTATIONS[name] if name else made.cell
        return made

    return lambda: MixerSubject(LSTM(), 12, make=make, name=name or "LSTM")


BOUNDED = Claims(causal=True, bounded=True)
FORMS: tuple[Mutant, ...] = (
    Mutant("frozen forget gate", "gradient", subject(FrozenForgetGate, CAUSAL), subject(Gates, CAUSAL)),
    Mutant("no gradient through the cell", "gradient", subject(TruncatedMemory, CAUSAL), subject(Gates, CAUSAL)),
    Mutant(
        "normaliser without gradient", "gradient", subject(ConstantNormaliser, CAUSAL), subject(LinearAttention, CAUSAL)
    ),
    Mutant("second derivative dropped", "gradient", subject(WrongSecond, CAUSAL), subject(Cubes, CAUSAL)),
    *(Mutant(f"closed form: {name}", "gradient", derived(name), derived("")) for name in MUTATIONS),
    Mutant("normaliser over heads", "forms", mixer(SumsOverHeads), mixer(LinearMixer)),
    Mutant("chunks forget", "forms", mixer(DropsChunk), mixer(LinearMixer)),
    Mutant("scale in two places", "forms", mixer(ScalesTwice), mixer(LinearMixer)),
    Mutant("state without its normaliser", "forms", mixer(LosesMass), mixer(LinearMixer)),
    Mutant("window keeps too little", "streaming", subject(ShortWindow, CAUSAL), subject(Window, CAUSAL)),
    Mutant("state kept in the module", "streaming", subject(HiddenState, CAUSAL), subject(Window, CAUSAL)),
    Mutant("state written in place", "streaming", subject(WritesState, CAUSAL), subject(Gates, CAUSAL)),
    Mutant("every step at position 0", "streaming", subject(StepRestarts), subject(Sound)),
    Mutant("declared bounded, and grows", "streaming", subject(Sound, BOUNDED), subject(Gates, BOUNDED)),
)
