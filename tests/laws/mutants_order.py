"""Mutants of the laws about order and neighbours: causal, padding, batch, permutation, shift."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.laws.mutants import CAUSAL, WIDTH, Mutant, Sound, subject
from threefold.laws import Claims

FUTURE = Claims(causal=False, permutes=True)
ORDERED = Claims(causal=False, permutes=False)


class FaintMask(Sound):
    """Hides the future behind -30 instead of minus infinity."""

    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        return torch.softmax(torch.where(seen, scores, scores - 30.0), -1)


class InvertedMask(Sound):
    """The triangle the wrong way round: tokens see the future and themselves."""

    def seen(self, T: int, like: Tensor) -> Tensor:
        return torch.ones(T, T, dtype=torch.bool).triu()


class NormsOverTime(Sound):
    """In train mode statistics are taken over batch and time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def mix(self, x: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        return super().mix(self.norm(x.transpose(1, 2)).transpose(1, 2), valid, at)


class Words(nn.Module):
    """Ids in: a running mean of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).cumsum(1)


class WordsAhead(Words):
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + self.table(ids.roll(-1, 1))


class Pool(nn.Module):
    """Each token gets the normalised sum of phi(k) v over all real tokens: attention without queries."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid
        x = torch.where(real[..., None], x, torch.zeros_like(x))
        k = torch.exp(torch.tanh(self.key(x)))
        return self.average(x, k, self.value(x), real[..., None])

    def average(self, x: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        k = k * real
        return x + (k * v).sum(1, keepdim=True) / k.sum(1, keepdim=True).clamp(min=1e-30)


class MaskOnValuesOnly(Pool):
    def average(self, x: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        return x + (k * (v * real)).sum(1, keepdim=True) / k.sum(1, keepdim=True)


class FeaturesOfNothing(Pool):
    """Zeroes the key before the map: phi(0) is 1, and counts."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid
        x = torch.where(real[..., None], x, torch.zeros_like(x))
        k = nn.functional.elu(self.key(x) * real[..., None]) + 1
        v = self.value(x) * real[..., None]
        return x + (k * v).sum(1, keepdim=True) / k.sum(1, keepdim=True)


class MaskByProduct(Pool):
    """0 times NaN is NaN."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2], dtype=torch.bool) if valid is None else valid
        x = x * real[..., None]
        return self.average(x, torch.exp(torch.tanh(self.key(x))), self.value(x), real[..., None])


class CountsPadding(Sound):
    """Positions by arange, absolute: padding on the left moves every real token."""

    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        absolute = torch.arange(x.shape[1], device=x.device)[None].expand(x.shape[:2])
        return x + super().turn(torch.ones_like(x), absolute, side)


class SharesScale(nn.Module):
    """One scale for the whole tensor, as quantisers do."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(self.map(x)).cumsum(1)

    def scaled(self, x: Tensor) -> Tensor:
        return x / x.abs().max()


class OwnScale(SharesScale):
    def scaled(self, x: Tensor) -> Tensor:
        return x / x.abs().amax(-1, keepdim=True)


class DividesByBatch(OwnScale):
    def scaled(self, x: Tensor) -> Tensor:
        return super().scaled(x) / len(x)


class Neighbours(OwnScale):
    def scaled(self, x: Tensor) -> Tensor:
        return super().scaled(x) + 1e-9 * x.roll(1, 0)


class Sums(nn.Module):
    """Outputs follow the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.map(x)) + x.sum(1, keepdim=True)


class SumsByPlace(Sums):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.arange(x.shape[1], device=x.device)[None, :, None] / 10)


class LooksLeft(Sums):
    """Meant for any order, and the last token weighs double."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x[:, -1:]


class HalfPrecisionAngles(Sound):
    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        angle = (at[..., None] * 10000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH)).to(torch.bfloat16).to(x.dtype)
        c, s, a, b = torch.cos(angle), torch.sin(angle), x[..., 0::2], x[..., 1::2]
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


class MixedLayouts(Sound):
    """Queries interleaved, keys in halves."""

    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        if side == "q":
            return super().turn(x, at, side)
        halves = torch.stack(x.chunk(2, -1), -1).flatten(-2)
        return torch.cat(super().turn(halves, at, side).unflatten(-1, (-1, 2)).unbind(-1), -1)


class IgnoresPositions(Sound):
    def turn(self, x: Tensor, at: Tensor, side: str) -> Tensor:
        return x


ORDER: tuple[Mutant, ...] = (
    Mutant("mask of -30", "causal", subject(FaintMask), subject(Sound)),
    Mutant("triangle inverted", "causal", subject(InvertedMask), subject(Sound)),
    Mutant("statistics over time in train mode", "causal", subject(NormsOverTime), subject(Sound)),
    Mutant("ids looked ahead", "causal", subject(WordsAhead, CAUSAL), subject(Words, CAUSAL)),
    Mutant("mask on values only", "padding", subject(MaskOnValuesOnly, FUTURE), subject(Pool, FUTURE)),
    Mutant("phi(0) counted as padding", "padding", subject(FeaturesOfNothing, FUTURE), subject(Pool, FUTURE)),
    Mutant("mask by product", "padding", subject(MaskByProduct, FUTURE), subject(Pool, FUTURE)),
    Mutant("positions count padding", "padding", subject(CountsPadding), subject(Sound)),
    Mutant("one scale for the tensor", "batch", subject(SharesScale), subject(OwnScale)),
    Mutant("divided by the batch", "batch", subject(DividesByBatch), subject(OwnScale)),
    Mutant("a billionth of the neighbour", "batch", subject(Neighbours), subject(OwnScale)),
    Mutant("positions where none are declared", "permutation", subject(SumsByPlace, FUTURE), subject(Sums, FUTURE)),
    Mutant("the last token weighs double", "permutation", subject(LooksLeft, FUTURE), subject(Sums, FUTURE)),
    Mutant("order declared and not felt", "permutation", subject(Sums, ORDERED), subject(SumsByPlace, ORDERED)),
    Mutant("rotary angles in bfloat16", "shift", subject(HalfPrecisionAngles), subject(Sound)),
    Mutant("two rotary layouts", "shift", subject(MixedLayouts), subject(Sound)),
    Mutant("positions ignored", "shift", subject(IgnoresPositions), subject(Sound)),
)
