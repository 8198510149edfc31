"""Modules of a user: what `threefold plan file.py:Module` is tried on."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Tagger(nn.Module):
    """Ids to logits, with a mask: two inputs, a tied matrix."""

    def __init__(self, vocab: int = 50, width: int = 16) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, bidirectional=True, proj_size=8, batch_first=True)
        self.out = nn.Linear(width, vocab, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        return self.out(self.rnn(self.table(ids))[0] * keep[..., None])


class Blocks(nn.Module):
    """Sums over blocks of 16: a polynomial at multiples of 16 only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        short = -x.shape[1] % 16
        blocks = functional.pad(x, (0, 0, 0, short)).unflatten(1, (-1, 16))
        return self.inner(blocks @ blocks.transpose(-1, -2) @ blocks)


class Wide(Blocks):
    """Blocks of 64, and positions made where torch makes things by default."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.arange(x.shape[1])[:, None]
        blocks = functional.pad(x, (0, 0, 0, -x.shape[1] % 64)).unflatten(1, (-1, 64))
        return self.inner(blocks @ blocks.transpose(-1, -2) @ blocks)


class Reader(nn.Module):
    """Reads a memory: two lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.read(x, memory, memory, need_weights=False)[0]


class Twice(nn.Module):
    """Made again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda y: self.inner(y).relu(), x, use_reentrant=False)


class Odd(nn.Module):
    """Uses an op without a rule."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv_ex(x @ x.transpose(-1, -2))[0]


def scores(q: Tensor, k: Tensor) -> Tensor:
    """A function, not a module."""
    return torch.einsum("bth,bsh->bts", q, k).softmax(-1)


def broken(width: int) -> nn.Module:
    """A factory that fails."""
    raise RuntimeError(f"no layer of width {width}")


class Looks(nn.Module):
    """Takes another way where its numbers say so: only a run with numbers can be counted."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) if float(x.sum()) < 1 else x


class Again(nn.Module):
    """Recomputed the old way, which only a full backward pass can run."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=True)


class Adapted(nn.Module):
    """A frozen layer, and a small one that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.learned = nn.Linear(8, 8, bias=False).requires_grad_(False), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.learned(self.given(x).relu())
