"""Derivations to be graded: the library's own for every cell, any of them with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from threefold.laws.derivation import Backward, Signals
from threefold.laws.equations import CELLS, Named
from threefold.ops.cells import Cell, Weights
from threefold.ops.recurrence import derivation

Change = Callable[[Named, Signals], Named]


def stacked(like: str, s: Signals) -> Weights:
    """The weights of the equations as the library stacks them."""
    cell, n = CELLS[like], len(s[f"{CELLS[like].parts[0]}0"])
    if like == "gru-after":
        x = torch.cat([s.W_r[:, n:], s.W_u[:, n:], s.W_cx])
        h = torch.cat([s.W_r[:, :n], s.W_u[:, :n], s.W_ch])
        return Weights(x, h, torch.cat([s.b_r, s.b_u, s.b_c])[:, 0], s.b_h[:, 0])
    x, h = (torch.cat([s[f"W_{g}"][:, part] for g in cell.gates]) for part in (slice(n, None), slice(n)))
    return Weights(x, h, torch.cat([s[f"b_{g}"] for g in cell.gates])[:, 0])


def of_cell(like: str, cell: Cell, change: Change = lambda d, s: d) -> Backward:
    """A backward by a cell's closed form; `change` may spoil what it returns."""

    def backward(s: Signals) -> dict[str, Any]:
        written = CELLS[like]
        said = written.parts[0]
        dz = s.y_hat - s.y
        out = s.W_y.T @ dz
        upstream = (out.permute(2, 0, 1), *(torch.zeros_like(out.permute(2, 0, 1)) for _ in written.parts[1:]))
        start = tuple(s[f"{part}0"].T for part in written.parts)
        named, back = derivation(cell, s.x.permute(2, 0, 1), start, stacked(like, s), upstream)
        d: dict[str, Tensor] = {k: v.permute(1, 2, 0) for k, v in named.items() if k.startswith("d")}
        d |= {f"d{name}": value for name, value in written.unpacked(back.weights).items()}
        d |= {f"d{part}0": value.T for part, value in zip(written.parts, back.state, strict=True)}
        d |= {"dz": dz, f"d{said}_out": out, "dW_y": torch.einsum("tym,tam->ya", dz, s[said]), "db_y": dz.sum((0, 2))}
        return change(d, s)

    return backward
