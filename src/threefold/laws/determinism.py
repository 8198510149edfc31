"""Asked twice it answers the same; it travels by its spec and its weights; and it touches nothing but its own."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from threefold.laws.case import Case
from threefold.laws.compare import Comparison, fact
from threefold.laws.guard import global_state, seeded
from threefold.laws.law import Absent, Law, does_not_apply
from threefold.laws.subject import Subject
from threefold.laws.tolerance import BITS

Check = Callable[[Subject, Case], Iterator[Comparison]]


def applies(subject: Subject) -> Absent | None:
    return None if subject.mixes else does_not_apply("a feature map is a function")


def witness(subject: Subject) -> str | Absent:
    """Other inputs give other outputs."""
    case = Case(T=3)
    with torch.no_grad():
        change = (subject.run(subject.inputs(case)) - subject.run(subject.inputs(case, 3))).abs().max()
    return (
        f"another input moves outputs by {float(change):.1e}"
        if change > 0
        else does_not_apply("the output is constant")
    )


def twice(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Two calls, without a seed in between."""
    module, x = subject.module(), subject.inputs(case)
    with torch.no_grad():
        y = subject.call(module, x, valid=None, at=None, form=None)
        z = subject.call(module, x, valid=None, at=None, form=None)
    yield Comparison("y", y, z, BITS, remark="two calls gave two answers")


def own_things(subject: Subject, case: Case) -> Iterator[Comparison]:
    """The input, the weights, the buffers and the process stay as they were."""
    module, x = subject.module(), subject.inputs(case)
    kept, weights = x.clone(), {name: value.clone() for name, value in module.state_dict().items()}
    before, mode = global_state(), module.training
    y = subject.call(module, x, valid=None, at=None, form=None)
    if y.requires_grad:
        parameters = [p for p in module.parameters() if p.requires_grad]
        torch.autograd.grad(y.sum(), parameters, allow_unused=True)
    after = global_state()
    for name, value in before.items():
        now = after[name]
        same = torch.equal(value, now) if isinstance(value, Tensor) and isinstance(now, Tensor) else value == now
        yield fact(f"{name} untouched", 1.0, float(same), f"a call changed {name}")
    yield fact("mode untouched", float(mode), float(module.training), "a call changed train or eval mode")
    yield Comparison("x", kept, x, BITS, remark="a call wrote into its input")
    for name, value in module.state_dict().items():
        yield Comparison(
            name, weights[name], value, BITS, remark="a call in eval mode changed its own weights or buffers"
        )


def weights_travel(subject: Subject, case: Case) -> Iterator[Comparison]:
    """state_dict into another build gives the same function."""
    source, target = subject.build(seed=1), subject.build(seed=2)
    target.load_state_dict(source.state_dict())
    x = subject.inputs(case)
    with torch.no_grad():
        y, z = subject.run(x, module=source), subject.run(x, module=target)
    yield Comparison(
        "y", y, z, BITS, remark="loading the state_dict gave another function: something it holds is not saved"
    )


def spec_travels(subject: Subject, case: Case) -> Iterator[Comparison]:
    """JSON gives back an equal spec."""
    if subject.spec is not None:
        same = type(subject.spec).from_json(subject.spec.to_json()) == subject.spec
        yield fact("spec equal after JSON", 1.0, float(same), f"{subject.spec.to_json()} reads back unequal")


def seeds(subject: Subject, case: Case) -> Iterator[Comparison]:
    """One seed builds one module."""
    x = subject.inputs(case)
    with torch.no_grad():
        y, z = (subject.run(x, module=subject.build(seed=4)) for _ in range(2))
    yield Comparison("y", y, z, BITS, remark="two builds from one seed differ")


def births(subject: Subject, case: Case) -> Iterator[Comparison]:
    """After a build the process draws what its own seed says."""
    drawn = []
    for seed in (case.seed + 1, case.seed + 2):
        with seeded(seed):
            subject.fresh()
            drawn.append((torch.rand(()), np.random.rand(), random.random()))  # noqa: NPY002
    for name, one, other in zip(("torch", "numpy", "python"), *drawn, strict=True):
        came = float(one == other)
        yield fact(f"{name} reseeded", 0.0, came, f"building the layer set the seed of {name}'s random stream")


def moves(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Outputs follow the module's dtype, and it runs where it computes nothing."""
    for dtype in (torch.float32, torch.bfloat16):
        with torch.no_grad():
            x = subject.inputs(case)
            y = subject.run(x if subject.vocabulary else x.to(dtype), module=subject.module(dtype))
        yield fact(
            f"output in {dtype}".replace("torch.", ""), 1.0, float(y.dtype is dtype), f"a {dtype} module gave {y.dtype}"
        )
    module = copy.deepcopy(subject.module()).to("meta")
    with torch.no_grad():
        y = subject.run(subject.inputs(case).to("meta"), module=module)
    yield fact(
        "output on meta", 1.0, float(y.device.type == "meta"), f"a module on meta gave a tensor on {y.device.type}"
    )


CHECKS: dict[str, Check] = {
    "two calls": twice,
    "own things": own_things,
    "weights travel": weights_travel,
    "spec travels": spec_travels,
    "one seed": seeds,
    "building": births,
    "moves": moves,
}


def cases(subject: Subject) -> Iterator[Case]:
    for name in CHECKS:
        yield from (Case(T=T, how=name) for T in (2, 7, *((257,) if name == "two calls" else ())))


def probe(subject: Subject, case: Case) -> Iterator[Comparison]:
    with seeded(case.seed):
        yield from CHECKS[case.how](subject, case)


LAW = Law(
    name="determinism",
    says="same inputs, same bits; spec and weights survive a round trip; nothing outside the layer is touched",
    applies=applies,
    cases=cases,
    probe=probe,
    witness=witness,
)
