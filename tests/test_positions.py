"""Position encodings against their published tables and their proven invariances, each with what must be rejected."""

import math

import pytest
import torch
from torch import Tensor

from threefold.errors import InputError
from threefold.ops.bias import alibi
from threefold.ops.place import packed, positions
from threefold.ops.rotate import frequencies, relayout, rotate, sinusoids
from threefold.positions import HeadPosition
from threefold.specs.attention import Linear, Softmax
from threefold.specs.features import Elu1, Taylor
from threefold.specs.positions import (
    Alibi,
    Decay,
    Layout,
    Learned,
    Relative,
    Rotary,
    Shaw,
    Sinusoidal,
    alibi_slopes,
)

F64 = torch.float64

ADDED = [
    [1.841470984808, 2.540302305868, 3.009999833334, 4.999950000417],
    [1.909297426826, 1.583853163453, 3.019998666693, 4.999800006667],
    [1.14112000806, 1.0100075034, 3.029995500202, 4.999550033749],
    [0.243197504692, 1.346356379136, 3.039989334187, 4.999200106661],
]
TURNED = [
    [-1.142639663748, 1.922075596544, 2.959850667913, 4.029799501669],
    [-2.234741690199, 0.077003753731, 2.919405353226, 4.059196026746],
    [-1.27223251272, -1.838864985141, 2.878668100437, 4.088186635603],
    [0.859961369752, -2.064089737035, 2.837642983236, 4.116768429204],
]


def turn(x: Tensor, at: int | Tensor, layout: Layout = Layout.INTERLEAVED) -> Tensor:
    """One vector, or rows of vectors, at one position or at one each."""
    rows = x.reshape(1, -1, 1, x.shape[-1])
    at = torch.as_tensor(at).expand(rows.shape[1])[None]
    return rotate(rows, at, 10000.0, layout).reshape(x.shape)


