"""What rotary positions are, and what they are not: relative, applied in every layer, and without a built-in decay."""

from __future__ import annotations

from itertools import pairwise
from math import pi

import torch
from torch import Tensor

from threefold.claims import counted
from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, below, claim, equals, near, printed
from threefold.claims.picture import Panel, curves
from threefold.claims.positions.codes import at, partial_sums, turned
from threefold.mixers.attention import SoftmaxMixer
from threefold.positions import HeadPosition
from threefold.specs.attention import Softmax
from threefold.specs.base import Form
from threefold.specs.positions import Rotary

EQUAL = at_most(1e-12)


def score(q: Tensor, k: Tensor, m: int, n: int) -> float:
    """(R_m q).(R_n k)."""
    return float(turned(q, [m])[0] @ turned(k, [n])[0])


def _relative(e: Evidence, add: str = "said") -> None:
    write = {"said": e.said, "when": e.when, "truth": e.truth}[add]
    q, k = random(1, 8, seed=1), random(1, 8, seed=2)
    for s in (1, 100, 100_000):
        write(
            f"(R_m q)·(R_n k): change from (3, 9) to ({3 + s:,}, {9 + s:,})",
            abs(score(q, k, 3, 9) - score(q, k, 3 + s, 9 + s)),
            at_most(1e-10),
        )


@claim("000-4.2-cat", "RoPE is relative and not learned", recorded=Outcome.TRUE)
def category(e: Evidence) -> None:
    _relative(e)
    e.said("parameters", sum(p.numel() for p in Rotary().build(8).parameters()), equals(0))


@claim(
    "000-4.2-const",
    "RoPE multiplies each token by a constant, so that attention depends only on relative distance",
    "by a rotation R_p that depends on the position, on q and k but not on v",
    recorded=Outcome.CONDITIONAL,
)
def by_a_constant(e: Evidence) -> None:
    _relative(e, "when")
    q = random(1, 8, seed=1)
    e.otherwise("R_1 q against R_2 q (a constant factor: 0)", error(turned(q, [1]), turned(q, [2])), EQUAL)
    mixer, x = _mixer(1), random(1, 5, 8, seed=3)
    places = torch.arange(5)[None]
    unturned = mixer.heads.values(x)
    e.truth("values with and without positions", error(mixer.heads.entering(x, places)[2], unturned), EQUAL)


def _mixer(heads: int) -> SoftmaxMixer:
    return SoftmaxMixer(Softmax(heads=heads, position=Rotary()), 8).double()


@claim(
    "000-4.2-once",
    "the encoding is applied only once, at the start",
    "in every attention layer, once per token to q and to k, never per pair",
    recorded=Outcome.FALSE,
)
def in_every_layer(e: Evidence) -> None:
    from threefold.specs.nets import StackSpec

    layers, calls = 3, []
    stack = StackSpec(8, (Softmax(heads=1, position=Rotary()),) * layers).build().double()
    for module in stack.modules():
        if isinstance(module, HeadPosition):
            module.register_forward_hook(lambda module, given, out: calls.append(tuple(given[0].shape)))
    with torch.no_grad():
        stack(random(1, 7, 8))
    e.said("rotations in a stack of three layers", len(calls), equals(1))
    e.truth("rotations: layers × (q and k)", len(calls), equals(2 * layers))
    e.truth("tokens in each: never pairs", len({shape[1] for shape in calls} - {7}), equals(0))
    e.counter_example("Three layers rotate six times: q and k in each.")


def rotation_arithmetic(L: int, d: int, heads: int = 32) -> float:
    """Additions and multiplications per rotated entry, the angles shared by all heads."""
    return counted.arithmetic(Rotary().build(d), random(1, L, heads, d), at(range(L))) / (L * heads * d)


@claim(
    "000-4.2-speed",
    "although relative, RoPE does not reduce inference speed",
    "about 3·L·d operations per rotated tensor, and no term per pair; rotated keys stay cacheable",
    recorded=Outcome.CONDITIONAL,
)
def speed(e: Evidence) -> None:
    share = {L: 2 * rotation_arithmetic(L, 64) * L * 64 / (4 * L * L * 64) for L in (64, 4096)}
    e.when("L = 4,096: rotation of q and k over attention's FLOPs", share[4096], at_most(0.05))
    e.otherwise("L = 16: the same share", 2 * rotation_arithmetic(16, 64) * 16 * 64 / (4 * 16 * 16 * 64), at_most(0.05))
    e.truth("operations per rotated entry", rotation_arithmetic(64, 64), near(3.0, 0.05))
    e.limit("Time is measured by experiment E8b.")


