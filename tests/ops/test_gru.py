"""Both published GRUs: their derivations against autograd, and that they are two functions, not one."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from threefold.ops.cells import Cell, Weights
from threefold.ops.gru import ResetAfter, ResetBefore
from threefold.ops.lstm import LSTMCell
from threefold.ops.recurrence import derivation, sequence, step

B, T, D, N = 4, 6, 3, 5


def relative(found: Tensor, wanted: Tensor) -> float:
    return ((found - wanted).norm() / wanted.norm()).item()


def drawn(gates: int = 3, *, inner: bool = False) -> tuple[Tensor, tuple[Tensor], Weights]:
    draw = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return (0.6 * torch.randn(*shape, generator=draw, dtype=torch.float64)).requires_grad_()

    weights = normal(gates * N, D), normal(gates * N, N), normal(gates * N), normal(N) if inner else None
    return normal(B, T, D), (normal(B, N),), Weights(*weights)


def printed(x: Tensor, h: Tensor, w: Weights, *, after: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """The equations one gate and one step at a time, and every value whose gradient has a name."""
    (W_rx, W_ux, W_cx), (W_rh, W_uh, W_ch), (b_r, b_u, b_c) = w.x.chunk(3), w.h.chunk(3), w.bias.chunk(3)
    hs, watched = [], {}
    for t in range(T):
        gamma_r, gamma_u = x[:, t] @ W_rx.T + h @ W_rh.T + b_r, x[:, t] @ W_ux.T + h @ W_uh.T + b_u
        r, u = torch.sigmoid(gamma_r), torch.sigmoid(gamma_u)
        if after:
            m = h @ W_ch.T + w.inner
            p = x[:, t] @ W_cx.T + b_c + r * m
        else:
            p = x[:, t] @ W_cx.T + (r * h) @ W_ch.T + b_c
        candidate = torch.tanh(p)
        h = u * candidate + (1 - u) * h
        hs.append(h)
        values = {
            "dGamma_r": r,
            "dGamma_u": u,
            "dgamma_r": gamma_r,
            "dgamma_u": gamma_u,
            "dp": p,
            "dc_tilde": candidate,
        }
        values |= {"dh": h} | ({"dm": m} if after else {})
        for name, value in values.items():
            value.retain_grad()
            watched.setdefault(name, []).append(value)
    return torch.stack(hs, 1), watched


@pytest.mark.parametrize("cell", [ResetBefore(), ResetAfter()], ids=lambda cell: cell.name)
def test_every_signal_and_gradient_is_autograds(cell: Cell) -> None:
    """T-GRU-1."""
    after = isinstance(cell, ResetAfter)
    x, state, w = drawn(inner=after)
    h, watched = printed(x, state[0], w, after=after)
    upstream = torch.randn(h.shape, generator=torch.Generator().manual_seed(1), dtype=h.dtype)
    h.backward(upstream)
    with torch.no_grad():
        named, found = derivation(cell, x, state, w, (upstream,))
    assert relative(named["h"], h) <= 1e-12
    for name, each in watched.items():
        assert relative(named[name], torch.stack([value.grad for value in each], 1)) <= 1e-12, name
    for mine, leaf in zip((found.x, *found.state, *found.weights), (x, *state, *w), strict=True):
        assert leaf is None or relative(mine, leaf.grad) <= 1e-12


def test_reset_after_is_torchs_gru() -> None:
    """T-GRU-2: With weights [W_r; -W_u; W_c]: torch's z is 1 - Gamma_u."""
    x, state, w = drawn(inner=True)
    gru = torch.nn.GRU(D, N, batch_first=True).double()
    sign = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64).repeat_interleave(N)
    hidden_bias = torch.cat((torch.zeros(2 * N, dtype=torch.float64), w.inner))
    found = {"weight_ih_l0": w.x * sign[:, None], "weight_hh_l0": w.h * sign[:, None], "bias_ih_l0": w.bias * sign}
    gru.load_state_dict(found | {"bias_hh_l0": hidden_bias})
    wanted, last = gru(x, state[0][None])
    (h,), (h_T,) = sequence(ResetAfter(), x, state, w)
    assert relative(h, wanted) <= 1e-12
    assert relative(h_T, last[0]) <= 1e-12


def test_the_two_variants_are_different_functions() -> None:
    """T-GRU-2."""
    x, state, w = drawn()
    (before,), _ = sequence(ResetBefore(), x, state, w)
    (after,), _ = sequence(ResetAfter(), x, state, w)
    assert (before - after).abs().max() > 1e-2


class DerivativeOfTheOther(ResetAfter):
    """Runs one variant and differentiates the other: the slip that weights of the same shape invite."""

    def retreat(self, upstream, before, after, kept, w):
        n = before[0].shape[-1]
        return ResetBefore().retreat(upstream, before, after, kept[:, : 3 * n], w)


def test_the_other_variants_derivative_is_rejected() -> None:
    x, state, w = drawn()
    upstream = (torch.ones(B, T, N, dtype=torch.float64),)
    with torch.no_grad():
        _, right = derivation(ResetAfter(), x, state, w, upstream)
        _, wrong = derivation(DerivativeOfTheOther(), x, state, w, upstream)
    assert relative(wrong.x, right.x) > 1e-2
    assert relative(wrong.weights.h, right.weights.h) > 1e-2


def test_three_quarters_of_an_lstm() -> None:
    """T-GRU-3: Parameters and counted matrix FLOPs: exactly 3/4, at 100 -> 128."""
    found = {}
    for cell in (LSTMCell(), ResetBefore()):
        g = len(cell.gates)
        w = Weights(*(torch.zeros(*shape, device="meta") for shape in ((g * 128, 100), (g * 128, 128), (g * 128,))))
        state = tuple(torch.zeros(32, 128, device="meta") for _ in cell.parts)
        with FlopCounterMode(display=False) as counter:
            for x in torch.zeros(100, 32, 100, device="meta"):
                state = step(cell, x, state, w)
        found[cell.name] = sum(t.numel() for t in w[:3]), counter.get_total_flops()
    assert found == {"lstm": (117_248, 747_110_400), "gru_before": (87_936, 560_332_800)}
    assert all(4 * gru == 3 * lstm for gru, lstm in zip(found["gru_before"], found["lstm"], strict=True))
