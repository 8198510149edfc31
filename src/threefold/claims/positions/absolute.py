"""Absolute and relative encodings: what a shift changes, what is learned, what it costs."""

from __future__ import annotations

import torch

from threefold.claims import counted
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed
from threefold.claims.positions.codes import RELATIVE, code, coded, shift_change, table
from threefold.errors import InputError
from threefold.plan.count import count
from threefold.specs.positions import Alibi, Learned, Rotary, Sinusoidal

EQUAL = at_most(1e-12)
LENGTH, WIDTH = 2048, 1024  # of the documents' model


def _raises(position: int) -> bool:
    try:
        table(16, 8)(random(1, 1, 8), torch.tensor([[position]]))
    except InputError:
        return True
    return False


@claim(
    "000-4.1-learn",
    "a learned encoding can be optimised and is more powerful",
    "below T_max a learned table can equal any fixed one; it says nothing about the loss (E7) and is "
    "undefined from T_max on",
    recorded=Outcome.CONDITIONAL,
)
def superset(e: Evidence) -> None:
    learned = table(16, 8)
    with torch.no_grad():
        learned.table.copy_(code(range(16), 8))
        difference = error(learned(random(1, 16, 8), torch.arange(16)[None])[0], coded(random(1, 16, 8)[0], range(16)))
    e.when("p < T_max: a table set to PE against the sinusoidal encoding", difference, EQUAL)
    e.otherwise("position T_max − 1 has no code", _raises(15), equals(False))
    e.otherwise("position T_max has no code", _raises(16), equals(False))
    e.limit("Whether training finds a better table is experiment E7.")
    e.counter_example("T_max = 16: position 16 raises an error; the sinusoidal code has it.")


@claim(
    "000-4.1-abs",
    "absolute encodings are not robust: prepending a word changes the result",
    "at the level of scores; prepending also adds a key, so outputs change under every encoding",
    recorded=Outcome.TRUE,
)
def not_robust(e: Evidence) -> None:
    for scheme in ("sinusoidal", "learned"):
        e.said(f"{scheme}: largest change of a score when all tokens move by one", shift_change(scheme), above(1e-2))
    for scheme in ("RoPE", "ALiBi"):
        e.truth(f"{scheme}: the same change", shift_change(scheme), EQUAL)


@claim(
    "000-4.1-rel", "a relative encoding uses only relative distance", "RoPE, ALiBi, Shaw and T5", recorded=Outcome.TRUE
)
def only_distance(e: Evidence) -> None:
    for scheme in RELATIVE:
        for by in (1, 40):
            e.said(f"{scheme}: largest change of a score after a shift by {by}", shift_change(scheme, by), EQUAL)
    e.truth("sinusoidal, the control", shift_change("sinusoidal"), above(1e-2))


