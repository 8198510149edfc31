"""Sequence mixers in three forms, proven to agree."""

from typing import Any

from threefold.errors import InputError
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Form
from threefold.specs.cross import Bidirectional, CrossAttention
from threefold.specs.features import Elu1, Identity, Relu, Taylor
from threefold.specs.positions import Alibi, Decay, Learned, Relative, Rotary, Shaw, Sinusoidal
from threefold.specs.recurrent import GRU, LSTM, RNN

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Alibi",
    "Bidirectional",
    "CrossAttention",
    "Decay",
    "Elu1",
    "Form",
    "Identity",
    "InputError",
    "Learned",
    "Linear",
    "Relative",
    "Relu",
    "Rotary",
    "Shaw",
    "Sinusoidal",
    "Softmax",
    "Taylor",
]
LATE = {  # what may load torch comes when it is asked for
    "CATALOG": "threefold.mixers.catalog",
    "LAWS": "threefold.laws",
    "judge": "threefold.laws",
    "load": "threefold.recipes.export",
}
__all__ += list(LATE)


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module 'threefold' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(LATE[name]), name)
