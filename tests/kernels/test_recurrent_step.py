"""One native token against float64: every cell, size, mask, layout and instruction set."""

import pytest
import torch
from torch import Tensor

from tests.kernels.linear_cases import apart
from tests.kernels.test_recurrent import F32, F64, NAMES, drawn, judge, to
from threefold.kernels import native, recurrent_step
from threefold.kernels.native import available, forced
from threefold.kernels.recurrent_step import one_token
from threefold.ops.recurrent_op import CELLS, Given, run

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
ISAS = native.isas()
SIZES = ((1, 1, 1), (2, 3, 7), (3, 17, 8), (4, 5, 16), (5, 16, 17), (7, 40, 31), (9, 8, 64), (1, 64, 50))  # B, D, N


def stepped(name: str, given: Given) -> tuple[Tensor, ...]:
    """What the native code says of one token: the state, and what is kept for the backward pass."""
    kept = torch.full((1, given.sizes[1], CELLS[name].kept * given.sizes[2]), torch.nan, dtype=given.x.dtype)
    return (*one_token(name, given.x, given.state, given.weights, given.valid, kept), kept)


def defined(name: str, given: Given) -> tuple[Tensor, ...]:
    """The same by the definition; of an invalid token nothing needs to be kept."""
    h, c, kept = run(name, given)
    kept = kept if given.valid is None else kept * given.valid[:, 0, None]
    return (h[:, 0], *((c[:, 0],) if given.c0 is not None else ()), kept)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_any_size_on_every_instruction_set(name: str, isa: str) -> None:
    with forced(isa):
        for b, d, n in SIZES:
            given = drawn(name, 1, b, d, n, masked=n % 2 == 1)
            for got, want in zip(stepped(name, given), defined(name, given), strict=True):
                assert got.shape == want.shape and apart(got, want) <= 1e-12
            narrow = to(given, F32)
            for got, want in zip(stepped(name, narrow), defined(name, to(narrow, F64)), strict=True):
                assert got.dtype == F32 and apart(got, want) <= 2e-6


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("bias", [False, True], ids=["bare", "bias"])
@pytest.mark.parametrize("name", NAMES)
def test_states_and_all_gradients_through_the_op(name: str, bias: bool, dtype: torch.dtype) -> None:
    for b, masked in ((1, False), (6, True)):
        judge(name, drawn(name, 1, b, 10, 21, masked, bias), dtype)


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_threads_gives_the_same_bits(name: str, monkeypatch) -> None:
    given, found = drawn(name, 1, 3, 40, 70), []
    monkeypatch.setattr(recurrent_step, "SMALL", 0)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 200):
            torch.set_num_threads(threads)
            found.append(stepped(name, given))
    finally:
        torch.set_num_threads(before)
    for more in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], more, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_token_leaves_the_state_to_the_bit(name: str) -> None:
    given = drawn(name, 1, 5, 6, 19)._replace(valid=torch.tensor([True, False, False, True, False])[:, None])
    *new, kept = stepped(name, given)
    for was, now in zip(given.state, new, strict=True):
        assert torch.equal(was[~given.valid[:, 0]], now[~given.valid[:, 0]])
        assert not torch.equal(was[0], now[0]) and not torch.equal(was[3], now[3])
    assert not kept[:, ~given.valid[:, 0]].any(), "and nothing of its gates is kept"


@pytest.mark.parametrize("name", NAMES)
def test_any_layout(name: str) -> None:
    """A token inside a sequence, a column of a mask, weights that lie the other way, every second number of a bias."""
    given, draw = drawn(name, 1, 3, 4, 9, masked=True), torch.Generator().manual_seed(1)

    def inside(tensor: Tensor, axis: int) -> Tensor:
        shape = list(tensor.shape)
        shape[axis] = 2 * shape[axis] + 1
        large = torch.randn(shape, generator=draw, dtype=F64) > 0 if tensor.dtype == torch.bool else torch.randn(shape)
        large = large.to(tensor.dtype)
        view = large[(slice(None),) * axis + (slice(1, None, 2),)]
        view.copy_(tensor)
        return view

    axes = {"x": 1, "h0": 1, "c0": 1, "wx": 1, "wh": 1, "bias": 0, "inner": 0, "valid": 1}
    odd = Given(*(x if x is None else inside(x, axes[field]) for field, x in given._asdict().items()))
    assert not odd.wh.is_contiguous() and not odd.valid.is_contiguous() and not odd.x.is_contiguous()
    thin = given._replace(x=given.x.transpose(0, 2).contiguous().transpose(0, 2))
    for other in (odd, thin):
        for got, want in zip(stepped(name, other), stepped(name, given), strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_far_from_zero_it_saturates_as_torch_does(name: str) -> None:
    given = drawn(name, 1, 2, 3, 9)
    far = given._replace(x=300 * given.x, h0=30 * given.h0)
    for got, want in zip(stepped(name, far), defined(name, far), strict=True):
        assert torch.isfinite(got).all() and apart(got, want) <= 1e-12
