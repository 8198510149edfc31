"""bfloat16 over a long sequence: as near to float64 as float32 is allowed to be, with sums that stay wide."""

import warnings

import pytest
import torch

from threefold.mixers.base import CausalMixer
from threefold.mixers.catalog import CATALOG, WIDTH
from threefold.mixers.linear import NormaliserWarning
from threefold.ops.cache import Cache
from threefold.ops.scan import leaves
from threefold.specs.attention import Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.positions import ScorePositionSpec

LENGTH, WITHIN = 4096, 0.02
SLOW = [spec for spec in CATALOG if isinstance(spec, Softmax) and isinstance(spec.position, ScorePositionSpec)]


def distance(y: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative root mean square."""
    return float((y.double() - exact).norm() / exact.norm())


def judged(spec: MixerSpec) -> dict[torch.dtype, float]:
    """How far float32 and bfloat16 are from float64, from the same bfloat16 weights and inputs."""
    torch.manual_seed(0)
    mixer = spec.build(WIDTH).bfloat16()
    x = torch.randn(1, LENGTH, WIDTH).bfloat16()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NormaliserWarning)
        low = mixer(x)
        if isinstance(mixer, CausalMixer):
            _, state = mixer.scan(x[:, :40], mixer.init_state(1))
            if not isinstance(state, Cache):  # a cache keeps tokens as they came; it sums nothing
                assert {leaf.dtype for leaf in leaves(state).values() if leaf.is_floating_point()} == {torch.float32}
        exact = mixer.double()(x.double())
        middle = mixer.float()(x.float())
    assert low.dtype == torch.bfloat16
    return {torch.float32: distance(middle, exact), torch.bfloat16: distance(low, exact)}


@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, marks=[pytest.mark.slow] if spec in SLOW else []) for spec in CATALOG],
    ids=repr,
)
def test_bfloat16_stays_within_two_percent_where_float32_does(spec: MixerSpec) -> None:
    found = judged(spec)
    assert found[torch.float32] > WITHIN or found[torch.bfloat16] <= WITHIN, found
    assert found[torch.float32] < 1e-3, "no entry of the catalogue is so steep that float32 fails"
