"""The reference: a sequence is a step, repeated. Every other form is judged by this one.

States are NamedTuples of tensors whose first axis is the batch (and, rarely, of plain values). They are passed in
and out and never changed: a state that was kept can be continued again, and gives the same.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

S = TypeVar("S", bound=tuple)
Step = Callable[[Tensor, S, Tensor | None], tuple[Tensor, S]]


def scan(
    step: Step[S],
    xs: Float[Tensor, "b t d"],
    state: S,
    *,
    valid: Bool[Tensor, "b t"] | None = None,
) -> tuple[Float[Tensor, "b t e"], S]:
    """y_t, s_t = step(x_t, s_{t-1}) for t = 1..T; y has the width of x when T is 0."""
    masks = [None] * xs.shape[1] if valid is None else valid.unbind(1)
    ys = []
    for x, mask in zip(xs.unbind(1), masks, strict=True):
        y, state = step(x, state, mask)
        ys.append(y)
    return (torch.stack(ys, 1) if ys else xs), state


def map_state(f: Callable[[Tensor], Tensor], state: S) -> S:
    """The state with `f` applied to each of its tensors: move it, detach it, select rows of it."""
    mapped = [
        f(leaf) if isinstance(leaf, Tensor) else map_state(f, leaf) if isinstance(leaf, tuple) else leaf
        for leaf in state
    ]
    return type(state)(*mapped) if hasattr(state, "_fields") else type(state)(mapped)


def leaves(state: tuple) -> dict[str, Tensor]:
    """The state's tensors by name, in canonical form: equal states give equal leaves.

    A state that stores more than it means (a cache with room to grow) has a `canonical` method that drops the rest.
    """
    canonical = state.canonical() if hasattr(state, "canonical") else state
    names = getattr(canonical, "_fields", range(len(canonical)))
    found: dict[str, Tensor] = {}
    for name, leaf in zip(names, canonical, strict=True):
        if isinstance(leaf, Tensor):
            found[str(name)] = leaf
        elif isinstance(leaf, tuple):
            found |= {f"{name}.{inner}": tensor for inner, tensor in leaves(leaf).items()}
    return found


def transformed() -> bool:
    """Whether torch.func or forward-mode derivatives are at work: only plain operations are followed."""
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def cleared(x: Float[Tensor, "b t *d"], valid: Bool[Tensor, "b t"] | None) -> Float[Tensor, "b t *d"]:
    """x with invalid tokens set to 0. A selection, not a product: NaN times 0 is NaN."""
    if valid is None:
        return x
    return torch.where(
        valid.reshape(valid.shape + (1,) * (x.ndim - 2)), x, torch.zeros((), dtype=x.dtype, device=x.device)
    )


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype of running sums for inputs of this dtype: float32 or wider (a bfloat16 sum of ones stops at 256)."""
    return torch.float64 if dtype == torch.float64 else torch.float32
