"""A model that knows the answer is right, one that guesses is not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from threefold.errors import InputError
from threefold.recipes.toys import (
    AddingRecipe,
    ComparatorRecipe,
    CopyRecipe,
    PermutationRecipe,
    RecallRecipe,
    ToyRecipe,
)

RECIPES = [RecallRecipe, CopyRecipe, AddingRecipe, ComparatorRecipe, PermutationRecipe]


class Copier(nn.Module):
    """Solves the copy task: the answer stands `length + delay` places before."""

    def __init__(self, distance: int, vocab: int) -> None:
        super().__init__()
        self.distance, self.vocab = distance, vocab

    def forward(self, tokens: Tensor) -> Tensor:
        return 50.0 * functional.one_hot(tokens.roll(self.distance, 1), self.vocab).float()


class Adder(nn.Module):
    """Solves the adding problem."""

    def forward(self, numbers: Tensor) -> Tensor:
        return numbers.prod(2).sum(1)


class Alternating(nn.Module):
    """Solves the comparator as the documents do."""

    def forward(self, numbers: Tensor) -> Tensor:
        signs = torch.tensor([-1.0, 1.0]).repeat(numbers.shape[1] // 2)
        return 1000 * (numbers[:, :, 0] * signs).sum(1)


@torch.no_grad()
def test_those_who_know_are_right() -> None:
    copy = CopyRecipe()
    found = copy.task().evaluate(Copier(copy.data.toy.length + copy.data.toy.delay, copy.data.toy.vocab), "test")
    assert (found["accuracy"], found["whole"]) == (1.0, 1.0)
    assert found["loss"] < 1e-6
    assert AddingRecipe().task().evaluate(Adder(), "test") == {"loss": pytest.approx(0, abs=1e-9), "accuracy": 1.0}
    assert ComparatorRecipe().task().evaluate(Alternating(), "test")["accuracy"] == 1.0


@pytest.mark.parametrize("kind", RECIPES, ids=lambda kind: kind.name)
def test_splits_and_epochs_are_different_examples(kind: type[ToyRecipe]) -> None:
    task = kind().task()
    seen = [task.batch([0, 1], 0, 0), task.batch([0, 1], 0, 1), task._tests("valid")[0], task._tests("test")[0]]
    rows = {tuple(batch.inputs[0].flatten().tolist()) for batch in seen}
    assert len(rows) == 4


def test_toys_read_no_file_and_predict_nothing() -> None:
    with pytest.raises(InputError, match="makes its own examples"):
        replace(CopyRecipe().on("x")).task()
    with pytest.raises(InputError, match="threefold evaluate"):
        CopyRecipe().task().predict(nn.Identity(), ["x"])
