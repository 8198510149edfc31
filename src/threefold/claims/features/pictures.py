"""The study of the series as pictures: the kernel beside exp, its error by range, its sign, and its total variation."""

from __future__ import annotations

import numpy as np
import torch

from threefold.claims.features import study
from threefold.claims.picture import Panel, curves

DEGREES = (1, 2, 3, 4, 6)


def kernels() -> str:
    """The series of several degrees beside exp."""
    s = torch.linspace(-4, 3, 200, dtype=torch.float64)
    lines = {"exp": s.exp().tolist()} | {f"degree {K}": study.series(s, K).tolist() for K in DEGREES}
    return curves([Panel("kernel against logit s = q·k", s.tolist(), lines, x_label="s", y_range=(-4, 16))])


def error_by_range() -> str:
    """Worst relative error of exp, and total variation of attention rows, against the range of logits."""
    R = np.geomspace(0.05, 4, 40).tolist()
    worst = {f"degree {K}": [study.worst_error(K, r) for r in R] for K in (1, 2, 4, 6)}
    scales = [0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5]
    found = {K: [study.rows(K, scale, L=96, D=16) for scale in scales] for K in (1, 2, 4, 6)}
    spread = [row.R for row in found[2]]
    variation = {f"degree {K}": [row.tv_mean for row in found[K]] for K in (2, 4, 6)}
    return curves(
        [
            Panel("worst relative error of exp on [−R, R]", R, worst, x_label="R", log_x=True, log_y=True),
            Panel("mean total variation of attention rows", spread, variation, x_label="max |q·k|", log_y=True),
        ]
    )


def positivity() -> str:
    """Even degrees stay above zero; odd ones cross it once."""
    s = torch.linspace(-5, 0.5, 200, dtype=torch.float64)
    even = {f"degree {K}": study.series(s, K).tolist() for K in (2, 4, 6, 8)}
    odd = {f"degree {K}": study.series(s, K).tolist() for K in (1, 3, 5, 7)}
    return curves(
        [
            Panel("even degrees: positive", s.tolist(), even, x_label="s", y_range=(-2, 4)),
            Panel("odd degrees: one root", s.tolist(), odd, x_label="s", y_range=(-2, 4)),
        ]
    )
