"""Moments of a dot product a.b, exactly: over all sign vectors, and over Gauss-Hermite nodes (exact for polynomials).

For independent a, b with zero mean and identity covariance E(a.b)^2 = D. For normal entries also
E(a.b)^4 = 3 D^2 + 6 D, Var((a.b)^2) = 2 D^2 + 6 D, kurtosis 3 + 6/D; and for b = a, E(a.a)^2 = D^2 + 2 D.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from threefold.claims.attend import random

Law = tuple[tuple[float, ...], tuple[float, ...]]  # values and their probabilities
SIGNS: Law = ((-1.0, 1.0), (0.5, 0.5))


def normal(nodes: int = 5) -> Law:
    """Values and weights that integrate every polynomial of degree < 2 nodes against N(0, 1) exactly."""
    values, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return tuple(values.tolist()), tuple((weights / sqrt(2 * np.pi)).tolist())


def expected(f: Callable[[Tensor], Tensor], law: Law, variables: int) -> float:
    """E f(z), z of independent entries: f takes (points, variables)."""
    values, chances = law
    points = torch.tensor(list(product(values, repeat=variables)), dtype=torch.float64)
    weights = torch.tensor(list(product(chances, repeat=variables)), dtype=torch.float64).prod(1)
    return float((f(points) * weights).sum())


def dot(points: Tensor) -> Tensor:
    """a.b with a the first half of the variables and b the second."""
    a, b = points.chunk(2, 1)
    return (a * b).sum(1)


def dot_moment(order: int, D: int, law: Law | None = None) -> float:
    """E (a.b)^order for independent a and b."""
    return expected(lambda points: dot(points) ** order, law or normal(), 2 * D)


def product_moment(which: tuple[int, ...], variables: int) -> float:
    """E of a product of normal variables, repetitions allowed."""
    return expected(lambda points: points[:, list(which)].prod(1), normal(), variables)


def square_moment(D: int) -> float:
    """E (a.a)^2 for normal a: b = a is as dependent as can be."""
    return expected(lambda points: (points**2).sum(1) ** 2, normal(), D)


def sampled(D: int, n: int = 50_000) -> tuple[float, float]:
    """Mean of (a.b)^2 over n random pairs, and five times its standard error."""
    a, b = random(n, D, seed=D), random(n, D, seed=1000 + D)
    return float(((a * b).sum(1) ** 2).mean()), 5 * sqrt((2 * D * D + 6 * D) / n)
