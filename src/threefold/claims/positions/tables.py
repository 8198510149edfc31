"""The printed tables: what each encoding does to the tokens at positions 1 to 4."""

from __future__ import annotations

from math import cos, sin

import torch

from threefold.claims.attend import error, random
from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed, stated
from threefold.claims.positions.codes import code, coded, turned
from threefold.ops.rotate import frequencies

EQUAL = at_most(1e-12)
X = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
ADDED = (
    "1.841470984808 2.540302305868 3.009999833334 4.999950000417",
    "1.909297426826 1.583853163453 3.019998666693 4.999800006667",
    "1.141120008060 1.010007503400 3.029995500202 4.999550033749",
    "0.243197504692 1.346356379136 3.039989334187 4.999200106661",
)
TURNED = (
    "-1.142639663748 1.922075596544 2.959850667913 4.029799501669",
    "-2.234741690199 0.077003753731 2.919405353226 4.059196026746",
    "-1.272232512720 -1.838864985141 2.878668100437 4.088186635603",
    "0.859961369752 -2.064089737035 2.837642983236 4.116768429204",
)


@claim(
    "000-4.4-sin",
    "sinusoidal table for d = 4, positions 1 to 4: [sin pθ_1, cos pθ_1, sin pθ_2, cos pθ_2] is added",
    "all 16 entries, with `θ_i = 10000^{−2(i−1)/d}`: θ_1 = 1, θ_2 = 0.01 (the text never defines θ)",
    recorded=Outcome.TRUE,
)
def sinusoidal_table(e: Evidence) -> None:
    for p, row in enumerate(ADDED, 1):
        written = torch.tensor([[sin(p), cos(p), sin(p / 100), cos(p / 100)]], dtype=torch.float64)
        e.said(f"p = {p}: printed row against the library", error(X + written, coded(X, [p])), EQUAL)
        for i, digits in enumerate(row.split()):
            e.truth(f"p = {p}, x = [1,2,3,4]: entry {i + 1}", coded(X, [p])[0, i], printed(digits))


@claim(
    "000-4.4-rot",
    "rotary table for d = 4, positions 1 to 4: 2 × 2 rotations by pθ_i on neighbouring pairs",
    "all 16 entries, as a formula; it must be applied to q and k, not to the embeddings before W_q, W_k",
    recorded=Outcome.TRUE,
)
def rotary_table(e: Evidence) -> None:
    for p, row in enumerate(TURNED, 1):
        c, s = (cos(p), cos(p / 100)), (sin(p), sin(p / 100))
        x0 = X[0].tolist()
        pairs = [(x0[2 * i] * c[i] - x0[2 * i + 1] * s[i], x0[2 * i] * s[i] + x0[2 * i + 1] * c[i]) for i in range(2)]
        written = torch.tensor([[*pairs[0], *pairs[1]]], dtype=torch.float64)
        e.said(f"p = {p}: printed row against the library", error(written, turned(X, [p])), EQUAL)
        for i, digits in enumerate(row.split()):
            e.truth(f"p = {p}, x = [1,2,3,4]: entry {i + 1}", turned(X, [p])[0, i], printed(digits))
    x, W = random(2, 8, seed=1), (random(8, 8, seed=2), random(8, 8, seed=3))
    literal = [float((turned(x, at) @ W[0])[0] @ (turned(x, at) @ W[1])[1]) for at in ([3, 9], [13, 19])]
    proper = [float(turned(x @ W[0], at)[0] @ turned(x @ W[1], at)[1]) for at in ([3, 9], [13, 19])]
    e.truth("q and k rotated: score at (3,9) − at (13,19)", abs(proper[0] - proper[1]), at_most(1e-10))
    e.truth("x rotated before W_q, W_k: the same difference", abs(literal[0] - literal[1]), above(1e-2))


