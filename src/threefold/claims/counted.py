"""Counting for statements about growth: FLOPs of a function, and the longest chain of dependent steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from threefold.plan.count import count


def flops(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Forward FLOPs of contractions, 2 per multiply-add, counted op by op on the meta device."""
    return count(f, *(x.to("meta") for x in inputs), backward=False).forward


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """d log value / d log length between the first and the last length."""
    return (log(values[-1]) - log(values[0])) / (log(lengths[-1]) - log(lengths[0]))


def empty(*shape: int) -> Tensor:
    """A tensor without numbers, for counting."""
    return torch.empty(*shape, device="meta")


def depth(y: Tensor) -> int:
    """Nodes on the longest path of the autograd graph behind y: steps that cannot run at the same time."""
    deepest: dict[Any, int] = {}
    stack: list[Any] = [y.grad_fn]
    while stack:
        node = stack[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        missing = [parent for parent in before if parent not in deepest]
        if missing:
            stack += missing
            continue
        deepest[node] = 1 + max((deepest[parent] for parent in before), default=0)
        stack.pop()
    return deepest[y.grad_fn]


class _Arithmetic(TorchDispatchMode):
    """Adds up real additions, subtractions and multiplications. A complex product is four products and two sums."""

    def __init__(self) -> None:
        super().__init__()
        self.made: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in ("add", "sub", "mul") and isinstance(out, Tensor):
            kind, complexes = "mul" if name == "mul" else "add", out.numel() * out.is_complex()
            self.made[kind] += out.numel() * out.is_floating_point() + (4 if kind == "mul" else 2) * complexes
            self.made["add"] += 2 * complexes * (kind == "mul")
        return out


def additions(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Numbers made by additions and subtractions."""
    with _Arithmetic() as seen, torch.no_grad():
        f(*inputs)
    return seen.made["add"]


def arithmetic(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Element-wise additions, subtractions and multiplications."""
    with _Arithmetic() as seen, torch.no_grad():
        f(*inputs)
    return seen.made.total()