def _learned_cost(e: Evidence) -> None:
    """Parameters of the documents' size, and the work of adding the code."""
    sizes = {}
    for spec in (Learned(LENGTH), Sinusoidal()):
        with torch.device("meta"):
            module = spec.build(WIDTH)
        sizes[type(spec).__name__] = sum(p.numel() for p in module.parameters())
    e.when("parameters of a learned table, 2,048 × 1,024", sizes["Learned"], above(0))
    e.truth("parameters of a learned table", sizes["Learned"], equals(2_097_152))
    e.truth("parameters of the sinusoidal code", sizes["Sinusoidal"], equals(0))
    e.truth("share of the documents' 139,994,112 parameters, %", 100 * sizes["Learned"] / 139_994_112, printed("1.50"))
    x, at = random(1, 16, 8), torch.arange(16)[None]
    flops = [count(m, x, at, backward=False).forward for m in (table(16, 8), Sinusoidal().build(8))]
    e.otherwise("extra FLOPs of matrix products, forward", flops[0] - flops[1], above(0))
    added = [counted.additions(m, x, at) for m in (table(16, 8), Sinusoidal().build(8))]
    e.otherwise("extra additions per token and entry, forward", (added[0] - added[1]) // 128, above(0))


@claim(
    "000-4.1-d1",
    "a learned encoding takes extra memory and computation",
    "memory T·d = 2,097,152 numbers; forward arithmetic is the same single addition",
    recorded=Outcome.CONDITIONAL,
)
def learned_cost_000(e: Evidence) -> None:
    _learned_cost(e)
    e.limit("Its gradient and optimiser state are extra work in training.")


@claim(
    "003-4.1-lrn-cost",
    "a learned encoding is computationally expensive",
    "T·d extra parameters, no extra forward FLOPs",
    recorded=Outcome.CONDITIONAL,
)
def learned_cost_003(e: Evidence) -> None:
    _learned_cost(e)


def _toeplitz(d: int = 16, n: int = 40) -> float:
    """How far PE PE^T is from depending on p - q only."""
    gram = code(range(n), d) @ code(range(n), d).T
    return float((gram[1:, 1:] - gram[:-1, :-1]).abs().max())


def _translation(k: int = 5, d: int = 16) -> float:
    """How far PE(p + k) is from M_k PE(p) with one matrix M_k of rotations for all p < 200."""
    here, there = code(range(200), d), code(range(k, 200 + k), d)
    M = torch.linalg.lstsq(here, there).solution
    return error(here @ M, there)


@claim(
    "000-4.1-d3",
    "an absolute encoding discards that relative position matters",
    "not as a code: `PE(p+k) = M_k PE(p)`, and `PE(p)·PE(q)` depends on p − q only; the additive score does not",
    recorded=Outcome.CONDITIONAL,
)
def discards_relative(e: Evidence) -> None:
    e.when("sinusoidal added to x: change of a score under a shift", shift_change("sinusoidal"), above(1e-2))
    e.otherwise("sinusoidal code alone: how far PE·PE^T is from depending on p − q only", _toeplitz(), above(1e-2))
    e.truth("PE(p+5) against one matrix times PE(p), p < 200", _translation(), at_most(1e-10))
    e.truth("PE(p)·PE(p) = d/2", (code([7], 16) ** 2).sum(), near(8.0, 1e-12))


@claim(
    "003-4.1-abs-ctx",
    "an absolute encoding does not inherently represent relations between positions",
    "true of an untrained learned table; false for sinusoidal",
    recorded=Outcome.CONDITIONAL,
)
def no_relations(e: Evidence) -> None:
    rows = random(40, 16, seed=3)
    gram = rows @ rows.T
    e.when(
        "untrained table: how far its products are from a function of p − q",
        (gram[1:, 1:] - gram[:-1, :-1]).abs().max(),
        above(1e-2),
    )
    e.otherwise("sinusoidal: the same", _toeplitz(), above(1e-2))
    e.truth("PE(p+5) against one matrix times PE(p)", _translation(), at_most(1e-10))


@claim(
    "003-4.1-fix-notrain",
    "a fixed encoding is not trained, so positional features cannot overfit",
    "it has 0 parameters; the weights that read it still fit absolute positions",
    recorded=Outcome.CONDITIONAL,
)
def not_trained(e: Evidence) -> None:
    e.when(
        "parameters of the sinusoidal encoding", sum(p.numel() for p in Sinusoidal().build(64).parameters()), equals(0)
    )
    x, W = torch.zeros(1, 8, dtype=torch.float64), random(8, 8, seed=2).requires_grad_()
    (coded(x, [3]) @ W).square().sum().backward()
    assert W.grad is not None
    e.otherwise("gradient that the code alone sends into W_q", W.grad.norm(), at_most(0.0))
    e.limit("Whether that overfits is experiment E7.")
    e.counter_example("x = 0: W_q still receives a gradient from PE(3), and can learn something about position 3.")


@claim(
    "003-4.1-abs-long",
    "sinusoidal codes may not tell far positions apart, being periodic",
    "injective on all integers (θ_1 = 1 and 2π is irrational); near-collisions only for tiny d",
    recorded=Outcome.FALSE,
)
def far_positions(e: Evidence) -> None:
    for d, reach, digits in ((16, 20000, "1.015"), (128, 20000, "1.953"), (1024, 5000, "5.208")):
        codes = code(range(reach + 1), d)
        distances = (codes[1:] - codes[0]).norm(dim=1)
        e.said(f"d = {d}: smallest distance of codes up to k = {reach:,}", distances.min(), at_most(1e-2))
        e.truth(f"d = {d}: the same", distances.min(), printed(digits))
        e.truth(f"d = {d}: the nearest position is k", int(distances.argmin()) + 1, equals(1))
    for d, k, digits in ((2, 710, "6.03e-5"), (4, 13823, "7.7e-3")):
        pair = code([0, k], d)
        e.truth(f"tiny d = {d}: distance of codes at k = {k}", (pair[1] - pair[0]).norm(), printed(digits))
    e.counter_example("d = 16: of the first 20,000 distances the nearest code is the neighbour's, 1.015 away.")


@claim(
    "003-4.1-rel-complex",
    "relative encodings need changes in self-attention",
    "ALiBi adds a matrix to scores, RoPE turns q and k, Shaw and T5 need tables; an absolute code is added before",
    recorded=Outcome.TRUE,
)
def inside_attention(e: Evidence) -> None:
    from threefold.specs.base import Site
    from threefold.specs.positions import Relative, Shaw

    for spec in (Alibi(), Rotary(), Relative(), Shaw()):
        e.said(f"{type(spec).__name__} enters at the input", spec.site is Site.INPUT, equals(False))
    e.truth("Sinusoidal enters at the input", Sinusoidal().site is Site.INPUT, equals(True))
    x = random(1, 6, 12, seed=1)
    for spec in (Alibi(), Rotary()):
        e.said(f"{type(spec).__name__} changes the attention layer's output by", _changes(spec, x), above(1e-3))


def _changes(position: Alibi | Rotary, x: torch.Tensor) -> float:
    from threefold.specs.attention import Softmax

    plain, other = (Softmax(heads=2, position=p).build(12).double() for p in (None, position))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(random(*parameter.shape, seed=parameter.shape[0]))
        other.load_state_dict(plain.state_dict())
        return error(other(x), plain(x))