def test_the_32_published_entries() -> None:
    """T-PE-1."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64)
    at = torch.tensor([[1, 2, 3, 4]])
    rows = x.expand(1, 4, 4)
    added = Sinusoidal().build(4)(rows, at)[0]
    turned = Rotary().build(4)(rows[:, :, None], at)[0, :, 0]
    assert (added - torch.tensor(ADDED, dtype=F64)).abs().max() <= 1e-11
    assert (turned - torch.tensor(TURNED, dtype=F64)).abs().max() <= 1e-11
    halves = Rotary(layout=Layout.HALVES).build(4)(rows[:, :, None], at)[0, :, 0]
    assert (halves - turned).abs().max() > 0.1, "the other layout pairs other entries"


def shift_matrix(step: int, width: int) -> Tensor:
    """M_k with PE(p + k) = M_k PE(p): a rotation per pair (sin, cos)."""
    matrix = torch.zeros(width, width, dtype=F64)
    for i, theta in enumerate(frequencies(width, 10000.0).tolist()):
        c, s = math.cos(step * theta), math.sin(step * theta)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]], dtype=F64)
    return matrix


def test_a_sinusoidal_code_moves_by_one_matrix() -> None:
    """T-PE-3."""
    code = sinusoids(torch.arange(205), 16, 10000.0)
    moved = code[:200] @ shift_matrix(5, 16).T
    assert (moved - code[5:]).abs().max() <= 1e-12
    assert (moved - code[4:204]).abs().max() > 0.1


def test_sinusoidal_products_depend_on_distance_only() -> None:
    """T-PE-4."""
    code = sinusoids(torch.arange(64), 16, 10000.0)
    gram = code @ code.T
    for k in range(64):
        diagonal = gram.diagonal(k)
        assert (diagonal - diagonal[0]).abs().max() <= 1e-12
    assert (gram.diagonal() - 8).abs().max() <= 1e-12
    mixed = code * torch.linspace(1, 2, 16, dtype=F64)
    mixed = (mixed @ mixed.flip(-1).T).diagonal(1)
    assert mixed.max() - mixed.min() > 0.1, "a code seen through a matrix no longer depends on distance only"


@pytest.mark.parametrize(("width", "reach", "nearest"), [(16, 20000, 1.015), (128, 20000, 1.953), (1024, 5000, 5.208)])
def test_sinusoidal_positions_stay_apart(width: int, reach: int, nearest: float) -> None:
    """T-PE-5."""
    theta = frequencies(width, 10000.0)
    k = torch.arange(1, reach + 1, dtype=F64)
    squared = torch.zeros_like(k)
    for each in theta:
        squared += 2 - 2 * (k * each).cos()
    distance = squared.sqrt()
    assert distance.argmin() == 0
    assert abs(distance.min().item() - nearest) < 1e-3


@pytest.mark.parametrize(("width", "k", "distance"), [(2, 710, 6.0289e-5), (4, 13823, 7.7e-3)])
def test_tiny_widths_nearly_collide(width: int, k: int, distance: float) -> None:
    """T-PE-5."""
    codes = sinusoids(torch.tensor([0, k]), width, 10000.0)
    assert (codes[1] - codes[0]).norm().item() == pytest.approx(distance, rel=1e-2)
    assert (sinusoids(torch.tensor(k), 16, 10000.0) - sinusoids(torch.tensor(0), 16, 10000.0)).norm() > 1


def test_a_learned_table_can_be_the_sinusoidal_one_and_ends() -> None:
    """T-PE-6."""
    x, at = torch.randn(2, 9, 8, dtype=F64), torch.arange(9)[None]
    learned = Learned(9).build(8).double()
    with torch.no_grad():
        learned.table.copy_(sinusoids(torch.arange(9), 8, 10000.0))
    assert torch.equal(learned(x, at), Sinusoidal().build(8)(x, at))
    with pytest.raises(InputError, match="position 9 is beyond Learned"):
        learned(x, at + 1)


def scores_at(kind: str, at: Tensor, q: Tensor, k: Tensor) -> Tensor:
    torch.manual_seed(5)
    match kind:
        case "rotary":
            return turn(q, at) @ turn(k, at).T
        case "alibi":
            return q @ k.T + alibi(torch.tensor([0.5], dtype=F64), at[None], at[None])[0, 0]
        case "relative":
            module = Relative(buckets=8, max_distance=16).build(1, 8, False).double()
            return q @ k.T + module(q[None, :, None], at[None], at[None])[0, 0]
        case "shaw":
            module = Shaw(3).build(1, 8, False).double()
            return q @ k.T + module(q[None, :, None], at[None], at[None])[0, 0]
        case "sinusoidal":
            code = sinusoids(at, 8, 10000.0)
        case _:
            code = 3 * torch.randn(64, 8, dtype=F64)[at]
    return (q + code) @ (k + code).T


@pytest.mark.parametrize("kind", ["rotary", "alibi", "relative", "shaw", "sinusoidal", "learned"])
def test_only_relative_positions_survive_a_shift(kind: str) -> None:
    """T-SHIFT."""
    torch.manual_seed(0)
    q, k = 3 * torch.randn(10, 8, dtype=F64), 3 * torch.randn(10, 8, dtype=F64)
    at = torch.arange(10)
    change = (scores_at(kind, at + 1, q, k) - scores_at(kind, at, q, k)).abs().max()
    if kind in ("sinusoidal", "learned"):
        assert change > 1
    else:
        assert change <= 1e-12


@pytest.mark.parametrize("layout", list(Layout))
def test_rotated_products_depend_on_the_difference(layout: Layout) -> None:
    """T-ROPE-1."""
    torch.manual_seed(1)
    q, k = torch.randn(16, dtype=F64), torch.randn(16, dtype=F64)
    for m, n in ((3, 9), (0, 0), (40, 2)):
        here = turn(q, m, layout) @ turn(k, n, layout)
        for s in (1, 100, 10**5):
            assert abs(turn(q, m + s, layout) @ turn(k, n + s, layout) - here) <= 1e-10
        assert abs(turn(q, m + 1, layout) @ turn(k, n, layout) - here) > 1e-3


@pytest.mark.parametrize("layout", list(Layout))
def test_rotation_is_orthogonal_and_composes(layout: Layout) -> None:
    """T-ROPE-2."""
    eye = torch.eye(8, dtype=F64)
    five, two = turn(eye, 5, layout).T, turn(eye, 2, layout).T
    assert (five.T @ five - eye).abs().max() <= 1e-12
    assert (two.T @ five - turn(eye, 3, layout).T).abs().max() <= 1e-12
    x = torch.randn(8, dtype=F64)
    assert abs(turn(x, 12345, layout).norm() - x.norm()) <= 1e-12


def test_rotation_belongs_behind_the_projections() -> None:
    """T-ROPE-3."""
    torch.manual_seed(2)
    wq, wk = torch.randn(8, 8, dtype=F64), torch.randn(8, 8, dtype=F64)
    x, z = torch.randn(8, dtype=F64), torch.randn(8, dtype=F64)
    before = [(turn(x, m) @ wq) @ (turn(z, n) @ wk) for m, n in ((3, 9), (13, 19))]
    behind = [turn(x @ wq, m) @ turn(z @ wk, n) for m, n in ((3, 9), (13, 19))]
    assert abs(before[0] - before[1]) > 1
    assert abs(behind[0] - behind[1]) <= 1e-11


@pytest.mark.parametrize(
    "spec", [Softmax(heads=2, position=Rotary()), Linear(heads=2, features=Taylor(2), position=Rotary())]
)
def test_rotation_is_called_once_for_queries_and_once_for_keys(spec: Softmax | Linear) -> None:
    """T-ROPE-5."""
    mixer = spec.build(8)
    calls = []
    for module in mixer.modules():
        if isinstance(module, HeadPosition):
            module.register_forward_hook(lambda _, args, out: calls.append(args[0].shape))
    mixer(torch.randn(2, 6, 8))
    assert calls == [(2, 6, 2, 4)] * 2, "each token once, never a pair"


def test_layouts_are_one_rotation_in_two_orders() -> None:
    x = torch.randn(5, 8, dtype=F64)
    order = relayout(8, Layout.HALVES)
    assert torch.equal(order[relayout(8, Layout.INTERLEAVED)], torch.arange(8))
    assert torch.equal(turn(x, 7)[:, order], turn(x[:, order], 7, Layout.HALVES))
    assert not torch.allclose(turn(x, 7), turn(x, 7, Layout.HALVES))


def test_angles_do_not_lose_positions_in_bfloat16() -> None:
    x = torch.randn(1, 2000, 1, 16).bfloat16()
    at = torch.arange(2000)[None]
    exact = rotate(x.double(), at, 10000.0, Layout.INTERLEAVED)
    assert (rotate(x, at, 10000.0, Layout.INTERLEAVED) - exact).abs().max() < 0.02
    assert (rotate(x, at.bfloat16().long(), 10000.0, Layout.INTERLEAVED) - exact).abs().max() > 1


def test_padding_advances_no_position() -> None:
    valid = torch.tensor([[0, 1, 0, 1, 1], [1, 1, 1, 0, 0]]).bool()
    count = torch.tensor([0, 4])
    at = positions(count, 5, valid)
    assert at[0, valid[0]].tolist() == [0, 1, 2] and at[1, valid[1]].tolist() == [4, 5, 6]
    slots = packed(count, valid)
    assert slots[0].tolist() == [3, 0, 4, 1, 2] and slots[1].tolist() == [4, 5, 6, 7, 8]
    assert positions(count, 2).tolist() == [[0, 1], [4, 5]]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Linear(position=Relative()), "Use Decay"),
        (lambda: Linear(position=Alibi()), "Use Decay"),
        (lambda: Softmax(position=Decay()), "takes positions at heads, scores"),
        (lambda: Softmax(position=Sinusoidal()), "Input positions belong to the net"),
        (lambda: Linear(position=Decay(), causal=False), "takes positions at heads"),
        (lambda: Linear(heads=1, key_dim=3, position=Rotary()).build(6), "key_dim 3 is odd"),
        (lambda: Relative(buckets=6), "multiple of 4"),
        (lambda: Shaw(0), "distance >= 1"),
    ],
)
def test_what_is_not_sound_is_refused_with_the_alternative(make, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_decay_of_a_positive_map_fades_by_exactly_its_rate() -> None:
    mixer = Linear(heads=2, features=Elu1(), position=Decay(), normalised=False).build(4).double()
    x, z = torch.randn(1, 1, 4, dtype=F64), torch.zeros(1, 3, 4, dtype=F64)
    _, state = mixer.scan(x, mixer.init_state(1))
    with torch.no_grad():
        mixer.heads.value.weight.zero_()
    _, later = mixer.scan(z, state)
    factor = torch.exp(-3 * torch.tensor(alibi_slopes(2), dtype=F64))
    assert torch.allclose(later.memory, state.memory * factor[:, None, None], rtol=1e-12)
