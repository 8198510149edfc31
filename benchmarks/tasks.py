"""What the recipes reach on real data: `python benchmarks/tasks.py NAME|all --data FOLDER`.

Each line of the table is a recipe, trained with several seeds as `threefold compare` trains it: a run folder for each
seed under `--runs`, in processes of one thread, continued where they stand when the same command is given again. What
is finished goes to results/tasks.json, with the machine and the commit that trained it. Seconds are those of the
processor while training and validating, which other work on the machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks_data import connected_digits

from threefold.recipes import comparison
from threefold.recipes.charlm import CharlmData, CharlmRecipe
from threefold.recipes.comparison import Variant
from threefold.recipes.images import ImageData, OctmnistRecipe
from threefold.recipes.sentiment import SentimentData, SentimentRecipe
from threefold.recipes.speech import SpeechData, SpeechRecipe
from threefold.specs.attention import Linear, Softmax
from threefold.specs.features import Taylor
from threefold.specs.recurrent import GRU, LSTM
from threefold.specs.vision import Shrink
from threefold.train.files import write_json
from threefold.train.record import Run
from threefold.train.sweep import Local, sweep

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tasks.json"
MIXERS = {"lstm": LSTM(), "gru": GRU(), "softmax": Softmax(), "taylor2": Linear(features=Taylor(2))}


@dataclass(frozen=True)
class Task:
    """Variants that are measured alike: on which data, by what, against which bound."""

    says: str
    metric: str
    least: bool  # whether less is better
    bounds: dict[str, float]  # for single variants; "best" and "every" for all of them
    variants: tuple[Variant, ...]
    seeds: int = 3


def images(data: Path) -> Task:
    """The documents' CNN and its three rates."""
    recipe = OctmnistRecipe(data=ImageData(str(data / "pneumoniamnist.npz")))
    variants = [
        Variant(
            f"{shrink.value} lr={rate}",
            replace(recipe, model=replace(recipe.model, shrink=shrink), train=replace(recipe.train, lr=rate)),
        )
        for shrink in (Shrink.POOL, Shrink.STRIDE)
        for rate in (0.1, 0.01, 0.001)
    ]
    says = "PneumoniaMNIST, test accuracy; logistic regression on pixels has 0.846"
    return Task(says, "accuracy", False, {"best": 0.846}, tuple(variants))


def reading(recipe: SentimentRecipe, names: Iterable[str]) -> tuple[Variant, ...]:
    """The sentiment recipe with one mixer after the other."""
    return tuple(Variant(name, replace(recipe, model=replace(recipe.model, mixer=MIXERS[name]))) for name in names)


def sst2(data: Path) -> Task:
    """Short film sentences."""
    variants = reading(SentimentRecipe(data=SentimentData(str(data / "sst2"))), MIXERS)
    says = "SST-2, test accuracy; TF-IDF with logistic regression has 0.813"
    return Task(says, "accuracy", False, {"best": 0.80, "every": 0.76}, variants)


def snappfood(data: Path) -> Task:
    """Persian reviews of meals."""
    recipe = SentimentRecipe(data=SentimentData(str(data / "snappfood-fa"), split="dev"))
    says = "Snappfood (Persian, trained on dev), test accuracy; TF-IDF with logistic regression has 0.842"
    return Task(says, "accuracy", False, {"best": 0.83}, reading(recipe, ("lstm",)))


def speech(data: SpeechData) -> SpeechRecipe:
    """The recipe as it is, with matrix products in bfloat16."""
    recipe = SpeechRecipe(data=data)
    return replace(recipe, train=replace(recipe.train, bfloat16=True))


def digits(data: Path) -> Task:
    """Connected digits, one speaker an utterance, by both decoders."""
    recipe = speech(SpeechData(str(connected_digits(data / "fsdd_8k_int16.npz"))))
    variants = (
        Variant("transformer decoder", recipe),
        Variant("lstm decoder", replace(recipe, model=replace(recipe.model, decoder=LSTM()))),
    )
    says = "FSDD, 3 to 6 connected digits of one speaker, takes 0-4 heard in the test only: character error rate"
    return Task(says, "cer", True, {"transformer decoder": 0.05, "lstm decoder": 0.08}, variants)


def espeak(_: Path) -> Task:
    """What the recipe does without any data of the user's, in 24 epochs: the documents' 15 are a little too few."""
    recipe = speech(SpeechData())
    recipe = replace(recipe, train=replace(recipe.train, epochs=24))
    says = "espeak-ng, 2,000 utterances of a 200-word list in five voices, unseen sentences: character error rate"
    return Task(says, "cer", True, {"best": 0.10}, (Variant("transformer decoder", recipe),))


