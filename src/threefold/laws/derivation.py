"""A hand-written backward graded signal by signal, each from the values that its author fed into it.

A mistake spoils whatever comes after it. So every signal is held against the truth, and, where it misses that, against
what its own equation makes of the author's other signals: what rightly follows from a wrong signal is no new mistake.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from threefold.errors import InputError, nearest, require
from threefold.laws.compare import Comparison
from threefold.laws.equations import CELLS, WIDE, Named, Problem, Sizes, Written, gradients, unrolled
from threefold.laws.guard import untouched
from threefold.laws.tolerance import equal

Backward = Callable[[Any], Mapping[str, Any]]
TRIED = (Sizes(), Sizes(T=1, m=1), Sizes(T=12, m=7, seed=2))
EVEN = Sizes(T=6, m=4, n_x=4, n=4, n_y=4)  # where products the wrong way round conform


class Mark(Enum):
    """What becomes of one signal, from best to worst."""

    RIGHT = "right"
    FOLLOWS = "follows"  # from a wrong one, by a right step
    MISSING = "missing"
    WRONG = "wrong"
    SHAPE = "wrong shape"


@dataclass(frozen=True)
class Grade:
    """One signal's mark. `error` is relative to the largest entry that was expected."""

    name: str
    mark: Mark
    needed: bool  # a gradient that the backward owes; the others are steps on the way
    error: float = 0.0
    remark: str = ""  # what is wrong with it, where that can be told
    smallest: Smallest | None = None


@dataclass(frozen=True)
class Smallest:
    """The least sizes at which a signal is still wrong, its worst entry there, and, where every size is 1, its step."""

    sizes: Sizes
    place: str
    expected: float
    got: float
    around: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Report:
    """Every signal's grade, from the loss backward."""

    like: str
    sizes: Sizes
    grades: tuple[Grade, ...]
    raised: str = ""  # what the function raised, and at which sizes
    unknown: tuple[str, ...] = ()  # returned names that are no signal of this cell

    @property
    def right(self) -> bool:
        """Nothing is wrong, and every needed gradient is there."""
        fine = all(g.mark is Mark.RIGHT or (g.mark is Mark.MISSING and not g.needed) for g in self.grades)
        return fine and not self.raised


class Signals(dict[str, Any]):
    """The forward values by name: `s["c"]` or `s.c`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise InputError(
                f"there is no signal {name!r}{nearest(name, self) or '.'} The names are {', '.join(self)}."
            )
        return self[name]


def cell_of(like: str) -> Written:
    """The cell by name."""
    if like == "gru":
        raise InputError("--like 'gru': there are two, gru-before (as published) and gru-after (as torch); name one.")
    require(like in CELLS, f"--like {like!r} is none of {', '.join(CELLS)}{nearest(like, CELLS)}")
    return CELLS[like]


def forward_values(p: Problem) -> Named:
    """What a backward is given: x, y, weights, first states, and every value of the forward pass."""
    values = {name: value for name, value in unrolled(p)[1].values().items() if name not in p.weights}
    del values[f"{p.cell.parts[0]}_out"]
    return {"x": p.x, "y": p.y, **p.leaves, **values, "y_hat": values["z"].softmax(1)}


def shapes_of(cell: Written) -> tuple[dict[str, str], dict[str, str]]:
    """(what is given, what may be returned), each name with its shape in letters."""
    p = Problem.drawn(cell, Sizes(T=11, m=13, n_x=17, n=19, n_y=23))
    letters = {11: "T", 13: "m", 17: "n_x", 19: "n", 23: "n_y", 36: "n + n_x", 1: "1"}

    def spelt(values: Named) -> dict[str, str]:
        return {name: f"({', '.join(letters[size] for size in value.shape)})" for name, value in values.items()}

    truth = gradients(p)
    return spelt(forward_values(p)), spelt({name: truth[name] for name in names_of(cell)})


def names_of(cell: Written) -> tuple[str, ...]:
    """All gradients that can be graded, from the loss backward, then those that are owed."""
    p = Problem.drawn(cell, Sizes(T=1, m=1))
    steps = [name for name in unrolled(p)[1].made if name not in p.weights]
    return tuple(f"d{name}" for name in (*reversed(steps), *p.leaves))


@dataclass(frozen=True)
class Attempt:
    """One run of the author's function, and what each signal should have been."""

    problem: Problem
    sizes: Sizes
    given: Named
    truth: Named
    follows: Named  # each from the author's other signals
    raised: str = ""

    def expected(self, name: str) -> Tensor:
        """What the author's other signals make of it."""
        return self.follows[name]

    def mark(self, name: str) -> tuple[Mark, float]:
        """The mark, and the distance from what was expected."""
        if name not in self.given:
            return Mark.MISSING, 0.0
        got, limit = self.given[name], equal(WIDE, self.sizes.T)
        if got.shape != self.truth[name].shape:
            return Mark.SHAPE, 0.0
        true, local = (Comparison(name, each[name], got, limit).finding() for each in (self.truth, self.follows))
        mark = Mark.WRONG if local.broken else Mark.FOLLOWS
        return (mark, true.error) if true.broken else (Mark.RIGHT, true.error)


