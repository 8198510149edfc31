"""One token at a time: a state of fixed size beside a cache that grows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import nn

from threefold.bench.race import Race, Work
from threefold.mixers.base import CausalMixer
from threefold.ops import cache
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.features import Elu1, Taylor
from threefold.specs.recurrent import GRU, LSTM, RNN

WIDTH, NARROW, LONG, SHORT = 512, 64, 65_536, 1_024


def seen(mixer: CausalMixer[Any], context: int) -> Any:
    """A state that has seen `context` tokens. A cache gets drawn keys: reading them all takes minutes."""
    state = mixer.init_state(1)
    if isinstance(mixer.spec, Softmax):
        keys, values = (torch.randn(1, context, mixer.spec.groups, x.shape[-1]) for x in (state.keys, state.values))
        return cache.append(state, keys, values, None, record=False)
    for part in torch.randn(1, context, mixer.width).split(4096, 1):
        _, state = mixer.scan(part, state)
    return state


def stepping(spec: MixerSpec, context: int, width: int = WIDTH) -> Work:
    """A step of a module at B=1 after `context` tokens. Each call goes on where the last one stopped."""
    torch.manual_seed(0)
    mixer = spec.build(width)
    assert isinstance(mixer, CausalMixer)
    x, held = torch.randn(1, width), []
    with torch.no_grad():
        held.append(seen(mixer, context))

    def work() -> None:
        with torch.no_grad():
            held.append(mixer.step(x, held.pop())[1])

    return work


def cell_stepping(module: nn.RNNCellBase) -> Work:
    """A step of torch's own cell."""
    x, held = torch.randn(1, module.input_size), [None]

    def work() -> None:
        with torch.no_grad():
            held.append(module(x, held.pop()))

    return work


def races() -> Iterator[Race]:
    """What this library promises of one token."""
    taylor, elu1 = Linear(features=Taylor(2), key_dim=16), Linear(features=Elu1())
    for name, spec in (("Taylor 2 (key 16)", taylor), ("elu+1", elu1)):
        small = Linear(heads=2, key_dim=4, features=spec.features)
        yield Race(
            work=f"{name} step, width 512, 8 heads, context {LONG}",
            against="softmax step with its cache",
            ours=stepping(spec, LONG),
            theirs=stepping(Softmax(), LONG),
            wanted=10.0,
            spec=small,
        )
        yield Race(
            work=f"{name} step, width 512, 8 heads, context {LONG}",
            against=f"the same, context {SHORT}",
            ours=stepping(spec, LONG),
            theirs=stepping(spec, SHORT),
            wanted=1.1,
            at_most=True,
            spec=small,
        )
    cells = ((RNN(), nn.RNNCell), (LSTM(), nn.LSTMCell), (GRU(), nn.GRUCell))
    for width, (cell, torchs) in product((WIDTH, NARROW), cells):
        yield Race(
            work=f"{type(cell).__name__} step, width {width}",
            against=f"torch nn.{torchs.__name__}",
            ours=stepping(cell, 1, width),
            theirs=cell_stepping(torchs(width, width)),
            spec=cell,
        )
