"""A run that was trained, opened for use: its recipe, its task and its model with the best weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.errors import require
from threefold.recipes import RECIPES
from threefold.recipes.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from threefold.train.record import Run
    from threefold.train.task import Task


@dataclass(frozen=True)
class Saved:
    """What `reopen` found."""

    run: Run
    recipe: Recipe
    task: Task[Any]
    model: nn.Module
    checkpoint: str

    def evaluate(self, split: str) -> dict[str, Any]:
        """The metrics on one split."""
        import torch

        splits = self.task.splits
        require(split in splits, f"no split {split!r} in this data; it has {', '.join(splits)}.")
        with torch.no_grad():
            return self.task.evaluate(self.model, split)

    def predict(self, inputs: list[str]) -> list[dict[str, Any]]:
        """What the model says of each input."""
        import torch

        with torch.no_grad():
            return self.task.predict(self.model, inputs)


def recipe_of(run: Run) -> Recipe:
    """The recipe that a run was made from."""
    assert RECIPES  # importing them is what makes their names known
    return Recipe.from_dict(run.recipe)


def reopen(folder: Path | str, *, data: Path | str | None = None, checkpoint: str | None = None) -> Saved:
    """The model of a run in evaluation mode; `data` points its task at other data of the same kind.

    `checkpoint` None is the best by validation, or the last where nothing was validated.
    """
    from threefold.train.record import Run
    from threefold.train.state import load_model

    run = Run.open(folder)
    recipe = recipe_of(run)
    names = [*run.shelf.names("best"), *run.shelf.names("last")]
    require(
        bool(names) and run.assets is not None, f"{folder} has no checkpoint yet: `threefold resume {folder}` first."
    )
    best = ((run.done or {}).get("best") or {}).get("step")
    chosen = checkpoint or (f"best-{best}" if f"best-{best}" in names else names[0])
    saved = run.shelf.load(chosen)
    task = (recipe if data is None else recipe.on(data)).task(run.assets)
    model = task.build()
    load_model(model, saved.tensors)
    return Saved(run, recipe, task, model.eval(), chosen)