@claim(
    "003-4.1-rel-cost",
    "relative encodings take extra computation in training and inference",
    "RoPE about 3·L·d per rotated tensor, ALiBi L² additions per head: lower order than attention's L²d",
    recorded=Outcome.CONDITIONAL,
)
def extra_cost(e: Evidence) -> None:
    e.when("L = 16: share of rotations in attention's FLOPs", 2 * rotation_arithmetic(16, 64) / (4 * 16), above(0.05))
    e.otherwise("L = 4,096: the same share", 2 * rotation_arithmetic(64, 64) / (4 * 4096), above(0.05))
    e.otherwise("ALiBi: one addition per pair over 4d FLOPs per pair, d = 64", 1 / (4 * 64), above(0.05))
    e.truth("RoPE: operations per rotated entry", rotation_arithmetic(64, 64), near(3.0, 0.05))
    e.limit("Time is measured by experiment E8b.")


@claim(
    "003-4.2-flex",
    "flexible in sequence length without loss of quality or efficiency",
    "every position can be computed and shifts change nothing; quality beyond the training length is experiment E6",
    recorded=Outcome.CONDITIONAL,
)
def flexible(e: Evidence) -> None:
    _relative(e, "when")
    q, k = random(200, 16, seed=1), random(200, 16, seed=2)
    near_by = [float((turned(q, [0] * 200) * turned(k, [s] * 200)).sum(1).abs().max()) for s in (1, 10_000)]
    e.when("largest score of 200 random pairs, distance 10,000 over distance 1", near_by[1] / near_by[0], below(2.0))
    slow = 10000 ** (-30 / 32)
    e.otherwise(
        "turn of the slowest pair of d = 32 in 512 steps, of a full circle (all angles seen: 1)",
        512 * slow / (2 * pi),
        above(1.0),
    )
    e.limit("A slow pair has shown only a part of its circle in training; what that costs is experiment E6.")
    e.counter_example(
        "d = 32, trained at L = 512: the slowest pair has turned by 5 degrees only; longer inputs show it new angles."
    )


def fading() -> str:
    """The bound, the score of equal vectors, and of a pair chosen for distance 37."""
    ones, q = torch.ones(1, 128, dtype=torch.float64), random(1, 16, seed=1)
    steps = [float(n) for n in range(257)]
    bound = {"mean |S_j|": [float(partial_sums(n, 128).mean()) for n in range(257)]}
    same = {"q = k constant": [score(ones, ones, 0, n) / 128 for n in range(257)]}
    return curves(
        [
            Panel("upper bound, d = 128", steps, bound, x_label="distance"),
            Panel("score over score at 0", steps, same, x_label="distance"),
            Panel("a pair chosen for distance 37", steps[:101], {"score": _chosen(q, 37)}, x_label="distance"),
        ]
    )


@claim(
    "003-4.2-decay",
    "relative influence decays with distance (a unique property)",
    "an upper bound trends down, not monotonically; for random q, k the variance of scores is the "
    "same at every distance",
    recorded=Outcome.FALSE,
    picture=fading,
)
def decay(e: Evidence) -> None:
    d, n = 128, 20_000
    means = [float(partial_sums(k, d).mean()) for k in range(257)]
    rises = sum(b > a for a, b in pairwise(means))
    e.said("bound mean|S_j|, d = 128: increases in 256 steps (a decay has none)", rises, equals(0))
    q = random(1, 16, seed=1)
    chosen = _chosen(q, 37)
    best = max(range(101), key=lambda s: chosen[s])
    e.said("a pair q, k chosen for r = 37: distance of the largest score", best, equals(0))
    _random_scores(e, n)
    _bound(e, means)
    e.truth("increases in 256 steps", rises, equals(115))
    e.truth("the chosen pair peaks at distance", best, equals(37))
    single = turned(torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(800, 2), range(800))[:, 0]
    e.truth("d = 2: score at distance 710 = 2π·113 − 6e-5, against distance 0", single[710], near(1.0, 1e-8))
    e.counter_example("k = R_r^T q has its largest score at distance r, for any r.")


