"""What was expected beside what came, and by how much they differ against which limit."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor


@dataclass(frozen=True)
class Finding:
    """The worst entry of one comparison."""

    what: str
    error: float
    limit: float
    index: tuple[int, ...]
    expected: float
    got: float
    at: int | None = None
    remark: str = ""

    @property
    def broken(self) -> bool:
        return not self.error <= self.limit

    @property
    def strain(self) -> float:
        """How near the limit: above 1 is broken."""
        return self.error / self.limit if self.limit else (inf if self.error else 0.0)

    def place(self) -> str:
        """`y[0,3,1]`."""
        return f"{self.what}[{','.join(map(str, self.index))}]" if self.index else self.what


@dataclass(frozen=True)
class Comparison:
    """`got` should equal `expected` within `limit`, relative to the largest expected entry. Limit 0: to the bit."""

    what: str
    expected: Tensor
    got: Tensor
    limit: float = 0.0
    at: int | None = None  # the disturbed position that this comparison speaks of
    remark: str = ""  # what a failure here means, in words
    floor: float = 0.0  # sizes below this one are not to be told from 0

    def finding(self) -> Finding:
        """The worst entry. NaN where a number was expected is an infinite error."""
        if self.expected.shape != self.got.shape:
            remark = f"shape {tuple(self.got.shape)} came where {tuple(self.expected.shape)} was expected"
            return Finding(self.what, inf, self.limit, (), 0.0, 0.0, self.at, remark)
        if not self.expected.numel():
            return Finding(self.what, 0.0, self.limit, (), 0.0, 0.0, self.at)
        expected, got = _wide(self.expected), _wide(self.got)
        difference = (got - expected).abs()
        same = (got == expected) | (got.isnan() & expected.isnan())
        difference = torch.where(same, torch.zeros_like(difference), difference.nan_to_num(nan=inf, posinf=inf))
        finite = expected[expected.isfinite()].abs()
        size = max(float(finite.max()) if finite.numel() else 0.0, self.floor)
        flat = int(difference.argmax())
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), difference.shape))
        worst = float(difference.flatten()[flat])
        return Finding(
            self.what,
            worst / size if size else worst,
            self.limit,
            index,
            float(expected[index]),
            float(got[index]),
            self.at,
            self.remark,
        )


def fact(what: str, expected: float, got: float, remark: str = "") -> Comparison:
    """Two exact numbers: a count, a number of bytes, a flag."""
    wide = torch.float64
    return Comparison(
        what, torch.tensor(float(expected), dtype=wide), torch.tensor(float(got), dtype=wide), 0.0, remark=remark
    )


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    return x.abs().to(torch.float64) if x.is_complex() else x.to(torch.float64)
