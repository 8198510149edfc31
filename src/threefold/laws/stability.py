"""Narrow floats beside float64: finite, and as near as dtype, length and scale allow, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import BITS, rounded

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SCALES = (1.0, 10.0, 100.0)


def applies(subject: Subject) -> Absent | None:
    if not subject.mixes:
        return does_not_apply("a feature map is judged in float64")
    if subject.spec is not None and signed(subject):
        return does_not_apply("a signed feature map with a normaliser may divide by nearly nothing: it has no bound to keep")
    return None


def signed(subject: Subject) -> bool:
    """Normalised by sums that may vanish."""
    from threefold.specs.features import Sign

    return subject.features is not None and subject.features.sign is Sign.SIGNED and getattr(subject.spec, "normalised", False)


def witness(subject: Subject) -> str | Absent:
    """Narrow floats do differ here."""
    narrow, wide, x = _pair(subject, torch.float32, Case(T=9))
    with torch.no_grad():
        gap = _rms(subject.run(x, module=narrow).to(WIDE), subject.run(_widened(x), module=wide))
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
    sources = [[], []] if subject.vocabulary else [[x.requires_grad_()], [z.requires_grad_()]]
    with torch.set_grad_enabled(not long):
        y, truth = subject.run(x, module=narrow), subject.run(z, module=wide)
    limit = rounded(dtype, case.T, case.scale)
    yield from _finite("y", y, truth)
    yield from _near("y", y, truth, limit)
    if long or not (y.requires_grad and truth.requires_grad):
        return
    names = ["x"] * len(sources[0]) + [name for name, _ in narrow.named_parameters()]
    weights = torch.randn(truth.shape, generator=torch.Generator().manual_seed(5), dtype=WIDE)
    found = []
    for output, module, inputs in ((y, narrow, sources[0]), (truth, wide, sources[1])):
        held = [*inputs, *module.parameters()]
        loss = (output * weights.to(output.dtype)).sum()
        found.append(torch.autograd.grad(loss, held, allow_unused=True))
    for label, got, expected in zip(names, *found, strict=True):
        if got is not None and expected is not None:
            yield from _finite(f"d {label}", got, expected)
    pairs = [(g.to(WIDE).flatten(), e.flatten()) for g, e in zip(*found, strict=True) if g is not None and e is not None]
    if pairs:
        got, expected = (torch.cat([pair[i] for pair in pairs]) for i in (0, 1))
        yield from _near("the gradient", got, expected, 4 * limit)


def _pair(subject: Subject, dtype: torch.dtype, case: Case) -> tuple[torch.nn.Module, torch.nn.Module, Tensor]:
    """A narrow module, a wide one with exactly its weights, and a narrow input."""
    narrow, wide = subject.module(dtype), subject.rounded_twin(dtype)
    x = subject.inputs(case)
    return narrow, wide, x if subject.vocabulary else x.to(dtype)


def _widened(x: Tensor) -> Tensor:
    return x.detach().to(WIDE) if x.is_floating_point() else x


def _rms(got: Tensor, expected: Tensor) -> float:
    size = float(expected.square().mean().sqrt())
    return float((got.to(WIDE) - expected).square().mean().sqrt()) / (size or 1.0)


def _finite(what: str, got: Tensor, expected: Tensor) -> Iterator[Comparison]:
    """No inf and no NaN, in either."""
    for name, tensor in ((f"{what} is finite in float64", expected), (f"{what} is finite", got)):
        if not bool(tensor.isfinite().all()):
            ones = torch.ones(tensor.shape, dtype=WIDE)
            yield Comparison(name, ones, tensor.isfinite().to(WIDE), BITS, remark="0 marks an entry that is inf or NaN")


def _near(what: str, got: Tensor, expected: Tensor, limit: float) -> Iterator[Comparison]:
    """Relative root mean square."""
    if limit < 1 and expected.numel():
        zero = torch.zeros((), dtype=WIDE)
        remark = "relative root mean square distance from float64"
        yield Comparison(f"distance of {what}", zero, torch.tensor(_rms(got.detach(), expected.detach()), dtype=WIDE), limit, remark=remark)


LAW = Law(
    name="stability",
    says="float32 and bfloat16 stay finite and near float64 at input scales 1, 10 and 100, forward and backward",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("T", "scale", "seed"),
)
