"""Count what a module does by watching every op that it dispatches. Nothing is guessed: what has no rule is named.

`count(module, x)` runs the module once, where its tensors are. On the meta device nothing is computed or allocated, so
the largest model can be counted; on the CPU the CPU's own kernels are seen. Both give the same FLOPs of contractions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from threefold.plan.backend import attention
from threefold.plan.conventions import Scores
from threefold.plan.formulas import Kind, classify, op_name


@dataclass
class Count:
    """What was seen. FLOPs are 2 for each multiply-add of a contraction; bytes are of storages, each once."""

    forward: int = 0
    backward: int = 0
    saved: int = 0  # kept by autograd for the backward pass; parameters and buffers excluded
    temporary: int = 0  # the largest tensor that forward made
    params: int = 0  # each parameter once, however often it is used
    rows: dict[str, int] = field(default_factory=dict)  # forward FLOPs by module path, children included
    ops: dict[Kind, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in Kind})
    flops: Counter[str] = field(default_factory=Counter)  # by op, forward and backward

    @property
    def unknown(self) -> tuple[str, ...]:
        """Ops that have no rule; with any, every FLOP total is "at least"."""
        return tuple(sorted(self.ops[Kind.UNKNOWN]))

    @property
    def says(self) -> str:
        """The verdict on completeness, in words."""
        return f"at least, uncounted ops: {', '.join(self.unknown)}" if self.unknown else "uncounted ops: none"


class _Watch(TorchDispatchMode):
    """Adds each op to the count as it runs."""

    def __init__(self, seen: Count, given: list[Any]) -> None:
        super().__init__()
        self.given = {leaf.untyped_storage()._cdata for leaf in given if isinstance(leaf, Tensor)}
        self.seen = seen
        self.path: list[str] = []
        self.backward = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        kind, flops = classify(func, _positional(func, args, kwargs), out)
        self.seen.ops[kind][op_name(func)] += 1
        if flops:
            self.seen.flops[op_name(func)] += flops
        if self.backward:
            self.seen.backward += flops
            return out
        self.seen.forward += flops
        for path in set(self.path):
            self.seen.rows[path] += flops
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in self.given:
                self.seen.temporary = max(self.seen.temporary, leaf.untyped_storage().nbytes())
        return out


def _positional(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[Any, ...]:
    """Arguments in the order of the schema, so that a formula need not care how the op was called."""
    if not kwargs:
        return args
    rest = func._schema.arguments[len(args) :]
    return (*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest))


def count(
    model: nn.Module | Callable[..., Any],
    *inputs: Any,
    backward: bool = True,
    outputs: Callable[[Any], Any] = lambda y: y,
    scores: Scores | None = None,
) -> Count:
    """Run `model(*inputs)` once and count it; then the gradient of every output that has one.

    Backward is counted when anything requires a gradient and gradients are enabled. `outputs` picks what is
    differentiated; `scores` names the attention backend (None: the device's own choice). The model's mode, its
    parameters' gradients and all global settings stay as they were.
    """
    modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {}
    owned = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    seen = Count(params=parameters(model) if isinstance(model, nn.Module) else 0, rows=dict.fromkeys(modules, 0))
    watch = _Watch(seen, [*owned, *tree_leaves(inputs)])
    with ExitStack() as stack:
        for path, module in modules.items():
            stack.enter_context(_named(watch, path, module))
        saved = stack.enter_context(saved_bytes(owned))
        stack.enter_context(attention(scores))
        stack.enter_context(watch)
        result = outputs(model(*inputs))
        seen.saved = sum(saved.values())
        watch.backward = True
        if backward and torch.is_grad_enabled():
            _differentiate(result, [*owned, *tree_leaves(inputs)])
    return seen


def _differentiate(result: Any, sources: list[Any]) -> None:
    """Run the backward pass of every differentiable output at once, leaving every gradient as it was."""
    ends = [y for y in tree_leaves(result) if isinstance(y, Tensor) and y.requires_grad]
    given = [x for x in sources if isinstance(x, Tensor) and x.requires_grad and x.is_leaf]
    wanted = dict.fromkeys([*given, *_leaves(ends)])
    before = {x: x.grad for x in wanted}
    try:
        for x in wanted:
            x.grad = None
        if ends:
            torch.autograd.backward(ends, [torch.ones_like(y) for y in ends])
    finally:
        for x, gradient in before.items():
            x.grad = gradient


def _leaves(ends: list[Tensor]) -> list[Tensor]:
    """The tensors at which the graph of a result ends: a function's weights need not be named to be counted."""
    found: list[Tensor] = []
    waiting, seen = [y.grad_fn for y in ends], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(variable := getattr(node, "variable", None), Tensor):
            found.append(variable)
        waiting += [below for below, _ in node.next_functions]
    return found


@contextmanager
def _named(watch: _Watch, path: str, module: nn.Module) -> Iterator[None]:
    """While the module runs, its path is on the watch's stack, whatever happens inside."""
    enter = module.register_forward_pre_hook(lambda *_: watch.path.append(path))
    leave = module.register_forward_hook(lambda *_: _left(watch), always_call=True)
    try:
        yield
    finally:
        enter.remove()
        leave.remove()


def _left(watch: _Watch) -> None:
    watch.path.pop()


@contextmanager
def saved_bytes(excluded: list[Tensor]) -> Iterator[dict[int, int]]:
    """Bytes of each storage that autograd saves meanwhile, by storage. Storages of `excluded` do not count."""
    own = {tensor.untyped_storage()._cdata for tensor in excluded}
    found: dict[int, int] = {}
    alive = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            found[storage._cdata] = storage.nbytes()
            alive.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield found


def parameters(module: nn.Module) -> int:
    """Numbers to learn, each storage once: tied and aliased weights count once."""
    places = {(p.untyped_storage()._cdata, p.storage_offset(), p.shape): p.numel() for p in module.parameters()}
    return sum(places.values())


def state_bytes(state: tuple) -> int:
    """Bytes of a mixer's state as it means (not the room that it keeps to grow)."""
    from threefold.ops.scan import leaves

    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(state).values())
