"""Classes of sequences, pooled over what is real."""

import pytest
import torch

from threefold.errors import InputError
from threefold.nets.classifier import BagEmbedding, pooled
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.nets import FFN, ClassifierSpec, Pool, StackSpec
from threefold.specs.positions import Sinusoidal
from threefold.specs.recurrent import GRU, LSTM

MIXERS = [LSTM(), Bidirectional(GRU()), Softmax(heads=2, causal=False), Linear(heads=2, causal=False)]


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: type(mixer).__name__)
@pytest.mark.parametrize("pool", list(Pool))
def test_padding_changes_no_class(mixer: MixerSpec, pool: Pool) -> None:
    torch.manual_seed(0)
    net = ClassifierSpec(9, 3, StackSpec(8, (mixer,), FFN(8)), Sinusoidal(), pool).build().double().eval()
    ids = torch.randint(1, 9, (2, 6))
    valid = torch.tensor([[True] * 4 + [False] * 2, [False, True, False, True, True, False]])
    together = net(ids.masked_fill(~valid, 10**6), valid)
    alone = torch.cat([net(ids[row : row + 1, valid[row]]) for row in range(2)])
    assert torch.allclose(together, alone, atol=1e-12)


def test_a_bag_is_the_sum_of_its_vectors() -> None:
    embedding = BagEmbedding(9, 4, drop=0.0)
    ids = torch.tensor([[[1, 5, 0], [2, 0, 0]]])
    table = embedding.weight
    assert torch.allclose(embedding(ids)[0], torch.stack([table[1] + table[5], table[2]]))


def test_dropped_ids_keep_the_mean() -> None:
    torch.manual_seed(0)
    embedding = BagEmbedding(2, 4, drop=0.5)
    ids = torch.ones(4000, 1, 1, dtype=torch.long)
    said = embedding(ids)
    dropped = (said == 0).all(-1).double().mean()
    assert 0.45 < dropped < 0.55
    assert torch.allclose(said.mean((0, 1)), embedding.weight[1], rtol=0.1)
    assert not (embedding.eval()(ids) == 0).all(-1).any()


def test_pooling_by_hand() -> None:
    x = torch.tensor([[[1.0], [5.0], [-2.0]], [[7.0], [8.0], [9.0]]])
    valid = torch.tensor([[True, False, True], [False, False, False]])
    assert pooled(x, valid, Pool.MEAN).flatten().tolist() == [-0.5, 0.0]
    assert pooled(x, valid, Pool.MAX).flatten().tolist() == [1.0, 0.0]
    assert pooled(x, valid, Pool.LAST).flatten().tolist() == [-2.0, 0.0]
    assert pooled(x, None, Pool.LAST).flatten().tolist() == [-2.0, 9.0]


def test_wrong_sizes_are_refused() -> None:
    stack = StackSpec(8, (LSTM(),))
    for wrong in ({"vocab": 1}, {"classes": 1}, {"drop_ids": 1.0}):
        with pytest.raises(InputError):
            ClassifierSpec(**({"vocab": 9, "classes": 3, "stack": stack} | wrong))
