"""Weights to and from torch.nn.MultiheadAttention, and between the two layouts of Rotary."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.mixers.attention import SoftmaxEverywhere, SoftmaxMixer
from threefold.mixers.cross import SoftmaxCross
from threefold.mixers.linear import LinearEverywhere, LinearMixer
from threefold.ops.rotate import relayout
from threefold.specs.attention import Attention, Softmax
from threefold.specs.cross import CrossAttention
from threefold.specs.positions import Layout, Rotary

Self = SoftmaxMixer | SoftmaxEverywhere
Turned = Self | LinearMixer | LinearEverywhere


def attention_from_torch(module: nn.MultiheadAttention, *, causal: bool) -> Self:
    """Self-attention with the module's weights. `causal` replaces the mask that torch asks for at every call."""
    require(
        module.kdim == module.vdim == module.embed_dim,
        f"this MultiheadAttention reads keys of {module.kdim} and values of {module.vdim} beside a width of "
        f"{module.embed_dim}: use cross_from_torch.",
    )
    spec = Softmax(heads=module.num_heads, causal=causal, bias=module.in_proj_bias is not None)
    mixer = spec.build(module.embed_dim)
    assert isinstance(mixer, SoftmaxMixer | SoftmaxEverywhere)
    _fill(mixer, module)
    return mixer


def cross_from_torch(module: nn.MultiheadAttention) -> SoftmaxCross:
    """Cross attention with the module's weights, for a memory that gives both keys and values."""
    require(
        module.kdim == module.vdim,
        f"this MultiheadAttention reads keys of {module.kdim} and values of {module.vdim}: "
        "a memory has one width, so give one with kdim == vdim.",
    )
    spec = CrossAttention(Softmax(heads=module.num_heads, causal=False, bias=module.in_proj_bias is not None))
    mixer = spec.build(module.embed_dim, module.kdim)
    assert isinstance(mixer, SoftmaxCross)
    _fill(mixer, module)
    return mixer


def attention_to_torch(mixer: Self | SoftmaxCross) -> nn.MultiheadAttention:
    """A batch-first nn.MultiheadAttention with the mixer's weights; causality becomes the caller's `attn_mask`."""
    spec = mixer.spec.over if isinstance(mixer.spec, CrossAttention) else mixer.spec
    assert isinstance(spec, Softmax)
    heads = mixer.heads
    width = heads.query.in_features
    require(
        heads.key_dim == heads.value_dim == width // spec.heads and width % spec.heads == 0,
        f"nn.MultiheadAttention has key_dim = value_dim = width / heads; this mixer has {heads.key_dim} and "
        f"{heads.value_dim} of width {width}: only such mixers convert.",
    )
    require(spec.groups == spec.heads, f"nn.MultiheadAttention has no grouped keys: {spec!r} does not convert.")
    require(not spec.qk_norm, f"nn.MultiheadAttention has no query and key norm: {spec!r} does not convert.")
    require(spec.position is None, f"nn.MultiheadAttention has no positions: {spec!r} does not convert.")
    source = heads.key.in_features
    weight = heads.query.weight
    module = nn.MultiheadAttention(
        width, spec.heads, bias=spec.bias, kdim=source, vdim=source, batch_first=True, dtype=weight.dtype
    ).to(weight.device)
    with torch.no_grad():
        for mine, theirs in _pairs(mixer, module):
            theirs.copy_(mine)
    return module


def with_layout(mixer: Turned, layout: Layout) -> Turned:
    """The same function with Rotary in `layout`: rows of the query and key projections change places.

    Everything between a projection and the rotation acts entry by entry or on the whole head, so places do not matter.
    """
    spec = mixer.spec
    assert isinstance(spec, Attention)
    require(isinstance(spec.position, Rotary), f"{spec!r} has no Rotary() whose layout could change.")
    assert isinstance(spec.position, Rotary)
    built = replace(spec, position=replace(spec.position, layout=layout)).build(mixer.width)
    assert isinstance(built, SoftmaxMixer | SoftmaxEverywhere | LinearMixer | LinearEverywhere)
    built.to(mixer.heads.query.weight).load_state_dict(mixer.state_dict())
    if layout is spec.position.layout:
        return built
    heads = built.heads
    order = relayout(heads.key_dim, layout)
    moved = [heads.query, heads.key]
    moved += [
        norm for norm in (getattr(heads, "query_norm", None), getattr(heads, "key_norm", None)) if norm is not None
    ]
    with torch.no_grad():
        for parameter in (each for part in moved for each in part.parameters()):
            rows = parameter.unflatten(0, (-1, heads.key_dim))
            parameter.copy_(rows[:, order].flatten(0, 1).clone())
    return built


def _fill(mixer: Self | SoftmaxCross, module: nn.MultiheadAttention) -> None:
    if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
        raise InputError("add_bias_kv and add_zero_attn add keys that are no tokens: give a module without them.")
    require(module.dropout == 0.0, f"dropout={module.dropout} inside attention has no counterpart: set it to 0 first.")
    mixer.to(module.out_proj.weight)
    with torch.no_grad():
        for mine, theirs in _pairs(mixer, module):
            mine.copy_(theirs)


def _pairs(mixer: Self | SoftmaxCross, module: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
    """(this library's parameter, torch's) for each parameter."""
    heads = mixer.heads
    parts = (heads.query, heads.key, heads.value)
    weights = (
        (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        if module.in_proj_weight is None
        else module.in_proj_weight.chunk(3)
    )
    pairs = [(part.weight, weight) for part, weight in zip(parts, weights, strict=True)]
    pairs.append((heads.output.weight, module.out_proj.weight))
    if module.in_proj_bias is not None:
        pairs += [(part.bias, bias) for part, bias in zip(parts, module.in_proj_bias.chunk(3), strict=True)]
        pairs.append((heads.output.bias, module.out_proj.bias))
    return pairs
