"""The only list of mixers: small instances of every spec, and of every position that a spec's traits accept.

Laws, plans, benchmarks, tables and reports loop over it. Width 12 suits every entry. To add a mixer, add its spec to
MIXERS; a position, to POSITIONS.
"""

from dataclasses import replace

from threefold.specs.attention import Attention, Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.features import Elu1, Identity, Relu, Taylor
from threefold.specs.positions import Alibi, Decay, Layout, Learned, Position, Relative, Rotary, Shaw, Sinusoidal
from threefold.specs.recurrent import GRU, LSTM, RNN, Activation, Reset

WIDTH = 12

POSITIONS: tuple[Position, ...] = (
    Sinusoidal(),
    Learned(64),
    Rotary(),
    Rotary(layout=Layout.HALVES),
    Alibi(),
    Relative(buckets=8, max_distance=16),
    Shaw(reach=3),
    Decay(),
)

PAIRED: tuple[Attention, ...] = (
    Softmax(heads=2, key_dim=4, value_dim=5, chunk=3),
    Softmax(heads=2, key_dim=4, value_dim=5, chunk=3, causal=False),
    Linear(heads=2, key_dim=4, value_dim=5, chunk=3, features=Elu1()),
    Linear(heads=2, key_dim=4, value_dim=5, chunk=3, features=Taylor(2)),
    Linear(heads=2, key_dim=4, value_dim=5, chunk=3, features=Elu1(), causal=False),
    Linear(heads=2, key_dim=4, value_dim=5, chunk=3, features=Taylor(2), causal=False),
)

MIXERS: tuple[MixerSpec, ...] = (
    RNN(),
    RNN(activation=Activation.IDENTITY, bias=False),
    LSTM(),
    LSTM(hidden=7, bias=False),
    GRU(reset=Reset.AFTER),
    GRU(reset=Reset.BEFORE, hidden=7),
    Softmax(heads=4, kv_heads=2, qk_norm=True, bias=True, chunk=3),
    Linear(heads=3, features=Relu(), chunk=3),
    Linear(heads=3, features=Identity(), normalised=False, bias=True, chunk=3),
    Linear(heads=3, features=Elu1(), normalised=False, position=Rotary(), key_dim=2, chunk=3),
    Linear(heads=3, features=Taylor(4), key_dim=2, chunk=3),
    Linear(heads=3, features=Taylor(3, odd=True), normalised=False, key_dim=2, position=Decay(), chunk=3),
    Bidirectional(GRU()),
    Bidirectional(Linear(heads=2, key_dim=4, chunk=3, features=Taylor(2), position=Rotary())),
)


def paired(spec: Attention) -> tuple[Attention, ...]:
    """The spec without a position, and with every position that its traits accept."""
    return (spec, *(replace(spec, position=each) for each in POSITIONS if each.site in spec.traits.accepts))


CATALOG: tuple[MixerSpec, ...] = (*MIXERS, *(each for spec in PAIRED for each in paired(spec)))
