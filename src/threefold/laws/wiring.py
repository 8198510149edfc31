"""How to call a module that nobody here wrote: read off its signature and attributes, tried before it is believed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from threefold.errors import InputError

REAL = ("valid", "attention_mask", "mask", "input_mask")  # True is a real token
HIDDEN = ("key_padding_mask", "src_key_padding_mask", "padding_mask", "pad_mask")  # True is padding
PAIRS = ("attn_mask", "src_mask")  # (T, T), added to the scores
STATES = ("state", "hx", "h0", "hidden", "cache", "past", "past_key_values")
PLACES = ("at", "positions", "position_ids")
WIDTHS = ("width", "input_size", "embed_dim", "d_model", "dim", "hidden_size", "n_embd", "model_dim", "in_features")
COMMON = (16, 64)  # block sizes that a layer may have without saying so
BLOCKS = ("chunk", "block", "window", "segment", "bucket")


@dataclass(frozen=True)
class Wiring:
    """Which argument is what."""

    xs: tuple[str, ...] = ("x",)  # every one of these is given the sequence
    mask: str = ""
    always: bool = False  # the mask is required
    real: bool = True  # polarity of the mask
    pairs: str = ""  # where a causal mask goes, when the subject is declared causal and needs one
    state: str = ""
    place: str = ""
    time_first: bool = False
    steps: bool = False  # has step(x_t, state)
    said: tuple[str, ...] = field(default=())

    def saying(self, sentence: str) -> Wiring:
        """The wiring, and a sentence that tells of a change to it."""
        return replace(self, said=(*self.said, sentence))


def read(module: nn.Module) -> Wiring:
    """The wiring that names suggest."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not named:
        raise InputError(
            f"{type(module).__name__}.forward takes no input by name: give one whose forward takes the sequence first."
        )
    required = [p.name for p in parameters if p.default is p.empty and p.name in named]
    xs = tuple(name for name in required if name in ("query", "key", "value", "q", "k", "v")) or (named[0],)
    mask = next((name for name in (*HIDDEN, *REAL) if name in named), "")
    if stray := [name for name in required if name not in (*xs, mask)]:
        raise InputError(
            f"{type(module).__name__}.forward needs {', '.join(stray)} as well as {xs[0]}: "
            "wrap it in a function or a module that takes the sequence alone."
        )

    def first(names: tuple[str, ...]) -> str:
        return next((name for name in names if name in named), "")

    flags = [part.batch_first for part in module.modules() if isinstance(getattr(part, "batch_first", None), bool)]
    wiring = Wiring(
        xs=xs,
        mask=mask,
        always=mask in required,
        real=mask not in HIDDEN,
        state=first(STATES),
        place=first(PLACES),
        steps=callable(getattr(module, "step", None)),
    )
    if flags and not flags[0]:
        wiring = replace(wiring.saying("batch_first is False: time is the first axis"), time_first=True)
    return wiring


def width_of(module: nn.Module) -> list[int]:
    """Widths worth trying, most telling first."""
    found = [
        getattr(part, name)
        for part in module.modules()
        for name in WIDTHS
        if isinstance(getattr(part, name, None), int)
    ]
    norms = [part.normalized_shape[-1] for part in module.modules() if isinstance(part, nn.LayerNorm)]
    sizes = [parameter.shape[-1] for parameter in module.parameters() if parameter.ndim]
    return list(dict.fromkeys([*found, *norms, *sizes, 8]))


def vocabulary_of(module: nn.Module) -> int | None:
    """The size of the first embedding, which may be the input."""
    return next((part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)), None)


def blocks_of(module: nn.Module) -> tuple[int, ...]:
    """Sizes at which the module may change its ways: its own attributes, and those in common use."""
    found = {
        value
        for part in module.modules()
        for name, value in vars(part).items()
        if isinstance(value, int) and not isinstance(value, bool) and any(word in name.lower() for word in BLOCKS)
    }
    return tuple(sorted(set(COMMON) | {size for size in found if 2 <= size <= 256}))


def sequence_of(output: Any, batch: int, T: int, time_first: bool) -> tuple[Tensor, bool]:
    """(the output with batch first, whether it has a time axis) out of whatever a forward returned."""
    found = [_real(tensor) for tensor in _tensors(output)]
    want = (T, batch) if time_first else (batch, T)
    for tensor in found:
        if tensor.ndim >= 2 and tuple(tensor.shape[:2]) == want:
            return (tensor.transpose(0, 1) if time_first else tensor), True
    for tensor in found:
        if tensor.ndim >= 1 and tensor.shape[0] == batch:
            return tensor, False
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in found) or "no tensor"
    raise InputError(f"no output has the axes batch {batch} and time {T}: the layer gave {shapes}.")


def _real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of reals: a law compares both."""
    return torch.view_as_real(tensor).flatten(-2) if tensor.is_complex() else tensor


def _tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        return [tensor for value in output.values() for tensor in _tensors(value)]
    if isinstance(output, (tuple, list)):
        return [tensor for value in output for tensor in _tensors(value)]
    return []


def named_tensors(state: Any, name: str = "") -> dict[str, Tensor]:
    """A state's tensors by path, through tuples, lists, dictionaries and objects with attributes."""
    if isinstance(state, Tensor):
        return {name or "state": state}
    if isinstance(state, dict):
        items = [(str(key), value) for key, value in state.items()]
    elif isinstance(state, tuple) and hasattr(state, "_fields"):
        items = list(zip(state._fields, state, strict=True))
    elif isinstance(state, (tuple, list)):
        items = [(str(i), value) for i, value in enumerate(state)]
    elif hasattr(state, "__dict__"):
        items = list(vars(state).items())
    else:
        return {}
    found: dict[str, Tensor] = {}
    for key, value in items:
        found |= named_tensors(value, f"{name}.{key}" if name else key)
    return found


def causal_pairs(T: int, like: Tensor) -> Tensor:
    """(T, T): 0 where a query may look, minus infinity where it may not."""
    return torch.full((T, T), float("-inf"), dtype=like.dtype, device=like.device).triu(1)


def scores_like(module: nn.Module, x: Tensor) -> Tensor:
    """A number of the kind that the module computes scores in."""
    return x if x.is_floating_point() else next(module.parameters())


class Narrowest(TorchDispatchMode):
    """Watches for floats narrower than float64, made inside a computation that was given none."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype = torch.float64

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            if (
                tensor.is_floating_point()
                and torch.finfo(tensor.dtype).eps > torch.finfo(self.dtype).eps
                and tensor.ndim
            ):
                self.dtype = tensor.dtype
        return out
