"""Blocks of the big matrix, what is zero in it, and what permuting the tokens does."""

from __future__ import annotations

import torch
from torch import Tensor

from threefold.claims import attend
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals
from threefold.claims.linear_map.maps import Attention, blocks, mixing, projection, sketch, zero_blocks

N, D = 4, 3
EQUAL = at_most(1e-12)
SIZES = (2048, 1024)  # N and D of the documents' model


def _subject(*, causal: bool = False) -> tuple[Attention, Tensor]:
    return Attention.drawn(D, causal=causal), attend.random(N, D, seed=5)


@claim(
    "003-5.2-n",
    "`O(N²D²)`: N²D² parameters, because attention has order n² parameters",
    "the dense ND → ND matrix has N²D² entries; attention learns 3D², whatever N",
    recorded=Outcome.FALSE,
)
def parameter_reason(e: Evidence) -> None:
    f, x = _subject()
    e.truth("the number: entries of the ND → ND matrix, N = 4, D = 3", mixing(f, x).numel(), equals(144))
    e.truth("the documents' sizes: N²D²", (SIZES[0] * SIZES[1]) ** 2, equals(4_398_046_511_104))
    e.truth("learned, the documents' sizes: 3D²", 3 * SIZES[1] ** 2, equals(3_145_728))
    e.said(
        "the reason: learned parameters at N = 4 (N² times those of one token: 432)", f.parameters, equals(N**2 * 27)
    )
    e.truth("learned parameters, D = 3", f.parameters, equals(27))
    e.counter_example("The same 27 learned numbers serve 4 tokens and 4,000.")


