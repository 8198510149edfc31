"""Recurrent mixers beside torch's own modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from threefold.bench.race import Race, Work
from threefold.specs.base import MixerSpec
from threefold.specs.recurrent import GRU, LSTM

SIZES = ((1, 256, 64), (32, 128, 128), (32, 256, 256))  # B, T, width
FASTER = (8.0, 2.5, 1.6)


def learning(module: nn.Module, B: int, T: int, width: int, valid: Tensor | None = None) -> Work:
    """Forward and backward: gradients of the input and of every weight."""
    x = torch.randn(B, T, width, generator=torch.Generator().manual_seed(0)).requires_grad_()
    leaves = [x, *module.parameters()]
    up = torch.ones(B, T, width)

    def work() -> None:
        y = module(x) if valid is None else module(x, valid)
        torch.autograd.grad(y[0] if isinstance(y, tuple) else y, leaves, up)

    return work


def ours(spec: MixerSpec, B: int, T: int, width: int, *, padded: str = "") -> Work:
    """A mixer; half of the tokens may be padding, by one of `PADDED`."""
    return learning(spec.build(width), B, T, width, PADDED[padded](B, T) if padded else None)


def _ends(B: int, T: int) -> Tensor:
    return (torch.arange(T) < T // 2).expand(B, T).contiguous()


def _rows(B: int, T: int) -> Tensor:
    return (torch.arange(B) < B // 2)[:, None].expand(B, T).contiguous()


PADDED: dict[str, Callable[[int, int], Tensor]] = {"half of each row": _ends, "half of the rows": _rows}


def races() -> Iterator[Race]:
    """What this library promises of recurrences."""
    for (B, T, n), wanted in zip(SIZES, FASTER, strict=True):
        size = f"forward and backward, B={B} T={T} width {n}"
        gru, lstm = GRU(), LSTM()
        torchs = nn.GRU(n, n, batch_first=True), nn.LSTM(n, n, batch_first=True)
        yield Race(
            work=f"GRU, {size}",
            against="torch nn.GRU",
            ours=ours(gru, B, T, n),
            theirs=learning(torchs[0], B, T, n),
            wanted=wanted,
            spec=gru,
        )
        yield Race(
            work=f"GRU, {size}",
            against="our LSTM",
            ours=ours(gru, B, T, n),
            theirs=ours(lstm, B, T, n),
            wanted=0.9,
            at_most=True,
            spec=gru,
        )
        yield Race(
            work=f"LSTM, {size}",
            against="torch nn.LSTM",
            ours=ours(lstm, B, T, n),
            theirs=learning(torchs[1], B, T, n),
            wanted=1.05,
            at_most=True,
            spec=lstm,
        )
        for padded in PADDED if B > 1 else ("half of each row",):
            yield Race(
                work=f"LSTM, {padded} padded, {size}",
                against="the same without padding",
                ours=ours(lstm, B, T, n, padded=padded),
                theirs=ours(lstm, B, T, n),
                wanted=1.3,
                at_most=True,
                spec=lstm,
            )
