"""Signal by signal: the closed-form backward of a recurrent cell beside autograd on its printed equations."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from threefold.laws.case import Case
from threefold.laws.compare import Comparison
from threefold.laws.equations import CELLS, Problem, Sizes, Written, gradients
from threefold.laws.subject import WIDE, Subject
from threefold.laws.tolerance import equal
from threefold.mixers.recurrent import RecurrentMixer
from threefold.ops.recurrence import derivation

NAMES = {"tanh": "rnn", "lstm": "lstm", "gru_before": "gru-before", "gru_after": "gru-after"}


def written(subject: Subject) -> Written | None:
    """The printed equations of the subject's cell, where there are some."""
    module = subject.module()
    return CELLS[NAMES[module.cell.name]] if isinstance(module, RecurrentMixer) and module.cell.name in NAMES else None


def has_signals(subject: Subject) -> bool:
    """Whether the subject has a closed form whose signals have names."""
    return written(subject) is not None


def compare_signals(subject: Subject, case: Case) -> Iterator[Comparison]:
    """Every signal of `derivation` with the module's own weights and cell; the loss reads the first state alone."""
    module, cell = subject.module(), written(subject)
    assert isinstance(module, RecurrentMixer) and cell is not None
    with torch.no_grad():
        drawn = Problem.drawn(cell, Sizes(case.T, case.B, subject.width, module.hidden, 2, case.seed))
        weights = cell.unpacked(module.weights) | {name: drawn.weights[name] for name in ("W_y", "b_y")}
    p = Problem(cell, drawn.x, drawn.y, drawn.start, weights)
    truth = gradients(p)
    with torch.no_grad():
        upstream = truth[f"d{cell.parts[0]}_out"].permute(2, 0, 1)
        others = tuple(torch.zeros_like(upstream) for _ in cell.parts[1:])
        state = tuple(part.T for part in p.start)
        named, back = derivation(module.cell, p.x.permute(2, 0, 1), state, module.weights, (upstream, *others))
        signals = {name: value.permute(1, 2, 0) for name, value in named.items() if name in truth}
        signals |= {f"d{name}": value for name, value in cell.unpacked(back.weights).items()}
        signals |= {f"d{part}0": value.T for part, value in zip(cell.parts, back.state, strict=True)}
    held = {"db": module.bias is not None, "db_h": module.inner_bias is not None}
    for name, value in signals.items():
        if held.get(name, held["db"] or not name.startswith("db_")):
            limit, remark = equal(WIDE, case.T), f"the closed form's {name} differs from autograd's on the equations"
            yield Comparison(name, truth[name], value, limit, remark=remark)
