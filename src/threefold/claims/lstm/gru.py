"""LSTM beside GRU: size, arithmetic, and the chain of steps that no machine can run at the same time."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.claims import attend, counted
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, below, claim, equals, near
from threefold.ops import cells, gru, lstm, recurrence
from threefold.ops.cells import Cell
from threefold.plan.count import count
from threefold.specs.recurrent import GRU, LSTM, Recurrent, Reset

LENGTHS = (8, 16, 32, 64)
X, N = 100, 128  # input and hidden width of the comparison


def parameters(spec: Recurrent, width: int = X) -> int:
    """Parameters of the cell itself, one bias per gate."""
    module = spec.build(width)
    return sum(p.numel() for name, p in module.named_parameters() if not name.startswith("out."))


def cell_flops(cell: Cell, B: int = 32, T: int = 100) -> int:
    """FLOPs of a whole sequence, forward."""
    w = cells.Weights(counted.empty(len(cell.gates) * N, X), counted.empty(len(cell.gates) * N, N))
    state = tuple(counted.empty(B, N) for _ in cell.parts)
    return count(lambda x: cells.forward(cell, x, state, w)[0][0], counted.empty(T, B, X), backward=False).forward


def chain(cell: Cell, T: int) -> int:
    """Dependent steps between the first token and the last state."""
    rows = len(cell.gates) * 4
    w = cells.Weights(random(rows, 3, seed=1), random(rows, 4, seed=2).requires_grad_())
    state = tuple(torch.zeros(1, 4, dtype=torch.float64) for _ in cell.parts)
    for x in random(T, 1, 3, seed=3).unbind(0):
        state = recurrence.step(cell, x, state, w)
    return counted.depth(state[0])


def attention_chain(T: int) -> int:
    """The same for one attention layer."""
    x = random(T, 4, seed=1).requires_grad_()
    return counted.depth(attend.attend(x, x, x))


def generation_chain(T: int) -> int:
    """The same when each token is made of the output before it: attention with a cache."""
    from threefold.ops import cache, softmax

    x: Tensor = random(1, 1, 1, 4, seed=1).requires_grad_()
    state = cache.empty(x.new_empty(1, 1, 0, 4), x.new_empty(1, 1, 0, 4))
    for _ in range(T):
        x, state = softmax.step(x, x, x, state)
    return counted.depth(x)


def bends(values: list[int]) -> int:
    """How far a sequence at T = 8, 16, 32, 64 is from a + b T."""
    per_step = [(b - a) / n for a, b, n in zip(values, values[1:], (8, 16, 32), strict=False)]
    return int(max(per_step) - min(per_step))


def _ratio(e: Evidence, add: str) -> None:
    write = e.said if add == "said" else e.when
    found = {type(spec).__name__: parameters(spec) for spec in (LSTM(hidden=N), GRU(hidden=N, reset=Reset.BEFORE))}
    flops = [cell_flops(cell) for cell in (gru.ResetBefore(), lstm.LSTMCell())]
    write("parameters, GRU over LSTM", found["GRU"] / found["LSTM"], equals(0.75))
    write("FLOPs, GRU over LSTM", flops[0] / flops[1], equals(0.75))
    e.truth("LSTM 100 → 128, one bias: parameters", found["LSTM"], equals(117_248))
    e.truth("GRU 100 → 128, one bias: parameters", found["GRU"], equals(87_936))
    e.truth("LSTM, B = 32, T = 100: FLOPs", flops[1], equals(747_110_400))
    e.truth("GRU, B = 32, T = 100: FLOPs", flops[0], equals(560_332_800))


def _chain_ratio() -> float:
    """Steps that each further token adds to the chain, GRU over LSTM."""
    per_token = [(chain(cell, 64) - chain(cell, 32)) / 32 for cell in (gru.ResetBefore(), lstm.LSTMCell())]
    return per_token[0] / per_token[1]


@claim(
    "000-1.1-eff",
    "GRU is more efficient",
    "parameters and FLOPs are exactly 3/4 of the LSTM's; the chain of dependent steps is no shorter, "
    "and time depends on the kernel",
    recorded=Outcome.CONDITIONAL,
)
def efficient(e: Evidence) -> None:
    _ratio(e, "when")
    e.otherwise("dependent steps per token, GRU over LSTM", _chain_ratio(), at_most(0.75))
    e.limit("Time is experiment E2.")


@claim("003-1.1-heavy", "LSTM is heavier and has more parameters", "4 : 3", recorded=Outcome.TRUE)
def heavier(e: Evidence) -> None:
    lstm_size, gru_size = (parameters(spec) for spec in (LSTM(hidden=N), GRU(hidden=N, reset=Reset.BEFORE)))
    e.said("parameters, LSTM − GRU", lstm_size - gru_size, above(0))
    e.said("3 × LSTM − 4 × GRU", 3 * lstm_size - 4 * gru_size, equals(0))
    torch_sizes = [sum(p.numel() for p in kind(X, N).parameters()) for kind in (torch.nn.LSTM, torch.nn.GRU)]
    e.truth("torch keeps two biases per gate: LSTM", torch_sizes[0], equals(117_760))
    e.truth("torch keeps two biases per gate: GRU", torch_sizes[1], equals(88_320))
    x, h, w = random(2, 6, 3, seed=1), random(2, 4, seed=2), cells.Weights(random(12, 3, seed=3), random(12, 4, seed=4))
    before, after = (recurrence.sequence(cell, x, (h,), w)[0][0] for cell in (gru.ResetBefore(), gru.ResetAfter()))
    e.truth("the two published GRUs on the same weights differ by", error(before, after), above(1e-2))


@claim(
    "003-1.1-fast",
    "GRU usually trains faster",
    "3/4 of the arithmetic, an equal chain; time depends on the kernel (E2, C12)",
    recorded=Outcome.CONDITIONAL,
)
def faster(e: Evidence) -> None:
    _ratio(e, "when")
    e.otherwise("dependent steps per token, GRU over LSTM", _chain_ratio(), below(1.0))
    e.limit("Time is experiment E2: `threefold bench` measures both.")


@claim(
    "003-1.2",
    "the GPU is strong already: do not upgrade it, take a GRU",
    "cuts arithmetic by a quarter, not the chain of T dependent steps",
    recorded=Outcome.CONDITIONAL,
)
def take_a_gru(e: Evidence) -> None:
    _ratio(e, "when")
    chains = [chain(gru.ResetBefore(), T) for T in LENGTHS]
    e.otherwise(
        "GRU: dependent steps at T = 64 over those at T = 8 (a cure: 1)", chains[-1] / chains[0], near(1.0, 0.05)
    )
    e.limit("What a faster GPU gives is experiment E4.")


@claim(
    "C12",
    "slow LSTM/GRU: take a transformer, the O(T) part is serial (000); do not upgrade the GPU, take "
    "a GRU (003). Adjudicated: both in part",
    "GRU cuts arithmetic to exactly 3/4 but keeps the O(T) chain; stock CPU kernels may even be slower for it",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def both_in_part(e: Evidence) -> None:
    _ratio(e, "said")
    for name, cell in (("LSTM", lstm.LSTMCell()), ("GRU", gru.ResetBefore())):
        chains = [chain(cell, T) for T in LENGTHS]
        e.said(f"{name}: dependent steps at T = 64 − at T = 8", chains[-1] - chains[0], above(100))
    layers = [attention_chain(T) for T in LENGTHS]
    e.said("attention: dependent steps at T = 64 − at T = 8", layers[-1] - layers[0], equals(0))
    e.limit("Times are experiment E2.")


@claim(
    "000-1.2-serial",
    "LSTM and GRU have a serial part of O(T)",
    "the chain of dependent steps is affine in T; an attention layer's is constant",
    recorded=Outcome.TRUE,
)
def serial(e: Evidence) -> None:
    for name, cell in (
        ("LSTM", lstm.LSTMCell()),
        ("GRU, reset before", gru.ResetBefore()),
        ("GRU, reset after", gru.ResetAfter()),
    ):
        chains = [chain(cell, T) for T in LENGTHS]
        e.said(f"{name}: dependent steps at T = {LENGTHS}, distance from a + bT", bends(chains), equals(0))
        e.said(f"{name}: dependent steps per token", (chains[-1] - chains[0]) / 56, above(1.0))
    layers = [attention_chain(T) for T in LENGTHS]
    e.truth("attention: dependent steps at T = 64 − at T = 8", layers[-1] - layers[0], equals(0))


def _parallel(e: Evidence) -> None:
    layers = [attention_chain(T) for T in LENGTHS]
    e.when("training, all tokens given: dependent steps at T = 64 − at T = 8", layers[-1] - layers[0], equals(0))
    e.when("LSTM − attention at T = 64: dependent steps", chain(lstm.LSTMCell(), 64) - layers[-1], above(100))
    made = [generation_chain(T) for T in LENGTHS]
    e.otherwise("generation, token after token: dependent steps at T = 64 − at T = 8", made[-1] - made[0], equals(0))
    e.counter_example("Token 2 of a generated text is an input of token 3: no layer can start on token 3 before.")


@claim(
    "000-1.2-tr",
    "the transformer is the more parallelisable alternative",
    "in training with given targets; generation is T serial steps either way",
    recorded=Outcome.CONDITIONAL,
)
def transformer(e: Evidence) -> None:
    _parallel(e)


@claim(
    "001-3.3",
    "attention looks at different positions simultaneously with weights, the LSTM sequentially",
    "in training; generation is sequential for both",
    recorded=Outcome.CONDITIONAL,
)
def simultaneously(e: Evidence) -> None:
    _parallel(e)
