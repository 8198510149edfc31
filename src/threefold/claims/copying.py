"""Copying and averaging by attention, as a function of beta: 002 question 2 and conflict C18.

a, b, c, d are orthogonal with norm beta; x_1 = d + b, x_2 = a, x_3 = c + d; queries, keys and values are x itself.
With B = beta^2 the scores are [[2B, 0, B], [0, B, 0], [B, 0, 2B]].
"""

from __future__ import annotations

from math import exp, log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims import attend
from threefold.claims.claim import Evidence, Outcome, above, at_most, below, claim, claims_in, near, printed
from threefold.claims.picture import Panel, curves

WIDTH = 8


def inputs(beta: float) -> tuple[Float[Tensor, "3 d"], Float[Tensor, "4 d"]]:
    """(x_1, x_2, x_3) and the basis (a, b, c, d)."""
    a, b, c, d = basis = attend.orthonormal(4, WIDTH) * beta
    return torch.stack([d + b, a, c + d]), basis


def exact_weights(beta: float) -> Float[Tensor, "3 3"]:
    """The attention weights in closed form, divided through by the largest exponential so that none overflows."""
    B = beta * beta
    far, twice = exp(-B), exp(-2 * B)
    one, two = 1 + far + twice, 1 + 2 * far
    rows = [[1 / one, twice / one, far / one], [far / two, 1 / two, far / two], [far / one, twice / one, 1 / one]]
    return torch.tensor(rows, dtype=torch.float64)


def exact_outputs(beta: float) -> Float[Tensor, "3 d"]:
    """y_i by the weights' formula and the basis."""
    w, (_, (a, b, c, d)) = exact_weights(beta), inputs(beta)
    middle = w[1, 1] * a + w[1, 0] * (b + c + 2 * d)
    first = w[0, 0] * b + (w[0, 0] + w[0, 2]) * d + w[0, 2] * c + w[0, 1] * a
    third = w[2, 2] * c + (w[2, 2] + w[2, 0]) * d + w[2, 0] * b + w[2, 1] * a
    return torch.stack([first, middle, third])


def relative_errors(beta: float) -> list[float]:
    """‖y_i - x_i‖ / ‖x_i‖ of the library's attention."""
    x, _ = inputs(beta)
    y = attend.attend(x, x, x)
    return [attend.error(y[i], x[i]) for i in range(3)]


def beta_for(loss: float) -> float:
    """The smallest beta at which both kinds of diagonal weight are >= 1 - loss, by bisection of the exact formula."""
    low, high = 0.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        w = exact_weights(middle)
        low, high = (low, middle) if min(w[0, 0], w[1, 1]) >= 1 - loss else (middle, high)
    return high


def by_beta() -> str:
    """The weights and the errors as functions of beta: averaging on the left, copying on the right."""
    betas = [0.05 * n for n in range(1, 81)]
    weights = [exact_weights(beta) for beta in betas]
    places = {"w₁₁": (0, 0), "w₁₂": (0, 1), "w₁₃": (0, 2), "w₂₂": (1, 1), "w₂₁": (1, 0)}
    lines = {name: [float(w[i, j]) for w in weights] for name, (i, j) in places.items()}
    errors = [relative_errors(beta) for beta in betas]
    distances = {f"y{'₁₂'[i]}": [error[i] for error in errors] for i in range(2)}
    return curves(
        [
            Panel("attention weights", betas, lines, x_label="β"),
            Panel("‖y − x‖/‖x‖", betas, distances, x_label="β", log_y=True),
        ]
    )


def _gram(beta: float = 1.0) -> Tensor:
    x, _ = inputs(beta)
    return x @ x.T / beta**2


@claim("002-2a-x1", "`‖x_1‖ = ‖d‖ + ‖b‖`", "`‖d + b‖² = ‖d‖² + ‖b‖²`, by orthogonality", recorded=Outcome.FALSE)
def norm_of_sum(e: Evidence) -> None:
    x, (_, b, _, d) = inputs(1.0)
    e.said("‖x_1‖ − (‖d‖ + ‖b‖)", (x[0].norm() - d.norm() - b.norm()).abs(), at_most(1e-12))
    e.truth("‖x_1‖² − ‖d‖² − ‖b‖²", (x[0] @ x[0] - d @ d - b @ b).abs(), at_most(1e-12))
    e.counter_example("β = 1: ‖x_1‖ = √2 = 1.4142, while ‖d‖ + ‖b‖ = 2.")