@claim("000-4.4-cmp", "sinusoidal adds; RoPE multiplies and mixes pairs", recorded=Outcome.TRUE)
def compared(e: Evidence) -> None:
    x, y, at = random(1, 8, seed=1), random(1, 8, seed=2), [5]
    e.said("sinusoidal: (x + PE) − x does not depend on x", error(coded(x, at) - x, coded(y, at) - y), EQUAL)
    e.said("RoPE: R(x + y) against Rx + Ry", error(turned(x + y, at), turned(x, at) + turned(y, at)), EQUAL)
    unit = torch.eye(8, dtype=torch.float64)
    R = turned(unit, [5] * 8)
    mixed = (R.abs() > 1e-9).unflatten(0, (4, 2)).unflatten(2, (4, 2)).any(1).any(-1)
    e.said("RoPE: pairs that mix with another pair", int(mixed.sum()) - 4, equals(0))
    e.said("RoPE: the first entry also reads the second", R[1, 0].abs(), above(0.1))


@claim(
    "000-4.3-polar",
    "length is the word, angle is the position; the two are vertical to each other",
    "length is free of the position, but the word sets the angle too: pair i at p is `r_i e^{i(φ_i + pθ_i)}`",
    recorded=Outcome.FALSE,
)
def polar(e: Evidence) -> None:
    x, y = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    between = torch.arccos(torch.cosine_similarity(turned(x, [3]), turned(y, [3])))
    e.said("same position, two words of one length: angle between them", between[0], EQUAL)
    _keeps_length(e, truth=True)
    e.counter_example("The words (1,0) and (0,1) at position 3 have angles a quarter turn apart.")


def _keeps_length(e: Evidence, *, truth: bool) -> None:
    q = random(4, 8, seed=4)
    write = e.truth if truth else e.said
    for p in (1, 17, 1000):
        moved = turned(q, [p] * 4)
        write(f"p = {p}: ‖R_p q‖ against ‖q‖", error(moved.norm(dim=1), q.norm(dim=1)), EQUAL)


@claim("003-4.3-norm", "a rotation keeps the length and changes the angle", recorded=Outcome.TRUE)
def rotation_keeps_length(e: Evidence) -> None:
    _keeps_length(e, truth=False)
    q = random(1, 8, seed=4)
    e.said("p = 5: change of direction, 1 − cos", 1 - torch.cosine_similarity(q, turned(q, [5]))[0], above(1e-2))
    R = turned(torch.eye(8, dtype=torch.float64), [9] * 8)
    e.truth("R R^T against I", error(R @ R.T, torch.eye(8, dtype=torch.float64)), EQUAL)


@claim(
    "003-4.3-θ",
    "the parameter θ, equal to the relative distance, changes",
    "θ_i are fixed frequencies; the angle pθ_i changes, and between q_m and k_n it is (m − n)θ_i",
    recorded=Outcome.FALSE,
)
def frequencies_are_fixed(e: Evidence) -> None:
    unit = torch.tensor([[1.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    for p in (1, 2):
        v = turned(unit, [p])[0]
        turn = torch.atan2(v[3], v[2])
        e.said(f"second pair, distance {p}: angle", turn, near(p, 1e-9))
        e.truth(f"second pair, distance {p}: angle / θ_2", turn / frequencies(4, 10000.0)[1], near(p, 1e-9))
    e.counter_example("d = 4: at distance 1 the pairs turn by 1 and by 0.01, two different angles.")


@claim(
    "003-4.1-fix-any",
    "a fixed encoding supports any length in theory",
    "it can be computed for every position",
    recorded=Outcome.TRUE,
)
def any_length(e: Evidence) -> None:
    for p in (0, 2048, 10**6, 10**9):
        e.said(f"PE({p:,}) is finite", bool(code([p], 16).isfinite().all()), equals(True))
        e.said(f"‖PE({p:,})‖² = d/2", (code([p], 16) ** 2).sum(), near(8.0, 1e-9))


blank_picture = stated(
    "003-4.4", "the picture is lost", "the tables of 000-4.4-sin and 000-4.4-rot", Outcome.BLANK, "positions"
)
fixed_definition = stated(
    "003-4.1-fix-def",
    "fixed encoding: static sines and cosines of different frequencies",
    "",
    Outcome.DEFINITION,
    "positions",
)
absolute_definition = stated(
    "003-4.1-abs-def", "absolute: a vector added or concatenated per position", "", Outcome.DEFINITION, "positions"
)
relative_definition = stated(
    "003-4.1-rel-def", "relative: differences of positions are encoded", "", Outcome.DEFINITION, "positions"
)