def _chosen(q: Tensor, r: int) -> list[float]:
    """Scores over distances 0 .. 100 of the pair whose key is q turned back by r."""
    k = turned(q, [-r])
    return [score(q, k, 0, s) for s in range(101)]


def _random_scores(e: Evidence, n: int) -> None:
    """Random pairs: mean 0 and variance d at every distance."""
    d = 16
    q, k = random(n, d, seed=5), random(n, d, seed=6)
    for r in (0, 1, 10, 100, 1000):
        scores = (q * turned(k, [r] * n)).sum(1)
        e.truth(f"20,000 random pairs, distance {r}: variance / d", scores.var() / d, near(1.0, 0.05))
        e.truth(f"distance {r}: |mean|", scores.mean().abs(), at_most(5 * (d / n) ** 0.5))


def _bound(e: Evidence, means: list[float]) -> None:
    """The Abel-summation bound and its curve, and equal q = k."""
    table = {0: "32.5", 4: "22.6", 16: "15.8", 50: "12.6", 64: "10.09", 100: "10.23", 128: "9.27", 256: "6.54"}
    for k, digits in table.items():
        e.truth(f"mean|S_j| at distance {k}", means[k], printed(digits))
    e.truth(
        "mean of the curve over 200..256, below that over 0..50", sum(means[200:]) / 57, below(sum(means[:51]) / 51)
    )
    e.truth("violations of the bound in 200 random cases", _violations(200), equals(0))
    ones = torch.ones(1, 128, dtype=torch.float64)
    for r, digits in ((32, "0.56"), (128, "0.33"), (1024, "0.20"), (4096, "-0.05")):
        e.truth(f"q = k constant: score at distance {r} over that at 0", score(ones, ones, 0, r) / 128, printed(digits))


def _violations(cases: int, d: int = 32) -> int:
    """How often |sum h_i e^{ik theta_i}| exceeds max|h_{i+1} - h_i| sum|S_j|."""
    found = 0
    for seed in range(cases):
        q, k = random(1, d, seed=2 * seed), random(1, d, seed=2 * seed + 1)
        h = torch.view_as_complex(q.view(-1, 2)) * torch.view_as_complex(k.view(-1, 2)).conj()
        steps = (torch.cat((h[1:], h.new_zeros(1))) - h).abs().max()
        found += abs(score(q, k, seed, 0)) > float(steps * partial_sums(seed, d).sum()) + 1e-12
    return found


@claim(
    "000-4.1-d4",
    "relative: with a key cache the embeddings of every token change at each step, and the cache "
    "reduces inference speed",
    "caches stay valid: rotated keys, or a term on the scores; cached decoding equals full "
    "recomputation, and saves time",
    recorded=Outcome.FALSE,
)
def caches_stay_valid(e: Evidence) -> None:
    from threefold.specs.positions import Alibi, Shaw

    x = random(1, 12, 8, seed=4)
    for position in (Rotary(), Alibi(), Shaw()):
        name = type(position).__name__
        mixer = SoftmaxMixer(Softmax(heads=2, position=position), 8).double()
        with torch.no_grad():
            _, early = mixer.scan(x[:, :4], mixer.init_state(1), form=Form.STEP)
            before = early.seen()[0].clone()
            _, late = mixer.scan(x[:, 4:], early, form=Form.STEP)
            changed = error(late.seen()[0][:, :, :4], before)
            stepped, whole = mixer.whole(x, form=Form.STEP), mixer.whole(x, form=Form.PARALLEL)
        e.said(f"{name}: change of the first four cached keys after eight more tokens", changed, above(1e-6))
        e.truth(f"{name}: decoding with the cache against full attention", error(stepped, whole), EQUAL)
    cached, again = _decoding_flops()
    e.truth("FLOPs of decoding 16 tokens, with the cache over without", cached / again, below(0.5))
    e.counter_example("RoPE: the key of token 1 is R_1 k_1 at every later step.")


def _decoding_flops(T: int = 16) -> tuple[int, int]:
    """One new token after another, counted on the library's layer: with a cache, and with everything anew."""
    from threefold.plan.count import count

    mixer, x = _mixer(2), random(1, T, 8)
    with torch.no_grad():
        stepped = count(lambda x: mixer.whole(x, form=Form.STEP), x).forward
        anew = [count(lambda x: mixer.whole(x, form=Form.PARALLEL), x[:, :t]).forward for t in range(1, T + 1)]
    return stepped, sum(anew)