def shakespeare(data: Path) -> Task:
    """Ten minutes of training."""
    recipe = CharlmRecipe(data=CharlmData(str(data / "tinyshakespeare.txt"), length=256))
    recipe = replace(recipe, train=replace(recipe.train, batch=8, epochs=6, bfloat16=True))
    says = "tinyshakespeare, at most 10 minutes of one processor: nats a character of the last tenth"
    return Task(says, "loss", True, {"best": 1.70}, (Variant("softmax rotary", recipe),))


TASKS = {f.__name__: f for f in (images, sst2, snappfood, digits, espeak, shakespeare)}


def measured(folders: dict[str, list[Path]], task: Task) -> list[dict[str, Any]]:
    """A row of the table for each variant of which some seed is finished."""
    rows = []
    for label, paths in folders.items():
        ended = [(run, run.done) for run in map(Run.open, paths) if run.done]
        if not ended:
            continue
        line = comparison.summary({label: [run.folder for run, _ in ended]})[0]
        mean, spread = line.metrics[task.metric]
        rows.append(
            {
                "model": label,
                "metric": task.metric,
                "mean": mean,
                "std": spread,
                "seeds": [run.recipe["train"]["seed"] for run, _ in ended],
                "values": [done["test"][task.metric] for _, done in ended],
                "parameters": line.parameters,
                "steps": [done["step"] for _, done in ended],
                "processor_seconds": sum(done["processor_seconds"] for _, done in ended) / len(ended),
                "metrics": {name: list(both) for name, both in line.metrics.items()},
                "environment": {key: value for key, value in ended[-1][0].environment.items() if key in KEPT},
            }
        )
    return rows


KEPT = ("started", "machine", "cores", "threads", "python", "torch", "threefold", "git")


def held(task: Task, rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Which bounds hold, by the means."""

    def good(row: dict[str, Any], bound: float) -> bool:
        return row["mean"] <= bound if task.least else row["mean"] >= bound

    chosen = dict.fromkeys(("best", "every"), rows) | {row["model"]: [row] for row in rows}
    return {
        name: (all if name == "every" else any)(good(row, bound) for row in chosen[name])
        for name, bound in task.bounds.items()
        if chosen.get(name)
    }


def keep(name: str, task: Task, rows: list[dict[str, Any]]) -> None:
    """Put a task's rows into the results, beside those of the others."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found[name] = {"says": task.says, "bounds": task.bounds, "held": held(task, rows), "rows": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    write_json(RESULTS, found)


def told(task: Task, rows: list[dict[str, Any]]) -> str:
    """The table as text."""
    lines = [task.says]
    for row in rows:
        number = f"{row['mean']:.4f}" + (f" ± {row['std']:.4f}" if len(row["seeds"]) > 1 else "")
        about = f"seeds {row['seeds']}, {row['parameters']:,} parameters, {row['processor_seconds']:.0f} s"
        lines.append(f"  {row['model']:<24}{number:<20}{about}")
    lines += [f"  {name} {bound}: {'holds' if yes else 'does not hold'}" for (name, bound), yes in _judged(task, rows)]
    return "\n".join(lines) + "\n"


def _judged(task: Task, rows: list[dict[str, Any]]) -> list[tuple[tuple[str, float], bool]]:
    return [((name, task.bounds[name]), yes) for name, yes in held(task, rows).items()]


def main() -> int:
    """Train what is not trained, and tell."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("name", choices=[*TASKS, "all"])
    words.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    words.add_argument("--runs", type=Path, default=Path("runs/tasks"))
    words.add_argument("--jobs", type=int, default=2, help="runs at a time")
    words.add_argument("--seeds", type=int, help="fewer or more than the table's")
    words.add_argument("--table", action="store_true", help="train nothing, tell what is finished")
    asked = words.parse_args()
    if not asked.data.is_dir():
        sys.stdout.write(f"{asked.data}: no such folder; the data is not part of the project. Nothing was measured.\n")
        return 0
    failed = []
    for name in TASKS if asked.name == "all" else [asked.name]:
        task = TASKS[name](asked.data)
        variants, seeds = task.variants, range(asked.seeds or task.seeds)
        folders = comparison.prepare(asked.runs / name, variants, seeds)
        if not asked.table:
            every = [paths[at] for at in range(len(seeds)) for paths in folders.values()]
            failed += sweep(
                every, Local(asked.jobs, threads=1), lambda ended: sys.stderr.write(f"{ended.folder}: {ended.code}\n")
            )
        rows = measured(folders, task)
        if rows:
            keep(name, task, rows)
        sys.stdout.write(told(task, rows))
    for ended in failed:
        sys.stderr.write(f"{ended.folder}: {ended.said}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
