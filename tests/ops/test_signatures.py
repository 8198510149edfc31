"""All forms of an op are called the same way, with the same defaults: a caller may exchange them freely."""

import inspect
from collections.abc import Callable
from types import ModuleType

import pytest

from threefold.kernels import linear as native
from threefold.ops import linear, softmax
from threefold.ops.cells import Cell
from threefold.ops.recurrence import CELLS


def called(form: Callable[..., object]) -> list[tuple[str, object, object]]:
    """Name, kind and default of each parameter."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(form).parameters.values()]


@pytest.mark.parametrize("op", [softmax, linear], ids=lambda op: op.__name__)
def test_forms_share_one_signature(op: ModuleType) -> None:
    assert called(op.step) == called(op.chunked) == called(op.parallel)
    for form in (op.step, op.chunked, op.parallel):
        assert called(inspect.unwrap(form)) == called(form)
        entered = [p for p in inspect.signature(form).parameters.values() if p.default is inspect.Parameter.empty]
        assert [p.name for p in entered][:4] == ["q", "k", "v", "state"]


def test_what_chooses_a_kernel_takes_what_the_op_takes() -> None:
    names = {name for name, *_ in called(linear.chunked)}
    chooser = inspect.signature(linear.chunked, follow_wrapped=False)
    assert set(chooser.parameters) == names
    assert {p.name: p.default for p in chooser.parameters.values()} == {n: d for n, _, d in called(linear.chunked)}


def test_the_native_kernel_is_asked_and_run_with_the_same_words() -> None:
    asked, run = called(native.supports), called(native.run)
    assert asked == run
    assert [name for name, *_ in run] == [name for name, *_ in called(linear.chunked) if name != "chunk"]


@pytest.mark.parametrize("cell", CELLS.values(), ids=lambda cell: cell.name)
def test_cells_share_their_methods(cell: Cell) -> None:
    for method in ("advance", "retreat"):
        names = list(inspect.signature(getattr(cell, method)).parameters)
        assert names == list(inspect.signature(getattr(Cell, method)).parameters)[1:]
