"""The loop does what its settings say, and nothing depends on how the batches were loaded."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.train.toy import SETTINGS, Points, Toy, ToySpec, equal, measured, weights
from threefold.errors import InputError
from threefold.train import chance
from threefold.train.loop import DivergenceError, fit
from threefold.train.record import Row, Run
from threefold.train.settings import SGD, Schedule, Sharding, Train


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(folder: Path, task: Toy | None = None, settings: Train = SETTINGS) -> tuple[Run, Row]:
    run = Run.create(folder, ToySpec(settings))
    return run, fit(task or Toy(), settings, run)


def losses(run: Run) -> list[float]:
    return [row["loss"] for row in run.rows("train")]


def test_it_learns_and_its_folder_tells_all(tmp_path: Path) -> None:
    run, outcome = train(tmp_path / "run")
    first, *_, last = run.rows("valid")
    assert last["loss"] < 0.5 * first["loss"] or last["accuracy"] > 0.9
    assert [row["step"] for row in run.rows("train")] == list(range(1, 34))
    assert [row["step"] for row in run.rows("valid")] == [11, 22, 33]
    assert outcome == run.done and outcome["reason"] == "finished" and outcome["test"]["accuracy"] > 0.8
    assert ToySpec.from_dict(run.recipe) == ToySpec()
    assert run.assets == {"labels": ["a", "b", "c"]}
    names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
    assert len(names) == 8 and not [name for name in names if name.endswith(".tmp")]
    assert run.shelf.names("last") == ["last-33", "last-30"]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path: Path) -> None:
    one, two, other = (
        train(tmp_path / name, settings=replace(SETTINGS, seed=seed))[0]
        for name, seed in (("1", 1), ("2", 1), ("3", 2))
    )
    assert measured(one) == measured(two) != measured(other)
    assert equal(weights(one), weights(two)) and not equal(weights(one), weights(other))


def test_workers_and_evaluations_leave_the_training_alone(tmp_path: Path) -> None:
    plain, _ = train(tmp_path / "plain")
    workers, _ = train(tmp_path / "workers", settings=replace(SETTINGS, workers=2))
    often, _ = train(tmp_path / "often", settings=replace(SETTINGS, evaluate_every=2))
    assert losses(plain) == losses(workers) == losses(often)
    assert len(often.rows("valid")) == 17


def test_a_careless_task_is_tamed(tmp_path: Path) -> None:
    class Careless(Toy):
        def batch(self, indices: Sequence[int], seed: int, epoch: int) -> Points:
            return Points(self.x[list(indices)] + torch.randn(len(indices), 6), self.y[list(indices)])

    here, _ = train(tmp_path / "here", Careless())
    there, _ = train(tmp_path / "there", Careless(), replace(SETTINGS, workers=2))
    assert losses(here) == losses(there)


def test_accumulation_equals_a_larger_batch(tmp_path: Path) -> None:
    task = Toy(dropout=0.0)
    whole, _ = train(tmp_path / "whole", task, replace(SETTINGS, batch=12))
    parts, _ = train(tmp_path / "parts", task, replace(SETTINGS, batch=4, accumulate=3))
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-4)
    assert whole.rows("train")[0]["loss"] == pytest.approx(parts.rows("train")[0]["loss"], rel=1e-6)


def test_unequal_weights_are_averaged_over_terms_not_over_batches(tmp_path: Path) -> None:
    class Weighted(Toy):
        """Each example counts as often as its class number says, plus one."""

        def weight(self, batch: Points) -> float:
            return float((batch.y + 1).sum())

        def loss(self, model: nn.Module, batch: Points) -> Tensor:
            terms = nn.functional.cross_entropy(model(batch.x), batch.y, reduction="none")
            return (terms * (batch.y + 1)).sum()

    task = Weighted(dropout=0.0)
    whole, _ = train(tmp_path / "whole", task, replace(SETTINGS, batch=12, steps=2))
    parts, _ = train(tmp_path / "parts", task, replace(SETTINGS, batch=4, accumulate=3, steps=2))
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-6)


def test_schedule_clip_and_plain_descent_reach_the_optimiser(tmp_path: Path) -> None:
    settings = Train(lr=0.5, steps=1, batch=42, clip=1e-3, optimiser=SGD(), schedule=Schedule(), seed=3)
    chance.seed(3)
    before = Toy().build().state_dict()
    run, _ = train(tmp_path / "run", Toy(dropout=0.0), settings)
    saved = weights(run)
    moved = math.sqrt(sum(float((saved[f"model.{n}"] - t).square().sum()) for n, t in before.items()))
    assert moved == pytest.approx(0.5 * 1e-3, rel=1e-2)
    assert run.rows("train")[0]["norm"] > 1e-3


def test_patience_ends_the_run_and_the_best_weights_are_tested(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=50, lr=0.3, patience=2, watch="accuracy", schedule=Schedule())
    run, outcome = train(tmp_path / "run", settings=settings)
    valid = run.rows("valid")
    best = max(valid, key=lambda row: row["accuracy"])
    assert outcome["reason"] == "no improvement" and outcome["best"]["step"] == best["step"]
    assert outcome["step"] == best["step"] + 2 * 11 == valid[-1]["step"]
    assert run.rows("test")[0]["checkpoint"] == best["step"]


def test_bfloat16_still_learns(tmp_path: Path) -> None:
    run, _ = train(tmp_path / "run", settings=replace(SETTINGS, bfloat16=True))
    plain, _ = train(tmp_path / "plain")
    assert losses(run) != losses(plain)
    assert losses(run) == pytest.approx(losses(plain), rel=0.15, abs=0.05)


def test_a_stop_saves_where_it_is(tmp_path: Path) -> None:
    asked = iter([False] * 5 + [True])
    run = Run.create(tmp_path / "run", ToySpec())
    outcome = fit(Toy(), SETTINGS, run, stop=lambda: next(asked))
    assert outcome == {"step": 5, "reason": "stopped"} and run.done is None
    assert run.shelf.names("last")[0] == "last-5"
    worked = run.shelf.load("last-5").state["worked"]
    assert worked > 0
    outcome = fit(Toy(), SETTINGS, run, begin="last-5")
    assert outcome["processor_seconds"] > worked
    assert measured(run) == measured(train(tmp_path / "whole")[0])


def test_a_loss_that_is_no_number_stops_before_the_weights_are_hurt(tmp_path: Path) -> None:
    class Broken(Toy):
        def loss(self, model: nn.Module, batch: Points) -> Tensor:
            self.left = getattr(self, "left", 5) - 1
            return super().loss(model, batch) * (1.0 if self.left else math.nan)

    run = Run.create(tmp_path / "run", ToySpec())
    with pytest.raises(DivergenceError, match=r"step 5: the loss is nan\. Lower train\.lr"):
        fit(Broken(), SETTINGS, run)
    assert run.shelf.names("last") == ["last-3"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"watch": "acuracy"}, "choose one of loss, accuracy"),
        ({"sharding": Sharding.FULL}, "needs several processes"),
    ],
)
def test_settings_that_cannot_be_honoured(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        train(tmp_path / "run", settings=replace(SETTINGS, **changed))


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"batch": 0}, "at least 1"), ({"lr": 0.0}, "positive"), ({"smoothing": 1.0}, "share"), ({"clip": -1.0}, "norm")],
)
def test_settings_refuse_nonsense(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(SETTINGS, **changed)


def test_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", ToySpec())
    with pytest.raises(InputError, match="threefold resume"):
        Run.create(tmp_path / "run", ToySpec())
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / ".recipe.json.1.tmp").write_text("{")
    Run.create(tmp_path / "torn", ToySpec())
    with pytest.raises(InputError, match="is not a run"):
        Run.open(tmp_path)
