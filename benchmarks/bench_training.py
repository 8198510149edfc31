"""The training loop against a plain one: `python benchmarks/bench_training.py lm|speech|all`.

Both train the same model with the same loss, optimiser, clipping and batches. The plain loop is a dozen lines of torch
whose batches are ready in memory; the product's loads, augments and pads its own, records every step and can be killed
at any moment. They take turns in one process; the result is the least time a step over the repeats. `waited` is the
share of the product's time in which it had nothing to compute on, with batches made in its own process (0) or in
another (1).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from threefold.data.espeak import Synthetic
from threefold.recipes.charlm import CharlmRecipe
from threefold.recipes.recipe import Recipe
from threefold.recipes.speech import SpeechRecipe
from threefold.train import chance
from threefold.train.files import write_json
from threefold.train.loop import fit
from threefold.train.record import Run, environment
from threefold.train.task import Task

RESULTS = Path(__file__).parent / "results" / "training.json"
WARM, REPEATS = 2, 7
STEPS = {"charlm": 8, "speech": 6}
RECIPES: dict[str, Recipe] = {
    "lm": replace(CharlmRecipe(), data=replace(CharlmRecipe().data, choose=2000)),
    "speech": replace(SpeechRecipe(), data=replace(SpeechRecipe().data, synthetic=Synthetic(count=300))),
}


def plain(model: nn.Module, task: Task[Any], batches: Sequence[Any], lr: float) -> float:
    """Seconds a step of the loop that anyone would write."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr)
    model.train()
    began = 0.0
    for number, batch in enumerate(batches):
        if number == WARM:
            began = time.perf_counter()
        optimiser.zero_grad()
        loss = task.loss(model, batch) / task.weight(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        loss.item()
    return (time.perf_counter() - began) / (len(batches) - WARM)


class Brief:
    """The task, without its measurements: they are no part of a step."""

    splits = ("train",)

    def __init__(self, task: Task[Any]) -> None:
        self.assets, self.build, self.order = task.assets, task.build, task.order
        self.batch, self.weight, self.loss = task.batch, task.weight, task.loss

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        """Nothing."""
        return {}

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Nothing."""
        return []


def ours(recipe: Recipe, task: Task[Any], workers: int) -> tuple[float, float]:
    """Seconds a step of the product's loop, and the share of them that it waited for data."""
    settings = replace(recipe.train, steps=WARM + STEPS[recipe.name], save_every=10_000, workers=workers)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", recipe)
        fit(Brief(task), settings, run)
        rows = run.rows("train")
    spent = rows[-1]["seconds"] - rows[WARM - 1]["seconds"]
    return spent / STEPS[recipe.name], sum(row["waited"] for row in rows[WARM:]) / spent


def measure(recipe: Recipe) -> dict[str, Any]:
    """Both loops in turn, on the batches of the first epoch."""
    task = recipe.task()
    order = task.order(recipe.train.seed, 0, recipe.train.batch)[: WARM + STEPS[recipe.name]]
    ready = [task.batch(indices, recipe.train.seed, 0) for indices in order]
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "0": [], "1": []}
    for _ in range(REPEATS):
        chance.seed(recipe.train.seed)
        found["plain"].append((plain(task.build(), task, ready, recipe.train.lr), 0.0))
        for workers in (0, 1):
            found[str(workers)].append(ours(recipe, task, workers))
    best = {name: min(rows) for name, rows in found.items()}
    return {
        "parameters": sum(p.numel() for p in task.build().parameters()),
        "batch": recipe.train.batch,
        "plain_seconds": best["plain"][0],
        "workers": {
            name: {"seconds": best[name][0], "ratio": best[name][0] / best["plain"][0], "waited": best[name][1]}
            for name in ("0", "1")
        },
        "steps": STEPS[recipe.name],
        "repeats": REPEATS,
    }


def main() -> int:
    """Measure, keep, tell."""
    asked = sys.argv[1] if len(sys.argv) > 1 else "all"
    if asked not in (*RECIPES, "all"):
        sys.stderr.write(f"{asked!r}: give one of {', '.join(RECIPES)}, all.\n")
        return 2
    for name in RECIPES if asked == "all" else [asked]:
        found = measure(RECIPES[name]) | {"environment": environment()}
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.parent.mkdir(exist_ok=True)
        write_json(RESULTS, kept | {name: found})
        sys.stdout.write(f"{name}: plain {1e3 * found['plain_seconds']:.1f} ms a step\n")
        for workers, row in found["workers"].items():
            told = f"{1e3 * row['seconds']:.1f} ms, {row['ratio']:.3f} of plain, {100 * row['waited']:.2f} % waiting"
            sys.stdout.write(f"  with {workers} workers: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
