"""Broken subjects that a law must reject, each beside a healthy twin that it must accept.

`Sound` and the eleven modules after it are small causal attentions with one planted fault each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from threefold.laws import Claims, ModuleSubject, Subject

WIDTH = 8
CAUSAL = Claims(causal=True, relative=True)


@dataclass(frozen=True)
class Mutant:
    """`law` must reject what `broken` makes and accept what `sound` makes."""

    name: str
    law: str
    broken: Callable[[], Subject]
    sound: Callable[[], Subject]


def subject(kind: Callable[[], nn.Module], claims: Claims = CAUSAL) -> Callable[[], Subject]:
    """A subject from a class, with claims."""
    return lambda: ModuleSubject(kind, getattr(kind, "__name__", "layer"), claims)


class Sound(nn.Module):
    """Causal attention with rotary positions, a padding mask, and a step: nothing wrong with it."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        pairs = torch.arange(0, WIDTH, 2, device=x.device, dtype=torch.float64)
        angle = at[..., None] * 10000.0 ** -(pairs / WIDTH)
        c, s = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    def seen(self, T: int, like: Tensor) -> Tensor:
        return torch.ones(T, T, dtype=torch.bool, device=like.device).tril()

    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        scores = scores.masked_fill(~seen, float("-inf"))
        top = scores.amax(-1, keepdim=True).detach()
        p = torch.exp(scores - torch.where(top.isfinite(), top, 0.0))
        return p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        q, k = self.turn(self.query(x), at, "q"), self.turn(self.key(x), at, "k")
        seen = self.seen(x.shape[1], x) & valid[:, None, :]
        return self.weigh(q @ k.transpose(1, 2) / WIDTH**0.5, seen) @ self.value(x)

    def forward(self, x: Tensor, valid: Tensor | None = None, at: Tensor | None = None) -> Tensor:
        if valid is None:
            valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if at is None:
            at = (valid.long().cumsum(1) - 1).clamp(min=0)
        return self.mix(torch.where(valid[..., None], x, torch.zeros_like(x)), valid, at)

    def init_state(self, batch: int) -> tuple[Tensor, Tensor]:
        empty = self.query.weight.new_zeros(batch, 0, WIDTH)
        return empty, empty

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        at = torch.full((len(x),), state[0].shape[1], device=x.device)
        keys = torch.cat([state[0], self.turn(self.key(x), at, "k")[:, None]], 1)
        values = torch.cat([state[1], self.value(x)[:, None]], 1)
        return self.read(self.turn(self.query(x), at, "q"), keys, values), (keys, values)

    def read(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        p = torch.softmax((keys @ q[..., None]).squeeze(-1) / WIDTH**0.5, -1)
        return (p[:, None] @ values).squeeze(1)


class SeesOneAhead(Sound):
    def seen(self, T: int, like: Tensor) -> Tensor:
        return torch.ones(T, T, dtype=torch.bool).tril(1)


class BlockLeak(Sound):
    """The mean of its 64-token block comes back to every token of the block."""

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        y, n = super().mix(x, valid, at), x.shape[1] // 64 * 64
        means = x[:, :n].unflatten(1, (-1, 64)).mean(2, keepdim=True).expand(-1, -1, 64, -1).flatten(1, 2)
        return torch.cat([y[:, :n] + means, y[:, n:]], 1) if n else y


class BalancedLeak(Sound):
    """The next token comes back with weights +1 and -1, which sum to nothing."""

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        ahead = torch.cat([x[:, 1:, :1], torch.zeros_like(x[:, :1, :1])], 1)
        sign = torch.tensor([1.0, -1.0] + [0.0] * (WIDTH - 2), dtype=x.dtype)
        return super().mix(x, valid, at) + ahead * sign


class BatchMean(Sound):
    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        return super().mix(x - x.mean(0, keepdim=True), valid, at)


class _ForgetfulSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        p = torch.softmax(scores, -1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return ctx.saved_tensors[0] * g  # lacks - (p.g).sum


class WrongBackward(Sound):
    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        return _ForgetfulSoftmax.apply(scores.masked_fill(~seen, -1e9))


class NoMaximum(Sound):
    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        p = torch.exp(scores) * seen
        return p / p.sum(-1, keepdim=True)


class TurnsQueriesOnly(Sound):
    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        return super().turn(x, at, side) if side == "q" else x


class StepForgetsItself(Sound):
    """The step's normaliser lacks the current token."""

    def read(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        p = torch.exp((keys @ q[..., None]).squeeze(-1) / WIDTH**0.5)
        total = p[:, :-1].sum(-1, keepdim=True) if p.shape[1] > 1 else p
        return ((p / total)[:, None] @ values).squeeze(1)


class MaskIgnored(Sound):
    def forward(self, x: Tensor, valid: Tensor | None = None, at: Tensor | None = None) -> Tensor:
        return super().forward(x, None, at)


class PositiveFeatures:
    """exp(w.x - |x|^2/2) / sqrt(m), w normal: the mean of phi(q).phi(k) is exp(q.k)."""

    def __init__(self, key_dim: int = 4, seed: int = 0) -> None:
        self.w = torch.randn(16, key_dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def draw(self, key_dim: int, seed: int) -> PositiveFeatures:
        return type(self)(key_dim, seed)

    def phi(self, x: Tensor) -> Tensor:
        return torch.exp(x @ self.w.T - self.norm(x)) / 4.0

    def norm(self, x: Tensor) -> Tensor | float:
        return x.square().sum(-1, keepdim=True) / 2


class UnscaledFeatures(PositiveFeatures):
    """Without exp(-|x|^2/2)."""

    def norm(self, x: Tensor) -> Tensor | float:
        return 0.0


class LinearAttention(nn.Module):
    """elu + 1, normalised, causal, by running sums."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def phi(self, x: Tensor) -> Tensor:
        return nn.functional.elu(x) + 1

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.phi(self.query(x)), self.phi(self.key(x))
        return self.read(q, k, self.value(x))

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory = torch.einsum("btf,btv->btfv", k, v).cumsum(1)
        return torch.einsum("btf,btfv->btv", q, memory) / (q * k.cumsum(1)).sum(-1, keepdim=True)


class SecretlySquare(LinearAttention):
    """Called linear, and builds T x T weights."""

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        p = (q @ k.transpose(1, 2)).tril()
        return (p / p.sum(-1, keepdim=True)) @ v


def feature_subject(kind: Callable[[], Any]) -> Callable[[], Subject]:
    from threefold.laws.ours import FeatureSubject

    return lambda: FeatureSubject(kind(), name=getattr(kind, "__name__", "features"))


GROWS = Claims(causal=True, growth=1)
TWELVE: tuple[Mutant, ...] = (
    Mutant("sees one token ahead", "causal", subject(SeesOneAhead), subject(Sound)),
    Mutant("block leak", "causal", subject(BlockLeak), subject(Sound)),
    Mutant("leak with weights +1 and -1", "causal", subject(BalancedLeak), subject(Sound)),
    Mutant("batch mean subtracted", "batch", subject(BatchMean), subject(Sound)),
    Mutant("softmax backward without its sum", "gradient", subject(WrongBackward), subject(Sound)),
    Mutant("softmax without its maximum", "stability", subject(NoMaximum), subject(Sound)),
    Mutant("rotary on queries only", "shift", subject(TurnsQueriesOnly), subject(Sound)),
    Mutant("step forgets the current token", "forms", subject(StepForgetsItself), subject(Sound)),
    Mutant(
        "features without their norm", "features", feature_subject(UnscaledFeatures), feature_subject(PositiveFeatures)
    ),
    Mutant(
        "linear attention that is square", "growth", subject(SecretlySquare, GROWS), subject(LinearAttention, GROWS)
    ),
    Mutant("mask accepted and ignored", "padding", subject(MaskIgnored), subject(Sound)),
)
