"""A feature map is what it claims: kernel, dimension, sign, distance from exp; and no normaliser fails silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, factorial
from typing import Any

import torch
from torch import Tensor

from threefold.laws.case import Case
from threefold.laws.compare import Comparison, fact
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import chance, equal
from threefold.ops import linear
from threefold.specs.features import FeatureMap, Sign, Taylor

SIZES = (1, 2, 3, 5, 8)
DRAWS = 400
FORMS: dict[str, Callable[..., Any]] = {"step": linear.step, "chunked": linear.chunked, "parallel": linear.parallel}


def applies(subject: Subject) -> Absent | None:
    return None if subject.features is not None else does_not_apply("there is no feature map")


def witness(subject: Subject) -> str | Absent:
    """phi is no constant."""
    k = _draw(Case(seed=1), 2, 4)[0]
    phi = subject.features.phi(k)
    return f"{phi.shape[-1]} features of a key of 4, which differ by {float((phi[0] - phi[1]).abs().max()):.1e}"


def random(subject: Subject) -> bool:
    """Whether phi is drawn: an estimate of its kernel, not the kernel."""
    return callable(getattr(subject.features, "draw", None))


def cases(subject: Subject) -> Iterator[Case]:
    if random(subject):
        yield from (Case(B=1, n=n, seed=n, scale=0.5, how="estimate") for n in (2, 8))
    else:
        for scale in (1.0, 3.0):
            yield from (Case(B=1, n=n, seed=seed, scale=scale, how="kernel") for n in SIZES for seed in (0, 1))
    yield from (Case(B=1, n=n, how="dimension") for n in SIZES)
    yield from (Case(B=1, n=n, seed=n, scale=2.0, how="sign") for n in SIZES)
    if isinstance(subject.features, Taylor):
        yield from (Case(B=1, n=n, how="exp") for n in (1, 4))
    if isinstance(subject.features, FeatureMap):
        yield from (
            Case(T=6, B=1, n=2, seed=seed, scale=3.0, how=f"normaliser {form}") for form in FORMS for seed in range(4)
        )


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    what, _, form = case.how.partition(" ")
    yield from (
        {"estimate": _estimate, "kernel": _kernel, "dimension": _dimension, "sign": _sign, "exp": _exp}[what](
            subject, case
        )
        if not form
        else _normaliser(subject, case, form)
    )


def _draw(case: Case, count: int, key_dim: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(case.seed)
    q, k = (torch.randn(count, key_dim, generator=source, dtype=WIDE) * case.scale for _ in range(2))
    return q, k


def kernel_of(features: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """The claimed kernel: `scores`, `kernel`, or exp(q.k)."""
    for name in ("scores", "kernel"):
        if callable(getattr(features, name, None)):
            return getattr(features, name)
    return lambda q, k: torch.exp(q @ k.transpose(-1, -2))


def _kernel(subject: Subject, case: Case) -> Iterator[Comparison]:
    q, k = _draw(case, 6, case.n or 1)
    features = subject.features
    phi_q, phi_k = features.phi(q), features.phi(k)
    bound = (phi_q.abs() @ phi_k.abs().T).max()  # what the signed terms of the product sum to at most
    limit = equal(WIDE, case.T)
    remark = "phi(q).phi(k) is not the claimed kernel"
    yield Comparison("kernel", kernel_of(features)(q, k), phi_q @ phi_k.T, limit, remark=remark, floor=float(bound))


def _dimension(subject: Subject, case: Case) -> Iterator[Comparison]:
    n = case.n or 1
    claimed = getattr(subject.features, "dim", None)
    if callable(claimed):
        phi = subject.features.phi(_draw(case, 2, n)[0])
        yield fact("features", claimed(n), phi.shape[-1], f"claimed dimension of phi for a key of {n}")


def _sign(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Also where it is hardest: keys opposite to queries, at every strength up to 4."""
    claimed = getattr(subject.features, "sign", None)
    if claimed not in (Sign.POSITIVE, Sign.NONNEGATIVE):
        return
    q, k = _draw(case, 8, case.n or 1)
    unit = q / q.norm(dim=-1, keepdim=True)
    against = -unit * torch.linspace(0.1, 4.0, 40, dtype=WIDE)[:, None, None]
    kernel = torch.cat([(subject.features.phi(q) @ subject.features.phi(k).T).flatten()])
    opposed = (subject.features.phi(unit) * subject.features.phi(against)).sum(-1).flatten()
    values = torch.cat([kernel, opposed])
    lost = values <= 0 if claimed is Sign.POSITIVE else values < 0
    where = f"the least is {float(values.min()):.3e}"
    yield fact(f"{claimed.value} kernel", 0.0, float(lost.sum()), f"declared {claimed.value} and it is not: {where}")


