"""One number after the last valid token."""

import torch

from threefold.nets.regressor import Regressor
from threefold.specs.nets import StackSpec
from threefold.specs.positions import Sinusoidal
from threefold.specs.recurrent import GRU


def test_padding_behind_changes_nothing() -> None:
    torch.manual_seed(0)
    net = Regressor(2, StackSpec(8, (GRU(),)), Sinusoidal()).double()
    x = torch.randn(3, 6, 2, dtype=torch.float64)
    valid = torch.arange(6) < torch.tensor([[6], [4], [1]])
    alone = torch.cat([net(x[row : row + 1, valid[row]]) for row in range(3)])
    assert torch.allclose(net(x.masked_fill(~valid[..., None], torch.nan), valid), alone, atol=1e-12)
