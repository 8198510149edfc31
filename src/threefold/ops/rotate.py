"""Rotary positions: pair i of a head at position p is turned by p.theta_i. A function of explicit integer positions."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from threefold.ops.scan import accumulator
from threefold.specs.positions import Layout


def frequencies(dim: int, base: float, device: torch.device | None = None) -> Float[Tensor, " p"]:
    """theta_i = base^(-2(i-1)/d), i = 1..ceil(d/2), in float64."""
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)


def angles(at: Int[Tensor, "*s"], dim: int, base: float) -> Float[Tensor, "*s p"]:
    """p.theta_i in float64 from integer positions: in bfloat16 the integers above 256 already collide."""
    return at[..., None].to(torch.float64) * frequencies(dim, base, at.device)


def rotate(
    x: Float[Tensor, "b t h k"], at: Int[Tensor, "#b t"], base: float, layout: Layout
) -> Float[Tensor, "b t h k"]:
    """R_p x for every head, R_p block-diagonal in 2 x 2 rotations by p.theta_i: (R_m q).(R_n k) = q.R_{n-m} k."""
    wide = accumulator(x.dtype)
    turn = angles(at, x.shape[-1], base)[:, :, None]
    cos, sin = turn.cos().to(wide), turn.sin().to(wide)
    if layout is Layout.HALVES:
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1).to(x.dtype)
    pairs = x.to(wide).unflatten(-1, (-1, 2))
    if torch.compiler.is_compiling():  # which has no complex numbers
        first, second = pairs.unbind(-1)
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2).to(x.dtype)
    turned = torch.view_as_complex(pairs.contiguous()) * torch.view_as_complex(torch.stack([cos, sin], -1))
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def sinusoids(at: Int[Tensor, "*s"], width: int, base: float) -> Float[Tensor, "*s d"]:
    """[sin p.theta_1, cos p.theta_1, sin p.theta_2, ...] in float64; an odd width ends with a sine."""
    turn = angles(at, width, base)
    return torch.stack([turn.sin(), turn.cos()], -1).flatten(-2)[..., :width]


def relayout(key_dim: int, layout: Layout) -> Int[Tensor, " k"]:
    """Which entry of the other layout comes to each place of `layout`: x_halves = x_pairs[relayout(K, HALVES)]."""
    pairs = torch.arange(key_dim).view(-1, 2) if layout is Layout.HALVES else torch.arange(key_dim).view(2, -1)
    return pairs.T.flatten()
