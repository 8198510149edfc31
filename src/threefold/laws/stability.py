"""Narrow floats beside float64: finite, and as near as dtype, length and scale allow, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import BITS, conditioned, rounded

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SCALES = (1.0, 10.0, 100.0)


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map is judged in float64")
    if subject.spec is not None and signed(subject):
        return does_not_apply(
            "a signed feature map with a normaliser may divide by nearly nothing: it has no bound to keep"
        )
    return None


def signed(subject: Subject) -> bool:
    """Normalised by sums that may vanish."""
    from threefold.specs.features import Sign

    return (
        subject.features is not None
        and subject.features.sign is Sign.SIGNED
        and getattr(subject.spec, "normalised", False)
    )


def witness(subject: Subject) -> str | Absent:
    """Narrow floats do differ here."""
    narrow, wide, x = _pair(subject, torch.float32, Case(T=9))
    with torch.no_grad():
        gap = _rms([subject.run(x, module=narrow)], [subject.run(_widened(x), module=wide)])
    return f"float32 differs from float64 by {gap:.1e}"


def cases(subject: Subject) -> Iterator[Case]:
    scales = SCALES[:1] if subject.vocabulary else SCALES
    for name in DTYPES:
        for scale in scales:
            yield from (Case(T=T, B=1, scale=scale, how=name) for T in (1, 3, 33, 257))
    yield Case(T=1500, B=1, how="bfloat16 long")


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    name, _, long = case.how.partition(" ")
    dtype = DTYPES[name]
    narrow, wide, x = _pair(subject, dtype, case)
    z = _widened(x)
    limit = rounded(dtype, case.T, case.scale)
    if long:
        with torch.no_grad():
            y, truth = subject.run(x, module=narrow), subject.run(z, module=wide)
        yield from _finite("y", y, truth)
        yield from _near("y", [y], [truth], limit, lambda: 0.0)
        return
    y, got = _taught(subject, narrow, x)
    truth, expected = _taught(subject, wide, z)
    yield from _finite("y", y, truth)
    for label, grad in expected.items():
        yield from _finite(f"d {label}", got[label], grad)

    def steepness() -> tuple[float, float]:
        """What one rounding of inputs and weights does to the outputs and to the gradient."""
        near, moved = _taught(subject, _jittered(wide, dtype), _jitter(z, dtype))
        return _rms([near], [truth]), _rms(moved.values(), expected.values(), size)

    size = 0.0
    if case.scale > 1:  # saturated, a gradient fades: its error matters beside the gradient before saturation
        size = _size(_taught(subject, wide, z / case.scale)[1].values())
    yield from _near("y", [y], [truth], limit, lambda: steepness()[0])
    if expected:
        yield from _near("the gradient", got.values(), expected.values(), 4 * limit, lambda: steepness()[1], size)


def _taught(subject: Subject, module: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs, and by name the gradients of one weighted sum of them."""
    held: dict[str, Tensor] = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not subject.vocabulary:
        x = x.detach().requires_grad_()
        held = {"x": x, **held}
    y = subject.run(x, module=module)
    if not y.requires_grad:
        return y.detach(), {}
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=WIDE).to(y.dtype)
    grads = torch.autograd.grad((y * weights).sum(), list(held.values()), allow_unused=True)
    return y.detach(), {name: grad for name, grad in zip(held, grads, strict=True) if grad is not None}


def _jitter(x: Tensor, dtype: torch.dtype) -> Tensor:
    if not x.is_floating_point():
        return x
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(9), dtype=WIDE) - 0.5
    return x.detach() * (1 + torch.finfo(dtype).eps * noise)


def _jittered(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    moved = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.copy_(_jitter(parameter, dtype))
    return moved


def _pair(subject: Subject, dtype: torch.dtype, case: Case) -> tuple[nn.Module, nn.Module, Tensor]:
    """A narrow module, a wide one with exactly its weights, and a narrow input."""
    narrow, wide = subject.module(dtype), subject.rounded_twin(dtype)
    x = subject.inputs(case)
    return narrow, wide, x if subject.vocabulary else x.to(dtype)


def _widened(x: Tensor) -> Tensor:
    return x.detach().to(WIDE) if x.is_floating_point() else x


def _size(tensors: Iterable[Tensor]) -> float:
    return sum(float(t.detach().to(WIDE).square().sum()) for t in tensors) ** 0.5


def _rms(got: Iterable[Tensor], expected: Iterable[Tensor], size: float = 0.0) -> float:
    """Root mean square distance, relative to what was expected, or to `size` where that is larger."""
    got, expected = list(got), list(expected)
    gap = _size(one.detach().to(WIDE) - other.detach() for one, other in zip(got, expected, strict=True))
    return gap / (max(_size(expected), size) or 1.0)


def _finite(what: str, got: Tensor, expected: Tensor) -> Iterator[Comparison]:
    """No inf and no NaN, in either."""
    for name, tensor in ((f"{what} is finite in float64", expected), (f"{what} is finite", got)):
        if not bool(tensor.isfinite().all()):
            ones = torch.ones(tensor.shape, dtype=WIDE)
            yield Comparison(name, ones, tensor.isfinite().to(WIDE), BITS, remark="0 marks an entry that is inf or NaN")


def _near(
    what: str,
    got: Iterable[Tensor],
    expected: Iterable[Tensor],
    limit: float,
    steepness: Callable[[], float],
    size: float = 0.0,
) -> Iterator[Comparison]:
    """Relative root mean square, forgiven where the function is so steep that rounding its inputs does as much."""
    distance = _rms(got, expected, size)
    if distance > limit:
        limit = max(limit, conditioned(steepness()))
    if limit < 1:
        zero = torch.zeros((), dtype=WIDE)
        remark = "relative root mean square distance from float64"
        yield Comparison(f"distance of {what}", zero, torch.tensor(distance, dtype=WIDE), limit, remark=remark)


LAW = Law(
    name="stability",
    says="float32 and bfloat16 stay finite and near float64 at input scales 1, 10 and 100, forward and backward",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "scale", "seed"),
)
