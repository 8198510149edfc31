"""Weights to and from torch.nn.RNN, nn.LSTM and nn.GRU, so that a trained model can be brought and taken away.

torch's LSTM gates i, f, g, o are u, f, c, o here. torch's GRU updates with z = 1 - Gamma_u, so W_u = -W_z. torch keeps
two biases per gate; they only ever act as their sum, but for the one inside the GRU's reset product (`inner`).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.mixers.recurrent import RecurrentMixer
from threefold.ops.cells import Weights
from threefold.specs.recurrent import GRU, LSTM, RNN, Recurrent, Reset


def _flipped(stacked: Tensor, n: int) -> Tensor:
    """The update gate's rows negated: sigma(-z) = 1 - sigma(z)."""
    return torch.cat((stacked[:n], -stacked[n : 2 * n], stacked[2 * n :]))


def weights_from_torch(module: nn.RNNBase, layer: int = 0, *, reverse: bool = False) -> Weights:
    """The weights of one layer and direction, copied into this library's layout."""
    require(0 <= layer < module.num_layers, f"layer {layer} of {module.num_layers}: count from 0.")
    require(module.bidirectional or not reverse, f"{type(module).__name__} is not bidirectional: leave out reverse.")
    require(module.proj_size == 0, f"proj_size={module.proj_size} has no counterpart: give a module without.")
    suffix = f"_l{layer}{'_reverse' if reverse else ''}"
    x, h, bx, bh = (
        parameter.detach().clone() if (parameter := getattr(module, name + suffix, None)) is not None else None
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    assert x is not None and h is not None
    bias, inner, n = None if bx is None or bh is None else bx + bh, None, module.hidden_size
    if isinstance(module, nn.GRU):
        x, h = _flipped(x, n), _flipped(h, n)
        if bias is not None and bx is not None and bh is not None:
            inner = bh[2 * n :]
            bias = _flipped(torch.cat((bias[: 2 * n], bx[2 * n :])), n)
    return Weights(x, h, bias, inner)


def spec_from_torch(module: nn.RNNBase) -> Recurrent:
    """The spec of one layer of a torch module."""
    hidden = None if module.hidden_size == module.input_size else module.hidden_size
    match module:
        case nn.LSTM():
            return LSTM(hidden=hidden, bias=module.bias)
        case nn.GRU():
            return GRU(hidden=hidden, bias=module.bias)
        case nn.RNN(nonlinearity="tanh"):
            return RNN(hidden=hidden, bias=module.bias)
    raise InputError(f"{module} has no counterpart: bring an nn.LSTM, an nn.GRU, or an nn.RNN with tanh.")


def mixer_from_torch(module: nn.RNNBase, out: Float[Tensor, "d n"] | None = None) -> RecurrentMixer:
    """A one-layer, one-direction torch module as a mixer. `out` projects N back to the width where they differ."""
    require(
        module.num_layers == 1 and not module.bidirectional,
        f"{module} has several layers or directions: a mixer is one; use weights_from_torch for each.",
    )
    mixer = spec_from_torch(module).build(module.input_size)
    assert isinstance(mixer, RecurrentMixer)
    require(
        (out is None) == (mixer.out is None),
        f"input size {module.input_size}, hidden size {module.hidden_size}: give `out`, the matrix back to the input "
        "size, exactly where the two differ.",
    )
    weights = weights_from_torch(module)
    mixer.to(weights.x)
    load_weights(mixer, weights)
    if out is not None and mixer.out is not None:
        with torch.no_grad():
            mixer.out.weight.copy_(out)
    return mixer


def load_weights(mixer: RecurrentMixer, weights: Weights) -> None:
    """Copy weights into a mixer of the same cell and sizes."""
    with torch.no_grad():
        for mine, given in zip(mixer.weights, weights, strict=True):
            require((mine is None) == (given is None), f"{mixer.spec!r}: give weights with the same biases.")
            if mine is not None and given is not None:
                mine.copy_(given)


def mixer_to_torch(mixer: RecurrentMixer) -> nn.RNNBase:
    """A batch-first torch module with the same states; where N is not the width, apply `mixer.out` to its output."""
    kind = {LSTM: nn.LSTM, GRU: nn.GRU, RNN: nn.RNN}[type(mixer.spec)]
    require(
        mixer.cell.name in ("tanh", "lstm", "gru_after"),
        f"{mixer.spec!r} is not a torch module: torch has the tanh RNN, the LSTM and GRU(reset={Reset.AFTER}).",
    )
    x, h, bias, inner = (None if w is None else w.detach().clone() for w in mixer.weights)
    assert x is not None and h is not None
    n = mixer.hidden
    module = kind(mixer.width, n, bias=bias is not None, batch_first=True).to(x)
    found = {"weight_ih_l0": x, "weight_hh_l0": h}
    if bias is not None:
        found |= {"bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    if kind is nn.GRU:
        found = {name: _flipped(stacked, n) for name, stacked in found.items()}
        if inner is not None:
            found["bias_hh_l0"][2 * n :] = inner
    module.load_state_dict(found)
    return module
