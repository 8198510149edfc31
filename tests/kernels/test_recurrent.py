"""Native recurrent sequences against float64: every cell, size, mask, layout and instruction set."""

import pytest
import torch
from torch import Tensor, nn

from tests.kernels.linear_cases import LIMIT, apart
from threefold.kernels import native, recurrent
from threefold.kernels.native import available, disabled, forced
from threefold.ops.recurrent_op import CELLS, Given, Later, run, run_backward

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
ISAS = native.isas()
NAMES = list(CELLS)
F32, F64 = torch.float32, torch.float64
RESULTS = ("dx", "dh0", "dc0", "dwx", "dwh", "dbias", "dinner")


def drawn(name: str, T: int, B: int, D: int, N: int, masked: bool = False, bias: bool = True) -> Given:
    cell, draw = CELLS[name], torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return 0.7 * torch.randn(*shape, generator=draw, dtype=F64)

    g = len(cell.gates)
    shrink = N**-0.5  # a recurrence of gain 1: any rounding, whoever makes it, grows no further
    inner = normal(N) if name == "gru_after" and bias else None
    c0 = normal(B, N) if name == "lstm" else None
    valid = torch.rand(B, T, generator=draw) < 0.6 if masked else None
    weights = normal(g * N, D), shrink * normal(g * N, N), normal(g * N) if bias else None, inner
    return Given(normal(B, T, D), normal(B, N), c0, *weights, valid)


def to(given: Given, dtype: torch.dtype) -> Given:
    return Given(*(x if x is None or x.dtype == torch.bool else x.to(dtype) for x in given))


def upstream(given: Given, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    draw = torch.Generator().manual_seed(9)
    t, b, n = given.sizes
    dh, dc = (torch.randn(b, t, n, generator=draw, dtype=F64).to(dtype) for _ in range(2))
    return dh, None if given.c0 is None else dc


def both(name: str, given: Given, forward, backward) -> tuple[Tensor, ...]:
    """States, then the gradients of everything."""
    h, c, kept = forward(name, given)
    dh, dc = upstream(given, given.x.dtype)
    return h, c, *backward(name, given, Later(dh, dc, h, c, kept, True))


def ours(name: str, given: Given) -> tuple[Tensor, ...]:
    assert not recurrent.why_not(given.x, given.wh)
    return both(name, given, lambda n, g: recurrent._forward(n, *g), lambda n, g, x: recurrent._backward(n, *g, *x))


def judge(name: str, given: Given, dtype: torch.dtype) -> None:
    narrow = to(given, dtype)
    wanted = both(name, to(narrow, F64), run, run_backward)
    found = ours(name, narrow)
    for what, got, want in zip(("h", "c", *RESULTS), found, wanted, strict=True):
        assert got.dtype == dtype
        assert apart(got, want) <= LIMIT[dtype], what


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("bias", [False, True], ids=["bare", "bias"])
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_equals_the_closed_form(name: str, bias: bool, masked: bool, dtype: torch.dtype) -> None:
    judge(name, drawn(name, 13, 5, 3, 11, masked, bias), dtype)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_any_size_on_every_instruction_set(name: str, isa: str) -> None:
    with forced(isa):
        for b, n in ((1, 1), (2, 7), (3, 8), (4, 16), (7, 17), (8, 31), (9, 33), (17, 48)):
            judge(name, drawn(name, 4, b, 2, n, masked=n % 2 == 1), F64)
        judge(name, drawn(name, 9, 6, 5, 50, masked=True), F32)


@pytest.mark.parametrize("piece", [1, 2000])
@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_in_pieces_is_the_same(name: str, piece: int, monkeypatch) -> None:
    given = drawn(name, 41, 3, 2, 6, masked=True)
    whole = ours(name, given)
    monkeypatch.setattr(recurrent, "PIECE", piece)
    for got, want in zip(ours(name, given), whole, strict=True):
        assert apart(got, want) <= 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_threads_gives_the_same_numbers(name: str) -> None:
    given, before = drawn(name, 20, 9, 3, 12, masked=True), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(ours(name, given))
    finally:
        torch.set_num_threads(before)
    for more in found[1:]:
        for one, other in zip(found[0], more, strict=True):
            assert apart(one, other) <= 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_any_layout_of_the_input(name: str) -> None:
    given = drawn(name, 7, 3, 4, 5, masked=True)
    odd = Given(*(x if x is None or x.ndim < 2 else x.transpose(0, 1).contiguous().transpose(0, 1) for x in given))
    assert not odd.wh.is_contiguous() and not odd.x.is_contiguous()
    for got, want in zip(ours(name, odd), ours(name, given), strict=True):
        assert apart(got, want) <= 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_a_state_far_from_zero_saturates_as_torch_does(name: str) -> None:
    given = drawn(name, 6, 2, 3, 9)
    judge(name, given._replace(x=40 * given.x, h0=30 * given.h0), F64)


def test_disabled_runs_the_torch_form_to_the_bit() -> None:
    given = drawn("gru_after", 5, 2, 3, 4)
    with disabled():
        plain = both("gru_after", given, lambda n, g: recurrent._forward(n, *g), run_backward)
    for got, want in zip(plain, both("gru_after", given, run, run_backward), strict=True):
        assert torch.equal(got, want)
    assert not torch.equal(ours("gru_after", given)[3], plain[3]), "and the native code adds in another order"


@pytest.mark.parametrize(("module", "spec"), [(nn.GRU, "GRU"), (nn.RNN, "RNN"), (nn.LSTM, "LSTM")])
def test_torchs_own_modules_agree(module, spec: str) -> None:
    import threefold
    from threefold.mixers.convert_recurrent import mixer_from_torch

    torch.manual_seed(3)
    theirs = module(6, 6, batch_first=True).double()
    layer = mixer_from_torch(theirs)
    assert type(layer.spec) is getattr(threefold, spec)
    x = torch.randn(3, 17, 6, dtype=F64, requires_grad=True)
    assert layer.path(x).startswith("native")
    y, z = layer(x), theirs(x)[0]
    assert apart(y, z) <= 1e-12
    mine, want = (torch.autograd.grad(each.square().sum(), x)[0] for each in (y, z))
    assert apart(mine, want) <= 1e-12
