"""Attention as a big matrix: its scores as a quadratic form, its blocks, its number of parameters."""

from __future__ import annotations

import torch

from threefold.claims import attend
from threefold.claims.claim import Claim, Evidence, Outcome, above, at_most, claim, equals, stated
from threefold.claims.linear_map import expansion, maps
from threefold.claims.linear_map.maps import Attention, mixing, projection
from threefold.cost import Poly

N, D = 4, 3
EQUAL = at_most(1e-12)


def _subject() -> tuple[Attention, torch.Tensor]:
    return Attention.drawn(D), attend.random(N, D, seed=5)


def _kron(e: Evidence, add: str) -> None:
    """Both Kronecker identities."""
    f, x = _subject()
    write = e.said if add == "said" else e.when if add == "when" else e.truth
    write("(A(X) ⊗ W_v^T) vec X against vec Y", attend.error(mixing(f, x) @ x.flatten(), f(x).flatten()), EQUAL)
    write(
        "(I ⊗ W^T) vec X against vec XW", attend.error(projection(f.W_v, N) @ x.flatten(), (x @ f.W_v).flatten()), EQUAL
    )
    column = torch.kron(f.W_v.T.contiguous(), f.weights(x)) @ x.T.flatten()
    write("column by column: (W_v^T ⊗ A) against vec Y", attend.error(column, f(x).T.flatten()), EQUAL)


@claim("000-5.1-A", "`QK^T/√D_k = X A X^T` with `A = W_q W_k^T/√D_k`", recorded=Outcome.TRUE)
def quadratic_form(e: Evidence) -> None:
    f, x = _subject()
    e.said("relative difference", attend.error(x @ f.form @ x.T, f.scores(x)), EQUAL)
    weights = (x @ f.form @ x.T).softmax(1)
    e.said("its softmax against the library's weights", attend.error(weights, f.weights(x)), EQUAL)


def _entry(id: str, n: int, m: int, printed: str, right: str, recorded: Outcome) -> Claim:
    def collect(e: Evidence) -> None:
        found = expansion.entry(n, m)
        e.said(f"terms of s_{n}{m} that differ", len((found - expansion.polynomial(printed)).terms), equals(0))
        e.truth("terms that differ from the corrected sum", len((found - expansion.polynomial(right)).terms), equals(0))
        if recorded is Outcome.FALSE:
            _witness(e, n, m, printed)

    says = f"N = D = 2, entry ({n},{m}): `{printed}`"
    return claim(id, says, "" if printed == right else f"`{right}`", recorded=recorded, subject="linear_map")(collect)


def _witness(e: Evidence, n: int, m: int, printed: str) -> None:
    """A case in which the printed entry and the true one differ."""
    sizes = {"a": 0, "b": 1, "c": 1, "d": 0, "x11": 1, "x12": 2, "x21": 3, "x22": 5}
    true, said = (poly(**sizes) for poly in (expansion.entry(n, m), expansion.polynomial(printed)))
    e.counter_example(f"a = d = 0, b = c = 1, X = [[1,2],[3,5]]: s_{n}{m} = {true}, the printed sum is {said}.")


TWELVE = "a x11 x21 + b x11 x22 + c x12 x21 + d x12 x22"
TWENTY_ONE = "a x11 x21 + b x12 x21 + c x11 x22 + d x12 x22"


@claim("000-5.1-11,22", "the expanded entries (1,1) and (2,2) of X A X^T", recorded=Outcome.TRUE)
def diagonal_entries(e: Evidence) -> None:
    for n in (1, 2):
        right = f"a x{n}1 x{n}1 + b x{n}1 x{n}2 + c x{n}2 x{n}1 + d x{n}2 x{n}2"
        e.said(
            f"terms of s_{n}{n} that differ",
            len((expansion.entry(n, n) - expansion.polynomial(right)).terms),
            equals(0),
        )
    f, x = Attention.drawn(2), attend.random(2, 2, seed=6)
    values = dict(zip("abcd", f.form.flatten().tolist(), strict=True))
    names = ("x11", "x12", "x21", "x22")
    values |= dict(zip(names, x.flatten().tolist(), strict=True))
    e.said(
        "s_11 in numbers, against the scores",
        abs(float(_value(expansion.entry(1, 1), values)) - float(f.scores(x)[0, 0])),
        EQUAL,
    )


def _value(poly: Poly, values: dict[str, float]) -> float:
    total = 0.0
    for monomial, factor in poly.terms.items():
        term = float(factor)
        for name, power in monomial:
            term *= values[name] ** power
        total += term
    return total


ENTRIES = (
    _entry("000-5.1-12", 1, 2, "a x11 x21 + b x12 x21 + c x12 x21 + d x12 x22", TWELVE, Outcome.FALSE),
    _entry("000-5.1-21", 2, 1, "a x11 x21 + b x12 x21 + c x11 x21 + d x12 x22", TWENTY_ONE, Outcome.FALSE),
)


