"""Linear attention beside softmax attention and beside itself in plain torch, over lengths."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from threefold.bench.race import Race, Work
from threefold.mixers.linear import FORMS
from threefold.ops import linear
from threefold.specs.attention import Linear
from threefold.specs.base import Form
from threefold.specs.features import Elu1, FeatureMap, Taylor

HEADS, VALUES, SOFTMAX_KEYS = 8, 64, 64
TAYLOR = Linear(heads=2, key_dim=4, features=Taylor(2))  # as the laws judge it
ELU1 = Linear(heads=2, key_dim=4, features=Elu1())


def tensors(T: int, K: int, V: int = VALUES, heads: int = HEADS) -> list[Tensor]:
    """q, k, v of one row, (1, T, H, ...), float32."""
    draw = torch.Generator().manual_seed(0)
    return [0.5 * torch.randn(1, T, heads, size, generator=draw) for size in (K, K, V)]


def ours(T: int, K: int, features: FeatureMap, *, train: bool = False, native: bool = True) -> Work:
    """Causal linear attention through the op that mixers call (or its torch form)."""
    form = FORMS[Form.CHUNKED] if native else inspect.unwrap(linear.chunked)

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        start = linear.empty(1, HEADS, features.dim(K), VALUES, normalised=True, like=q)
        y, _ = form(q, k, v, start, features=features)
        return y

    return prepared(forward, tensors(T, K), train)


def softmax(T: int, *, train: bool = False) -> Work:
    """torch's own causal attention, heads first as it wants them."""
    given = [x.transpose(1, 2).contiguous() for x in tensors(T, SOFTMAX_KEYS)]
    return prepared(partial(scaled_dot_product_attention, is_causal=True), given, train)


def prepared(forward: Callable[..., Tensor], given: list[Tensor], train: bool) -> Work:
    """The work with its inputs in place; with `train`, gradients of the inputs too."""
    if not train:

        def infer() -> None:
            with torch.no_grad():
                forward(*given)

        return infer
    leaves = [x.requires_grad_() for x in given]
    up = torch.ones_like(forward(*leaves))

    def learn() -> None:
        torch.autograd.grad(forward(*leaves), leaves, up)

    return learn


def flops(T: int, K: int, features: FeatureMap) -> float:
    """Useful arithmetic: reading the state and adding to it, a multiply-add each per feature and value."""
    return 4.0 * T * HEADS * features.dim(K) * (VALUES + 1)


def races() -> Iterator[Race]:
    """What this library promises of attention."""
    taylor, name, theirs = Taylor(2), "Taylor 2 (key 16, value 64, 8 heads)", "torch SDPA, causal, head 64"
    for T, wanted in ((256, 3.0), (1024, 10.0), (8192, 45.0)):
        yield Race(
            work=f"{name}, forward, T={T}",
            against=theirs,
            ours=ours(T, 16, taylor),
            theirs=softmax(T),
            wanted=wanted,
            spec=TAYLOR,
        )
    for T, wanted in ((256, 2.0), (8192, 25.0)):
        yield Race(
            work=f"{name}, forward and backward, T={T}",
            against=theirs,
            ours=ours(T, 16, taylor, train=True),
            theirs=softmax(T, train=True),
            wanted=wanted,
            spec=TAYLOR,
        )
    yield Race(
        work="elu+1 (key 64, value 64, 8 heads), forward, T=8192",
        against=theirs,
        ours=ours(8192, 64, Elu1()),
        theirs=softmax(8192),
        wanted=50.0,
        spec=ELU1,
    )
    yield from _rates(taylor, name)
    yield Race(
        work=f"{name}, forward and backward, T=8192",
        against="the same in chunked torch",
        ours=ours(8192, 16, taylor, train=True),
        theirs=ours(8192, 16, taylor, train=True, native=False),
        wanted=4.0,
        spec=TAYLOR,
    )


def _rates(features: FeatureMap, name: str) -> Iterator[Race]:
    """Useful GFLOP/s against a matrix product's, and of a long sequence against a shorter one's."""
    a = torch.randn(2048, 2048)
    for T in (2048, 8192):
        yield Race(
            work=f"{name}, forward, useful rate, T={T}",
            against="torch float32 matrix product, 2048",
            ours=ours(T, 16, features),
            theirs=lambda: a @ a,
            flops=(flops(T, 16, features), 2.0 * 2048**3),
            wanted=1.5,
            spec=TAYLOR,
        )
    yield Race(
        work=f"{name}, forward, useful rate, T=65536",
        against="the same, T=4096",
        ours=ours(65536, 16, features),
        theirs=ours(4096, 16, features),
        flops=(flops(65536, 16, features), flops(4096, 16, features)),
        wanted=0.8,
        spec=TAYLOR,
    )
