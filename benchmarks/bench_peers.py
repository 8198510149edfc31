"""Beside other libraries' linear attention, where they can be installed. Run: python benchmarks/bench_peers.py

pip install --no-deps sata-attention; pip install --no-deps --no-build-isolation pytorch-fast-transformers;
pip install --no-deps taylor-series-linear-attention. A peer that is not here is recorded with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from threefold.bench import attention, suites
from threefold.bench.race import Race, Work, run
from threefold.specs.features import Elu1, Taylor

RESULT = Path(__file__).parent / "results" / "peers.json"
T = 1024


def sata() -> Work:
    """Packed symmetric Taylor terms of degree 0 to 2, causal, (B, H, T, D)."""
    from sata_attention import SymmetryAwareTaylorApproximatedAttention

    layer = SymmetryAwareTaylorApproximatedAttention(d_key=16, d_val=64, is_causal=True, n_taylor=3)
    given = [x.transpose(1, 2).contiguous() for x in attention.tensors(T, 16)]
    return attention.prepared(layer, given, train=False)


def fast_transformers() -> Work:
    """The causal product of elu+1 features, in C++, with its normaliser."""
    from fast_transformers.causal_product import causal_dot_product
    from torch.nn.functional import elu

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = elu(q) + 1, elu(k) + 1
        below = (q * k.cumsum(2)).sum(-1, keepdim=True)
        return causal_dot_product(q, k, v) / below

    given = [x.transpose(1, 2).contiguous() for x in attention.tensors(T, 64)]
    return attention.prepared(forward, given, train=False)


def taylor_series() -> Work:
    """A whole layer, both ways: its causal form needs another package's kernel."""
    from taylor_series_linear_attention import TaylorSeriesLinearAttn

    layer, x = TaylorSeriesLinearAttn(dim=512, dim_head=16, heads=8).eval(), torch.randn(1, T, 512)
    return attention.prepared(layer, [x], train=False)


def ours_both_ways() -> Work:
    """A whole layer of ours, both ways."""
    from threefold.specs.attention import Linear

    layer = Linear(features=Taylor(2), key_dim=16, value_dim=16, causal=False).build(512).eval()
    return attention.prepared(layer, [torch.randn(1, T, 512)], train=False)


PEERS: dict[str, tuple[str, Callable[[], Work], Callable[[], Work]]] = {
    "sata-attention": (
        f"Taylor 2 (key 16, value 64, 8 heads), causal, T={T}",
        lambda: attention.ours(T, 16, Taylor(2)),
        sata,
    ),
    "fast-transformers": (
        f"elu+1 (key 64, value 64, 8 heads), causal, T={T}",
        lambda: attention.ours(T, 64, Elu1()),
        fast_transformers,
    ),
    "taylor-series-linear-attention": (
        f"Taylor 2 layer (width 512, head 16, 8 heads), both ways, T={T}",
        ours_both_ways,
        taylor_series,
    ),
}


WHY = {  # what pip said where these were tried
    "sata-attention": "pip finds no distribution of this name on the package index.",
    "fast-transformers": "Its 0.4.0 is source only, wants torch and a compiler while it is built, and its setup stops "
    "without CUDA_HOME.",
}


def main() -> int:
    """Race whoever is here; say why another is not."""
    for spec in (attention.TAYLOR, attention.ELU1):
        if red := suites.broken(spec):
            sys.exit(f"{spec!r} breaks {red}: its time says nothing.")
    rows: list[dict[str, object]] = []
    for name, (work, ours, theirs) in PEERS.items():
        try:
            peer = theirs()
        except (ImportError, OSError) as error:
            reason = f"{error}. {WHY[name]}" if name in WHY else str(error)
            rows.append({"work": work, "against": name, "absent": reason})
            sys.stdout.write(f"{name} is not here: {reason}\n")
            continue
        row = run(Race(work=work, against=name, ours=ours(), theirs=peer)).to_dict()
        rows.append(row)
        sys.stdout.write(f"{row['ours']} {row['theirs']} {row['ratio']} {work} against {name}\n")
    suites.write(RESULT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