def _tensor_counts(e: Evidence, add: str) -> None:
    f, x = _subject()
    write = e.said if add == "said" else e.truth
    M = maps.score_tensor(f.form, N)
    contracted = torch.einsum("a,b,abnm->nm", x.flatten(), x.flatten(), M)
    write("the contraction against the scores", attend.error(contracted, f.scores(x)), EQUAL)
    write("entries of M, N⁴D²", M.numel(), equals(2304))
    write("of them not zero, N²D²", int((M != 0).sum()), equals(144))
    write("of them distinct, D²", len(M[M != 0].unique()), equals(9))


@claim(
    "000-5.1-outer",
    "the scores are `(vec X vec X^T)` contracted with a tensor M of ND × ND × N × N entries",
    "`M[(n,i),(m,j),n,m] = A_ij`, else 0",
    recorded=Outcome.TRUE,
)
def outer_product(e: Evidence) -> None:
    _tensor_counts(e, "said")


@claim(
    "000-5.1-goal",
    "a proof by example that self-attention is a fully connected map",
    "softmax and values are missing; `vec(Y) = (A(X) ⊗ W_v^T) vec(X)`",
    recorded=Outcome.FALSE,
)
def by_example(e: Evidence) -> None:
    f, x = _subject()
    e.said("the scores alone, times XW_v, against Y", attend.error(f.scores(x) @ x @ f.W_v, f(x)), EQUAL)
    _kron(e, "truth")
    e.counter_example("One token: the score is x·Ax, any number; the attention weight is 1.")


@claim(
    "000-5.2",
    "the map has `O(N⁴D²)` parameters",
    "that is the size of the score tensor; the dense ND → ND matrix has N²D²",
    recorded=Outcome.FALSE,
)
def parameters_000(e: Evidence) -> None:
    f, x = _subject()
    e.said("entries of the ND → ND matrix, N = 4, D = 3 (N⁴D² = 2,304)", mixing(f, x).numel(), equals(N**4 * D**2))
    e.truth("entries of the ND → ND matrix", mixing(f, x).numel(), equals((N * D) ** 2))
    _tensor_counts(e, "truth")


blank_sketch = stated(
    "000-5.3",
    "the sketch of the matrix is left empty",
    "N × N blocks a_nm W_v^T: the picture of 003-5.3-share",
    Outcome.BLANK,
    "linear_map",
)


@claim("003-5.1-f", "`Y = Softmax(QK^T/√D) V`, rows are tokens, D the key dimension", recorded=Outcome.TRUE)
def formula(e: Evidence) -> None:
    f, x = _subject()
    written = ((x @ f.W_q) @ (x @ f.W_k).T / D**0.5).softmax(1) @ (x @ f.W_v)
    e.said("written out, against the library", attend.error(written, f(x)), EQUAL)
    _kron(e, "truth")


@claim(
    "003-5.1-map",
    "attention can be shown as a matrix that maps the sequence to an output of the same size",
    "`vec(Y) = (A(X) ⊗ W_v^T) vec(X)`: the matrix depends on X, so the map is not linear, and it is not the Jacobian",
    recorded=Outcome.CONDITIONAL,
)
def as_matrix(e: Evidence) -> None:
    f, x = _subject()
    _kron(e, "when")
    other = attend.random(N, D, seed=9)
    e.otherwise(
        "the matrix of X applied to X′, against f(X′)",
        attend.error(mixing(f, x) @ other.flatten(), f(other).flatten()),
        EQUAL,
    )
    e.otherwise("f(X + X′) against f(X) + f(X′)", attend.error(f(x + other), f(x) + f(other)), EQUAL)
    e.otherwise("f(2X) against 2 f(X)", attend.error(f(2 * x), 2 * f(x)), EQUAL)
    jacobian = torch.autograd.functional.jacobian(lambda v: f(v.view(N, D)).flatten(), x.flatten())
    e.truth("distance of the Jacobian from A ⊗ W_v^T", attend.error(jacobian, mixing(f, x)), above(1e-2))
    e.counter_example("f(2X) ≠ 2 f(X): the weights of 2X are sharper.")


@claim("003-5.2-shape", "Q, K, V are N×D, K^T D×N, QK^T N×N, the result N×D", recorded=Outcome.TRUE)
def shapes(e: Evidence) -> None:
    f, x = _subject()
    e.said("Q", "×".join(map(str, (x @ f.W_q).shape)), equals("4×3"))
    e.said("QK^T", "×".join(map(str, f.scores(x).shape)), equals("4×4"))
    e.said("Y", "×".join(map(str, f(x).shape)), equals("4×3"))


@claim(
    "003-5.2-soft",
    "softmax is element-wise, so it keeps the shape",
    "it normalises rows; shape-preserving all the same",
    recorded=Outcome.FALSE,
)
def row_wise(e: Evidence) -> None:
    f, x = _subject()
    changed = x.clone()
    changed[3] += 1
    moved = (f.weights(x)[0, 0] - f.weights(changed)[0, 0]).abs()
    e.said("another key's score changes: change of a_11", moved, EQUAL)
    e.truth("row sums − 1", (f.weights(x).sum(1) - 1).abs().max(), EQUAL)
    e.counter_example(
        "softmax(0, 0) = (½, ½), softmax(0, 5) = (0.0067, 0.9933): the first entry changed, its score did not."
    )