@claim(
    "C9",
    "parameters of self-attention written as a full map: O(N⁴D²) (000), N²D² (003). Adjudicated: 003's number is right",
    "(ND)² exactly; its reason is wrong; 000 counts the tensor of the scores, of which N²D² entries are not zero",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def parameter_count(e: Evidence) -> None:
    f, x = _subject()
    e.said("entries of the matrix", mixing(f, x).numel(), equals(N**2 * D**2))
    e.said("it maps vec X to vec Y: relative error", attend.error(mixing(f, x) @ x.flatten(), f(x).flatten()), EQUAL)
    e.said("attention's own parameters", f.parameters, equals(3 * D**2))


@claim(
    "003-5.3-elt", "each element is a product of a query and a key", "true of the score matrix", recorded=Outcome.TRUE
)
def elements(e: Evidence) -> None:
    f, x = _subject()
    q, k = x @ f.W_q, x @ f.W_k
    pairs = torch.stack([torch.stack([q[n] @ k[m] for m in range(N)]) for n in range(N)]) / D**0.5
    e.said("q_n·k_m/√D against the scores", attend.error(pairs, f.scores(x)), EQUAL)
    e.said("their softmax against the library's weights", attend.error(pairs.softmax(1), f.weights(x)), EQUAL)


@claim(
    "003-5.3-share",
    "many blocks share parameters",
    "block (n, m) = a_nm W_v^T: all N² blocks are multiples of one D × D matrix",
    recorded=Outcome.TRUE,
    picture=sketch,
)
def shared(e: Evidence) -> None:
    f, x = _subject()
    scaled = blocks(mixing(f, x), N) / f.weights(x)[..., None, None]
    e.said("blocks divided by a_nm, against W_v^T", attend.error(scaled, f.W_v.T.expand(N, N, D, D)), EQUAL)
    e.said(
        "the matrix maps vec X to vec Y: relative error",
        attend.error(mixing(f, x) @ x.flatten(), f(x).flatten()),
        EQUAL,
    )
    W = projection(f.W_v, N)
    e.truth(
        "projection: blocks on the diagonal that are W^T",
        sum(bool((blocks(W, N)[n, n] == f.W_v.T).all()) for n in range(N)),
        equals(N),
    )


@claim(
    "003-5.3-same",
    "equal attention weights give identical blocks",
    "if and only if `a_{nm} = a_{n′m′}`",
    recorded=Outcome.TRUE,
)
def same_weights(e: Evidence) -> None:
    f, _ = _subject()
    x = attend.random(1, D, seed=5).expand(N, D)
    grid = blocks(mixing(f, x), N)
    e.said("equal tokens: largest difference between blocks", (grid - grid[:1, :1]).abs().max(), EQUAL)
    f, x = _subject()
    grid = blocks(mixing(f, x), N)
    e.truth(
        "different weights: difference between blocks (1,1) and (1,2)",
        (grid[0, 0] - grid[0, 1]).abs().max(),
        above(1e-3),
    )


@claim(
    "003-5.3-zero",
    "many elements become zero due to softmax",
    "softmax weights are positive; float64 underflows only at a gap ≥ 746, float32 at ≥ 104",
    recorded=Outcome.FALSE,
)
def zeros(e: Evidence) -> None:
    f, x = _subject()
    matrix = mixing(f, x)
    e.said("zero elements of the 12 × 12 matrix", int((matrix == 0).sum()), above(0))
    e.truth("smallest attention weight", f.weights(x).min(), above(0))
    for dtype, gap in ((torch.float64, 746), (torch.float32, 104)):
        for distance, zero in ((gap - 1, False), (gap, True)):
            weight = torch.tensor([0.0, -distance], dtype=dtype).softmax(0)[1]
            e.truth(
                f"{str(dtype).removeprefix('torch.')}, gap {distance}: the weight is 0", bool(weight == 0), equals(zero)
            )
    e.counter_example("Scores 0 and −10: the weights are 0.99995 and 4.5e-5, both positive.")


@claim(
    "C10",
    "many zero blocks because of softmax (003). Adjudicated: false",
    "zero blocks come from projections (N² − N) or from a causal mask (N(N−1)/2)",
    sources=("003",),
    recorded=Outcome.TRUE,
)
def where_zeros_come_from(e: Evidence) -> None:
    f, x = _subject()
    e.said("mixing: zero blocks", zero_blocks(mixing(f, x), N), equals(0))
    e.said("projection: zero blocks", zero_blocks(projection(f.W_v, N), N), equals(N * N - N))
    masked, x = _subject(causal=True)
    e.said("causal mixing: zero blocks", zero_blocks(mixing(masked, x), N), equals(N * (N - 1) // 2))


def _permuted() -> tuple[Tensor, Tensor]:
    order = torch.tensor([2, 0, 3, 1])
    return order, torch.eye(N, dtype=torch.float64)[order]


def _equivariance(f: Attention, x: Tensor) -> float:
    order, _ = _permuted()
    return attend.error(f(x[order]), f(x)[order])


@claim(
    "000-5.4-eq",
    "permuting the inputs permutes the outputs, resulting in the same final output",
    "equivariance, `f(PX) = P f(X)`; invariance fails",
    recorded=Outcome.FALSE,
)
def same_output(e: Evidence) -> None:
    f, x = _subject()
    order, _ = _permuted()
    e.said("f(PX) against f(X)", attend.error(f(x[order]), f(x)), EQUAL)
    e.truth("f(PX) against P f(X)", _equivariance(f, x), EQUAL)
    e.truth("mean of the outputs, f(PX) against f(X)", attend.error(f(x[order]).mean(0), f(x).mean(0)), EQUAL)
    e.counter_example("Two tokens with different outputs: exchanged, the first output is the other one.")


@claim(
    "000-5.4-why",
    "permutation equivariance, since adding is equivariant",
    "the reason: softmax acts row by row, `A(PX) = P A(X) P^T`; with a causal mask it fails though sums are still sums",
    recorded=Outcome.CONDITIONAL,
)
def reason(e: Evidence) -> None:
    f, x = _subject()
    order, P = _permuted()
    e.when("no mask: f(PX) against P f(X)", _equivariance(f, x), EQUAL)
    e.otherwise("causal mask, the same sums: f(PX) against P f(X)", _equivariance(*_subject(causal=True)), EQUAL)
    e.truth("A(PX) against P A(X) P^T", attend.error(f.weights(x[order]), P @ f.weights(x) @ P.T), EQUAL)


@claim(
    "003-5.4-noPE",
    "without position encoding, attention ignores where words stand",
    "only without a causal mask",
    recorded=Outcome.CONDITIONAL,
)
def without_positions(e: Evidence) -> None:
    e.when("no mask: f(PX) against P f(X)", _equivariance(*_subject()), EQUAL)
    e.otherwise("causal mask: f(PX) against P f(X)", _equivariance(*_subject(causal=True)), EQUAL)
    e.counter_example("Under a causal mask the first token sees itself only, so who is first matters.")


@claim(
    "003-5.4-eq",
    "permuting the inputs permutes the corresponding outputs",
    "without a mask; a mean over outputs is invariant",
    recorded=Outcome.TRUE,
)
def equivariant(e: Evidence) -> None:
    f, x = _subject()
    order, _ = _permuted()
    e.said("attention: f(PX) against P f(X)", _equivariance(f, x), EQUAL)
    e.said("encoder layer of the library: f(PX) against P f(X)", _block_equivariance(), EQUAL)
    e.truth("mean over tokens: invariant", attend.error(f(x[order]).mean(0), f(x).mean(0)), EQUAL)


def _block_equivariance() -> float:
    """A whole block of the library, norms and feed-forward part included."""
    from threefold.specs.attention import Softmax
    from threefold.specs.nets import FFN, StackSpec

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block = StackSpec(12, (Softmax(heads=3, causal=False, bias=True),), FFN(24)).build().double()
    x, order = attend.random(1, N, 12, seed=8), _permuted()[0]
    with torch.no_grad():
        return attend.error(block(x[:, order]), block(x)[:, order])


@claim(
    "C11",
    "permuting inputs: the same final output (000), outputs permuted likewise (003). Adjudicated: 003 is right",
    "equivariance, not invariance, and only without positions and without a causal mask",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def permutation(e: Evidence) -> None:
    f, x = _subject()
    order, _ = _permuted()
    e.said("f(PX) against P f(X)", _equivariance(f, x), EQUAL)
    e.said("f(PX) against f(X)", attend.error(f(x[order]), f(x)), above(1e-2))
    e.said("causal mask: f(PX) against P f(X)", _equivariance(*_subject(causal=True)), above(1e-2))
    code = attend.random(N, D, seed=11)
    e.said(
        "with positions added to x: f(PX + C) against P f(X + C)",
        attend.error(f(x[order] + code), f(x + code)[order]),
        above(1e-2),
    )
