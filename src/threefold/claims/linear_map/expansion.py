"""The score matrix X A X^T multiplied out with exact polynomials, for two tokens of width two."""

from __future__ import annotations

from threefold.cost import Poly, axis_poly

ROWS = ((axis_poly("x11"), axis_poly("x12")), (axis_poly("x21"), axis_poly("x22")))
FORM = ((axis_poly("a"), axis_poly("b")), (axis_poly("c"), axis_poly("d")))


def entry(n: int, m: int) -> Poly:
    """s_nm = sum_ij x_ni A_ij x_mj, tokens numbered from 1."""
    terms = (ROWS[n - 1][i] * FORM[i][j] * ROWS[m - 1][j] for i in range(2) for j in range(2))
    return sum(terms, Poly({}))


def polynomial(text: str) -> Poly:
    """`a x11 x21 + b x11 x22` as a polynomial."""
    total = Poly({})
    for term in text.split("+"):
        factors = [axis_poly(name) for name in term.split()]
        product = factors[0]
        for factor in factors[1:]:
            product = product * factor
        total = total + product
    return total
