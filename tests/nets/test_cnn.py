"""The documents' convolutional net has the documents' sizes."""

import pytest
import torch

from threefold.errors import InputError
from threefold.specs.base import Spec
from threefold.specs.vision import CNNSpec, Shrink


@pytest.mark.parametrize(
    ("spec", "sides", "flat", "total"),
    [
        (CNNSpec(4), (28, 14, 12, 6), 576, 224_892),
        (CNNSpec(4, padding=0), (26, 13, 11, 5), 400, 168_572),
        (CNNSpec(4, shrink=Shrink.STRIDE), (14, 6), 576, 224_892),
        (CNNSpec(4, shrink=Shrink.STRIDE, padding=0), (13, 6), 576, 224_892),
    ],
)
def test_sizes(spec: CNNSpec, sides: tuple[int, ...], flat: int, total: int) -> None:
    net = spec.build()
    assert (spec.sides, spec.flat) == (sides, flat)
    assert sum(parameter.numel() for parameter in net.parameters()) == total
    assert net(torch.randn(2, 1, 28, 28)).shape == (2, 4)
    assert Spec.from_json(spec.to_json()) == spec


def test_dropout_is_where_it_is_said_to_be() -> None:
    torch.manual_seed(0)
    net, images = CNNSpec(4).build(), torch.randn(1, 1, 28, 28)
    assert not torch.equal(net(images), net(images))
    assert torch.equal(net.eval()(images), net(images))


def test_any_side_and_colour() -> None:
    assert CNNSpec(3, side=64, channels=3).build()(torch.randn(2, 3, 64, 64)).shape == (2, 3)
    assert CNNSpec(3, side=8).build()(torch.randn(2, 1, 8, 8)).shape == (2, 3)
    with pytest.raises(InputError, match="larger images"):
        CNNSpec(3, side=5)
    with pytest.raises(InputError, match="padding"):
        CNNSpec(3, padding=2)