@claim("002-2a-v", "`‖x_1‖ = √2 β`, `‖x_2‖ = β`, `‖x_3‖ = √2 β`", recorded=Outcome.TRUE)
def norms(e: Evidence) -> None:
    x, _ = inputs(1.7)
    for i, factor in enumerate((sqrt(2), 1.0, sqrt(2))):
        e.said(f"‖x_{i + 1}‖/β − {factor:.4f}", (x[i].norm() / 1.7 - factor).abs(), at_most(1e-12))


@claim(
    "002-2b-dot",
    "`x_i·x_j = 0` for i ≠ j",
    "`x_1·x_3 = (d+b)·(c+d) = β²`; only `x_1·x_2` and `x_2·x_3` are 0",
    recorded=Outcome.FALSE,
)
def cross_products(e: Evidence) -> None:
    gram = _gram()
    e.said("largest |x_i·x_j|/β², i ≠ j", (gram - gram.diag().diag()).abs().max(), at_most(1e-12))
    target = torch.tensor([[2.0, 0, 1], [0, 1, 0], [1, 0, 2]], dtype=torch.float64)
    e.truth("Gram matrix/β² against [[2,0,1],[0,1,0],[1,0,2]]", attend.error(gram, target), at_most(1e-12))
    e.counter_example("x_1 and x_3 share d: x_1·x_3 = d·d = β².")


@claim("002-2b-self", "every self product is `β²`", "`2β²` for x_1 and x_3, `β²` for x_2", recorded=Outcome.FALSE)
def self_products(e: Evidence) -> None:
    diagonal = _gram().diag()
    for i, (value, right) in enumerate(zip(diagonal.tolist(), (2.0, 1.0, 2.0), strict=True)):
        e.said(f"x_{i + 1}·x_{i + 1}/β²", value, near(1.0, 1e-12))
        e.truth(f"x_{i + 1}·x_{i + 1}/β²", value, near(right, 1e-12))


@claim(
    "002-2b-W",
    "`W_ij = 1` if i = j, else 0",
    "a limit for β → ∞: row 1 = `(e^{2B}, 1, e^B)/Z_1`, row 2 = `(1, e^B, 1)/Z_2` with B = β²",
    recorded=Outcome.CONDITIONAL,
    picture=by_beta,
)
def identity_weights(e: Evidence) -> None:
    eye = torch.eye(3, dtype=torch.float64)
    for beta in (0.01, 0.1, 1.0, 2.0, 3.0, 4.0, 10.0):
        x, _ = inputs(beta)
        w = attend.weights(x, x)
        e.truth(f"β = {beta:g}: weights against the formula", attend.error(w, exact_weights(beta)), at_most(1e-12))
        worst = (w - eye).abs().max()
        if beta in (4.0, 10.0):
            e.when(f"β = {beta:g}: largest |W − I|", worst, at_most(1e-6))
        elif beta in (1.0, 2.0, 3.0):
            e.otherwise(f"β = {beta:g}: largest |W − I|", worst, at_most(1e-6))
    _table(e)
    for loss, digits in ((1e-2, "2.300"), (1e-3, "2.757"), (1e-6, "3.809")):
        e.truth(f"β at which both diagonals are ≥ 1 − {loss:g}", beta_for(loss), printed(digits))
    scaled = exact_weights(sqrt(4.0 / 2.0))[0, 0]
    e.truth("β = 2 and scores divided by √4: w_11", scaled, printed("0.8668"))
    e.counter_example("β = 1: the weights of row 1 are 0.665, 0.090, 0.245.")


def _table(e: Evidence) -> None:
    """The printed digits of the weights, beta by beta."""
    digits = {
        0.1: "0.336672 0.330006 0.333322 0.335559 0.332220",
        1.0: "0.665241 0.090031 0.244728 0.576117 0.211942",
        2.0: "0.981690 3.293e-4 0.017980 0.964663 0.017668",
        3.0: "0.999877 1.52e-8 1.234e-4 0.999753 1.234e-4",
        4.0: "0.9999999 1.27e-14 1.1e-7 0.9999998 1.1e-7",
    }
    for beta, row in digits.items():
        x, _ = inputs(beta)
        w = attend.weights(x, x)
        for (i, j), shown in zip(((0, 0), (0, 1), (0, 2), (1, 1), (1, 0)), row.split(), strict=True):
            e.truth(f"β = {beta:g}: w_{i + 1}{j + 1}", w[i, j], printed(shown))