def _exp(subject: Subject, case: Case) -> Iterator[Comparison]:
    """|P_K(s) - e^s| / e^s <= R^(K+1) e^R / (K+1)! for |s| <= R."""
    degree, n = subject.features.degree, case.n or 1
    for R in (0.1, 0.5, 1.0, 1.5):
        s = torch.linspace(-R, R, 33, dtype=WIDE)
        q, k = torch.zeros(33, n, dtype=WIDE), torch.zeros(33, n, dtype=WIDE)
        q[:, 0], k[:, 0] = s, 1.0
        series = (subject.features.phi(q) * subject.features.phi(k)).sum(-1)
        worst = float(((series - s.exp()) / s.exp()).abs().max())
        bound = R ** (degree + 1) * exp(R) / factorial(degree + 1) * (1 + 1e-12) + equal(WIDE, 1)
        over = worst if worst > bound else bound
        yield fact(f"distance from exp within {R}", bound, over, f"relative error {worst:.2e}, bound {bound:.2e}")


def _estimate(subject: Subject, case: Case) -> Iterator[Comparison]:
    """The mean of many drawn maps is the kernel, within the chance of such a mean."""
    q, k = _draw(case, 4, case.n or 1)
    found = []
    for seed in range(DRAWS):
        features = subject.features.draw(case.n or 1, seed)
        found.append(features.phi(q) @ features.phi(k).T)
    sample = torch.stack(found)
    error = sample.std(0) / DRAWS**0.5
    distance = (sample.mean(0) - kernel_of(subject.features)(q, k)) / error
    zero = torch.zeros_like(distance)
    remark = f"standard errors between the mean of {DRAWS} draws and the claimed kernel: biased"
    yield Comparison("bias", zero, distance, chance(DRAWS), remark=remark, floor=1.0)


def _normaliser(subject: Subject, case: Case, form: str) -> Iterator[Comparison]:
    """Every normaliser that is not positive is counted in the state, none besides."""
    n, features = case.n or 1, subject.features
    source = torch.Generator().manual_seed(case.seed)
    q, k, v = (torch.randn(1, case.T, 1, n, generator=source, dtype=WIDE) * case.scale for _ in range(3))
    sums = (kernel_of(features)(q[0, :, 0] * features.scale(n), k[0, :, 0])).tril().sum(-1)
    state = linear.empty(1, 1, features.dim(n), n, normalised=True, like=v.new_zeros(()))
    parts = range(case.T) if form == "step" else [slice(None)]
    for part in parts:
        cut = slice(part, part + 1) if isinstance(part, int) else part
        _, state = FORMS[form](q[:, cut], k[:, cut], v[:, cut], state, features=features, chunk=2)
    doubtful = int((sums.abs() < equal(WIDE, 1) * sums.abs().max()).sum())
    if not doubtful:
        expected = float((sums <= 0).sum())
        yield fact(
            "reported normalisers",
            expected,
            float(state.nonpositive.sum()),
            "normalisers that are not positive were not reported",
        )


LAW = Law(
    name="features",
    says="phi(q).phi(k) is the claimed kernel, of claimed size and sign, near exp as stated; normalisers fail aloud",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
    shrinks=("n", "seed", "scale"),
)
