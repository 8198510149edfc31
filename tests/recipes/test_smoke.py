"""Every recipe learns in seconds, and is its own JSON."""

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threefold.recipes import RECIPES
from threefold.recipes.recipe import Recipe
from threefold.specs.base import Spec
from threefold.train.loop import fit
from threefold.train.record import Run
from threefold.train.task import Task


def small(kind: type[Recipe], folder: Path) -> Recipe:
    """The smoke version; images that must be fetched are stood in for by ones that are easy to tell apart."""
    recipe = kind().smoke()
    if kind.name != "octmnist":
        return recipe
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    images = rng.integers(0, 60, (400, 28, 28), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[label * 7 : label * 7 + 7] += 150
    parts = {"train": slice(320), "val": slice(320, 360), "test": slice(360, 400)}
    arrays = {f"{name}_images": images[part] for name, part in parts.items()}
    np.savez(folder / "easy.npz", **arrays, **{f"{name}_labels": labels[part, None] for name, part in parts.items()})
    return recipe.on(folder / "easy.npz")


@pytest.mark.parametrize("kind", RECIPES, ids=lambda kind: kind.name)
def test_a_smoke_run_lowers_its_loss(kind: type[Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind.name == "speech":
        pytest.importorskip("espeakng_loader", reason="made speech needs the extra `speech`")
    monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path / "cache"))
    recipe = small(kind, tmp_path)
    run = Run.create(tmp_path / "run", recipe)
    outcome = fit(recipe.task(), recipe.train, run)
    losses = [row["loss"] for row in run.rows() if row["kind"] == "train"]
    fifth = max(1, len(losses) // 5)
    assert statistics.mean(losses[-fifth:]) < 0.97 * statistics.mean(losses[:fifth])
    assert outcome["test"]["loss"] > 0
    again = Recipe.from_dict(run.recipe).task(run.assets)
    shapes = {name: p.shape for name, p in again.build().state_dict().items()}
    assert shapes == {name: p.shape for name, p in recipe.task().build().state_dict().items()}


@pytest.mark.parametrize("kind", RECIPES, ids=lambda kind: kind.name)
def test_a_recipe_is_its_json(kind: type[Recipe]) -> None:
    for recipe in (kind(), kind().smoke(), kind().on("some/where")):
        assert Spec.from_json(recipe.to_json()) == recipe
    assert kind().on("x").data.path == "x"
    assert kind.says


def test_names_are_distinct() -> None:
    assert len({kind.name for kind in RECIPES}) == len(RECIPES) == 10


@pytest.mark.parametrize("kind", [k for k in RECIPES if k.name not in ("octmnist", "speech")], ids=lambda k: k.name)
def test_batches_are_a_function_of_seed_epoch_and_indices(kind: type[Recipe]) -> None:
    def first(task: Task) -> list:
        return [tensor.tolist() for tensor in task.batch(task.order(3, 1, 4)[0], 3, 1)]

    recipe = kind().smoke()
    assert first(recipe.task()) == first(recipe.task())
    other = replace(recipe, train=replace(recipe.train, seed=9)).task()
    assert other.order(3, 1, 4) == recipe.task().order(3, 1, 4)