def attempt(backward: Backward, cell: Written, sizes: Sizes) -> Attempt:
    """Run it on drawn numbers."""
    p = Problem.drawn(cell, sizes)
    truth = gradients(p)
    convert = _taught(backward)
    try:
        returned = backward(Signals({name: convert(value.clone()) for name, value in forward_values(p).items()}))
    except InputError:
        raise
    except Exception as error:
        return Attempt(p, sizes, {}, truth, truth, f"{_line(error)} (at {sizes})")
    require(
        isinstance(returned, Mapping),
        f"the backward returned a {type(returned).__name__}: return a dict of gradients by name, as the template does.",
    )
    given = {name: _shaped(name, value, truth) for name, value in returned.items() if value is not None}
    held = {name: value for name, value in given.items() if name in truth and value.shape == truth[name].shape}
    return Attempt(p, sizes, given, truth, gradients(p, held))


def _taught(backward: Backward) -> Callable[[Tensor], Any]:
    """Tensors for a function whose file imports torch, arrays for any other."""
    seen = getattr(backward, "__globals__", {}).values()
    torch_there = any(isinstance(value, ModuleType) and value.__name__.split(".")[0] == "torch" for value in seen)
    return (lambda value: value) if torch_there else (lambda value: value.numpy())


def _line(error: Exception) -> str:
    """The error, and the author's own line that raised it: the last one outside installed packages."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if frame.filename != __file__ and "site-packages" not in frame.filename]
    return f"{said}; {Path(frames[-1].filename).name}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else said


def _shaped(name: str, value: Any, truth: Named) -> Tensor:
    """As a float64 tensor; a list is one entry a step, and a bias may leave its column out."""
    try:
        if isinstance(value, (list, tuple)):
            value = np.stack([np.asarray(each) for each in value])
        tensor = torch.as_tensor(value).detach().to(WIDE)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not a tensor of numbers ({error}): return one array for each name.") from None
    wanted = truth[name].shape if name in truth else tensor.shape
    return tensor[:, None] if wanted == (*tensor.shape, 1) else tensor


def grade(backward: Backward, like: str) -> Report:
    """Run it on several problems, mark every signal by the worst of them, and explain what is wrong."""
    from threefold.laws.explain import explained

    cell = cell_of(like)
    with untouched():
        tries = [attempt(backward, cell, sizes) for sizes in TRIED]
        raised = next((each.raised for each in tries if each.raised), "")
        ran = [each for each in tries if not each.raised]
        if not ran:
            ran = [each for each in [attempt(backward, cell, EVEN)] if not each.raised]
        grades = []
        for name in (names := names_of(cell)):
            mark, error = max((each.mark(name) for each in ran), key=_badness, default=(Mark.MISSING, 0.0))
            found = Grade(name, mark, name[1:] in tries[0].problem.leaves, error)
            if mark in (Mark.WRONG, Mark.SHAPE):
                at_fault = next(each for each in ran if each.mark(name)[0] is mark)
                remark, smallest = explained(backward, at_fault, name)
                found = replace(found, remark=remark, smallest=smallest)
            grades.append(found)
    unknown = tuple(name for name in (ran[0].given if ran else ()) if name not in names)
    return Report(like, ran[0].sizes if ran else TRIED[0], _roots(tuple(grades)), raised, unknown)


def _badness(marked: tuple[Mark, float]) -> tuple[int, float]:
    return list(Mark).index(marked[0]), marked[1]


def _roots(grades: tuple[Grade, ...]) -> tuple[Grade, ...]:
    """Say from which wrong signals the others follow."""
    wrong = ", ".join(g.name for g in grades if g.mark in (Mark.WRONG, Mark.SHAPE) and not g.needed)
    said = f"a right step from what is wrong before it ({wrong})"
    return tuple(replace(g, remark=said) if g.mark is Mark.FOLLOWS else g for g in grades)
