"""Native linear attention against float64: values, states and gradients of every map, shape and instruction set."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tests.kernels.linear_cases import LIMIT, MAPS, NAMES, Case, apart, gradients, reference, values
from threefold.kernels import native
from threefold.kernels.linear import run, supports
from threefold.kernels.native import available, forced
from threefold.ops import linear

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
ISAS = native.isas()
F32, F64 = torch.float32, torch.float64


def on_native(q, k, v, state, *, features, valid=None, rates=None):
    """The native op itself: a silent turn to the torch path would prove nothing."""
    if not q.shape[1]:
        return linear.chunked(q, k, v, state, features=features, valid=valid, rates=rates)
    assert not supports(q, k, v, state, features, valid, rates)
    return run(q, k, v, state, features, valid, rates)


def judge(case: Case, dtype: torch.dtype, through: str = "y S z") -> None:
    tensors, options = case.tensors(dtype), case.options()
    y, after = values(on_native, tensors, options)
    wanted, expected = reference(tensors, options)
    limit = LIMIT[dtype]
    assert y.dtype == dtype and after.memory.dtype == dtype
    assert apart(y, wanted) <= limit
    assert apart(after.memory, expected.memory) <= limit and apart(after.mass, expected.mass) <= limit
    assert torch.equal(after.tokens, expected.tokens) and torch.equal(after.nonpositive, expected.nonpositive)
    found = gradients(on_native, tensors, options, through)
    for name, got, want in zip(
        NAMES, found, gradients(linear.parallel, [x.double() for x in tensors], options, through), strict=True
    ):
        assert apart(got, want) <= limit, name


COMBINATIONS = [
    Case(features, normalised=normalised, decay=decay, masked=masked)
    for features in MAPS
    for normalised in (True, False)
    for decay in (False, True)
    for masked in (False, True)
]


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("case", COMBINATIONS, ids=str)
def test_every_map_normalised_or_not_fading_or_not_masked_or_not(case: Case, dtype: torch.dtype) -> None:
    judge(case, dtype)


@pytest.mark.parametrize("through", ["y", "S", "z", "S z"])
def test_gradients_through_each_output_alone(through: str) -> None:
    judge(Case(decay=True, masked=True), F64, through)


@pytest.mark.parametrize("T", [0, 1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 257])
@pytest.mark.parametrize("features", [Case().features, MAPS[2]], ids=["Taylor", "Elu1"])
def test_any_length_past_the_edges_of_blocks_and_spans(features, T: int) -> None:
    judge(Case(features, T=T, B=1, H=2), F64)
    judge(Case(features, T=T, B=1, H=2, masked=True, decay=True, normalised=False), F32)


SIZES = [(1, 1), (2, 3), (7, 8), (8, 9), (9, 15), (15, 16), (16, 17), (17, 31), (31, 33), (16, 64), (13, 65)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("K", "V"), SIZES)
def test_any_head_size_on_every_instruction_set(K: int, V: int, isa: str) -> None:
    with forced(isa):
        assert native.native().isa == isa
        judge(Case(K=K, V=V, T=11, B=1, H=1), F64)
        other = MAPS[2] if K > 1 else MAPS[1]  # one elu+1 feature cancels: there is no gradient to compare
        judge(Case(other, K=K, V=V, T=11, B=1, H=2, masked=True), F32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("features", MAPS, ids=repr)
def test_every_map_on_every_instruction_set(features, isa: str) -> None:
    with forced(isa):
        judge(Case(features, decay=True, masked=True), F32)
        judge(Case(features, T=21, K=9, V=34), F64)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("large", [1, 1 << 62], ids=["streamed", "cached"])
def test_results_past_the_caches_or_not(monkeypatch: pytest.MonkeyPatch, large: int, isa: str) -> None:
    monkeypatch.setattr("threefold.kernels.linear.LARGE", large)
    with forced(isa):
        for V in (4, 16, 34, 64, 80):  # some rows are whole registers of every kind, some of no kind
            judge(Case(K=16, V=V, T=21, B=1, H=1), F32)
            judge(Case(V=V, decay=True, masked=True), F32)
            judge(Case(V=V, decay=True, masked=True, normalised=False), F64)


@pytest.mark.parametrize(("B", "H"), [(1, 1), (1, 3), (3, 5)])
def test_any_number_of_threads_gives_the_same_numbers(B: int, H: int) -> None:
    case = Case(T=300, K=16, V=64, B=B, H=H)
    tensors, options = case.tensors(), case.options()
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y, after = values(on_native, tensors, options)
            found.append((y, *after, *gradients(on_native, tensors, options)))
    finally:
        torch.set_num_threads(before)
    wanted, _ = reference(tensors, options)
    assert apart(found[0][0], wanted) <= LIMIT[F32]
    for more in found[1:]:
        for one, other in zip(found[0], more, strict=True):
            assert apart(one, other) <= 1e-6


def test_bfloat16_keeps_its_state_in_float32() -> None:
    case = Case(T=700, K=8, V=16, masked=True)
    q, k, v, memory, mass = case.tensors()
    narrow = [x.bfloat16() for x in (q, k, v)]
    y, after = values(on_native, [*narrow, memory, mass], case.options())
    wanted, expected = reference([*narrow, memory, mass], case.options())
    assert y.dtype == torch.bfloat16 and after.memory.dtype == torch.float32
    assert apart(y, wanted) <= 2**-8, "y is rounded once, at the end"
    assert apart(after.memory, expected.memory) <= LIMIT[F32] and apart(after.mass, expected.mass) <= LIMIT[F32]
    leaves = [x.clone().requires_grad_() for x in narrow]
    out, _ = values(on_native, [*leaves, memory, mass], case.options())
    wide = [x.double().requires_grad_() for x in narrow]
    want, _ = reference([*wide, memory, mass], case.options())
    up = torch.randn(out.shape, generator=torch.Generator().manual_seed(5)).bfloat16()
    found = torch.autograd.grad(out, leaves, up)
    for got, expect in zip(found, torch.autograd.grad(want, wide, up.double()), strict=True):
        assert got.dtype == torch.bfloat16 and apart(got, expect) <= 2**-7


def test_any_layout_of_the_input() -> None:
    case = Case(T=20, K=9, V=10, masked=True)
    q, k, v, memory, mass = case.tensors(F64)
    wide = torch.cat([q, k], -1)
    odd = [
        wide[..., :9],
        k.transpose(1, 2).contiguous().transpose(1, 2),
        v.movedim(-1, 0).contiguous().movedim(0, -1),
        memory.mT.contiguous().mT,
        torch.stack([mass, mass], -1)[..., 0],
    ]
    options = case.options() | {"valid": case.options()["valid"].T.contiguous().T}
    assert not any(x.is_contiguous() for x in (*odd, options["valid"]))
    y, after = values(on_native, odd, options)
    want, expected = reference([q, k, v, memory, mass], case.options())
    assert apart(y, want) <= 1e-12 and apart(after.memory, expected.memory) <= 1e-12
    for got, expect in zip(
        gradients(on_native, odd, options), gradients(linear.parallel, case.tensors(F64), case.options()), strict=True
    ):
        assert apart(got, expect) <= 1e-12


def test_any_split_of_the_sequence_gives_the_same() -> None:
    case = replace(Case(), T=40, decay=True, masked=True, H=2)
    tensors, options = case.tensors(F64), case.options()
    y, after = values(on_native, tensors, options)
    for edges in ([0, 1, 2, 10, 40], [0, 8, 16, 40], [0, 39, 40]):
        ys, memory, mass = [], *tensors[3:]
        for a, b in pairwise(edges):
            now = options | {"valid": options["valid"][:, a:b]}
            part, state = values(on_native, [*(x[:, a:b] for x in tensors[:3]), memory, mass], now)
            ys, memory, mass = [*ys, part], state.memory, state.mass
        assert apart(torch.cat(ys, 1), y) <= 1e-12
        assert apart(memory, after.memory) <= 1e-12 and apart(mass, after.mass) <= 1e-12