@claim(
    "002-2b-y",
    "`y_1 = d + b`, `y_2 = a`, `y_3 = c + d`",
    "in the limit β → ∞; the relative error tends to `e^{−β²}` for y_1 and y_3, to `√10 e^{−β²}` for y_2",
    recorded=Outcome.CONDITIONAL,
)
def copied_outputs(e: Evidence) -> None:
    e.when("β = 4: largest relative error", max(relative_errors(4.0)), at_most(1e-6))
    table = {0.1: "0.620 1.05", 1: "0.3067 0.6702", 2: "0.01815 0.05587", 3: "1.234e-4 3.902e-4", 4: "1.13e-7 3.56e-7"}
    for beta, row in table.items():
        errors = relative_errors(beta)
        for i, digits in enumerate(row.split()):
            e.truth(f"β = {beta:g}: relative error of y_{i + 1}", errors[i], printed(digits))
    e.otherwise("β = 1: largest relative error", max(relative_errors(1.0)), at_most(1e-6))
    for beta in (0.01, 0.5, 1.0, 3.0, 10.0):
        x, _ = inputs(beta)
        e.truth(
            f"β = {beta:g}: y against the formula",
            attend.error(attend.attend(x, x, x), exact_outputs(beta)),
            at_most(1e-12),
        )
    at_four = relative_errors(4.0)
    e.truth("β = 4: error of y_1 / e^{−β²}", at_four[0] / exp(-16), near(1, 1e-3))
    e.truth("β = 4: error of y_2 / (√10 e^{−β²})", at_four[1] / (sqrt(10) * exp(-16)), near(1, 1e-3))
    e.counter_example("β = 1: y_2 is 67 % away from a.")


def averaging() -> float:
    """How far attention with the query 30 (k_1 + k_2) is from the mean of v_1 and v_2, for unit keys."""
    keys = attend.orthonormal(4, WIDTH, seed=3)
    values = attend.random(4, WIDTH, seed=4)
    y = attend.attend(30 * (keys[:1] + keys[1:2]), keys, values)
    return attend.error(y[0], (values[0] + values[1]) / 2)


@claim(
    "002-2c-copy",
    "orthogonal inputs have score 1 with themselves, hence attention copies them",
    "needs a large norm, `β² ≫ ln n`, not orthogonality alone; for β → 0 every y_i tends to the mean of the x_j",
    recorded=Outcome.CONDITIONAL,
)
def orthogonal_copying(e: Evidence) -> None:
    for beta, add in ((5.0, e.when), (1.0, e.otherwise), (0.1, e.otherwise)):
        x = attend.orthonormal(3, WIDTH) * beta
        add(
            f"β = {beta:g}, three orthogonal inputs: ‖y − x‖/‖x‖",
            attend.error(attend.attend(x, x, x), x),
            at_most(1e-6),
        )
    x, _ = inputs(0.01)
    away = attend.error(attend.attend(x, x, x), x.mean(0).expand(3, -1))
    e.truth("β = 0.01: distance of y from the mean", away, at_most(1e-4))
    e.truth("query 30(k_1 + k_2): distance from the mean of v_1 and v_2", averaging(), at_most(1e-12))
    e.counter_example(
        f"Three orthogonal unit vectors: a_nn = {1 / (1 + 2 * exp(-1)):.4f}, not 1 (ln 3 = {log(3):.2f} > β² = 1)."
    )


@claim(
    "C18",
    "copying orthogonal vectors: 002 has `W_ij = 1` iff i = j, 003 only approximately. Adjudicated: 002 is wrong twice",
    "`x_1·x_3 = β² ≠ 0`, and the weights only tend to 1 as β → ∞",
    sources=("002", "003"),
    recorded=Outcome.TRUE,
)
def adjudicated(e: Evidence) -> None:
    x, _ = inputs(2.0)
    w = attend.weights(x, x)
    e.said("x_1·x_3/β²", _gram()[0, 2], near(1, 1e-12))
    e.said("β = 2: 1 − w_11", 1 - w[0, 0], above(1e-2))
    e.said("β = 6: 1 − w_11", 1 - exact_weights(6.0)[0, 0], below(1e-12))
    e.said("β = 2: weights against the formula", attend.error(w, exact_weights(2.0)), at_most(1e-12))


CLAIMS = claims_in(globals())
