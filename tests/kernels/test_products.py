"""The large products against torch's, over sizes that fill registers and sizes that do not."""

import pytest
import torch

from tests.kernels.linear_cases import LIMIT, apart
from threefold.kernels import native, products
from threefold.kernels.native import available, forced

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
ISAS = native.isas()
SIZES = [(1, 8, 16), (7, 16, 32), (65, 24, 48), (130, 40, 96), (260, 64, 112), (3, 5, 7), (9, 8, 10), (0, 8, 16)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_any_size_and_distance(m: int, k: int, n: int, isa: str, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(m)
    a, b = torch.randn(m, k + 3, generator=draw), torch.randn(k, n + 5, generator=draw)
    c, start = torch.randn(m, n + 2, generator=draw), torch.randn(k, n + 1, generator=draw)
    a, b, c, start = (x.to(dtype)[:, :size] for x, size in ((a, k), (b, n), (c, n), (start, n)))
    out = torch.zeros(m, n + 4, dtype=dtype)
    total = start.clone()
    with forced(isa):
        products.rows_times(a, b, out[:, :n])
        assert apart(out[:, :n], a.double() @ b.double()) <= LIMIT[dtype]
        products.rows_times(a, b.T.contiguous(), out[:, :n], turned=True)
        products.add_outer(total, a, c)
    assert apart(out[:, :n], a.double() @ b.double()) <= LIMIT[dtype]
    assert not out[:, n:].any(), "nothing is written beside the result"
    assert apart(total, start.double() + a.double().T @ c.double()) <= LIMIT[dtype]


def test_sizes_that_fill_registers_run_natively(monkeypatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(products, "_run", lambda name, *rest, turned=False: seen.append(name))
    a, b = torch.randn(9, 64), torch.randn(64, 192)
    products.rows_times(a, b, torch.empty(9, 192))
    products.add_outer(torch.zeros(64, 192), a, torch.randn(9, 192))
    products.rows_times(a, b[:, :7], torch.empty(9, 7))
    assert seen == ["rows", "outer"]
