"""Bidirectional: two copies, one of them on the reversed sequence."""

import pytest
import torch

from threefold.errors import InputError
from threefold.specs.attention import Linear, Softmax
from threefold.specs.cross import Bidirectional
from threefold.specs.recurrent import GRU, LSTM

F64 = torch.float64


@pytest.mark.parametrize("inner", [GRU(), LSTM(hidden=5), Linear(heads=2), Softmax(heads=2)], ids=repr)
def test_it_is_both_directions_added_and_padding_may_stand_anywhere(inner) -> None:
    torch.manual_seed(0)
    mixer = Bidirectional(inner).build(8).double()
    x = torch.randn(2, 6, 8, dtype=F64)
    y = mixer(x)
    assert (y - mixer.ahead(x) - mixer.back(x.flip(1)).flip(1)).abs().max() <= 1e-12
    assert (y - mixer.ahead(x) - mixer.back(x)).abs().max() > 1e-3
    valid = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0]]).bool()
    padded = mixer(torch.where(valid[..., None], x, torch.nan), valid)
    for row in range(2):
        assert (padded[row, valid[row]] - mixer(x[row : row + 1, valid[row]])[0]).abs().max() <= 1e-12
    assert padded[~valid].abs().max() == 0


def test_a_mixer_that_already_sees_everything_is_refused() -> None:
    with pytest.raises(InputError, match="already sees the whole sequence"):
        Bidirectional(Softmax(causal=False))
