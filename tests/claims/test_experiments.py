"""Experiments are decided by records, and only by records."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from threefold.claims import experiments, find
from threefold.claims.claim import Claim, Outcome
from threefold.claims.experiments import catalogue, measures, recorded, rows
from threefold.claims.experiments import experiment as experiments_module
from threefold.claims.experiments.experiment import Experiment, Finished, at, finished, flat, paired, plain
from threefold.claims.experiments.recorded import Session
from threefold.errors import InputError
from threefold.recipes.charlm import CharlmData, CharlmRecipe
from threefold.recipes.sentiment import SentimentRecipe
from threefold.specs.base import MixerSpec
from threefold.specs.recurrent import GRU, LSTM
from threefold.train.loop import fit
from threefold.train.record import Run


@pytest.fixture(autouse=True)
def nothing_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments_module, "sessions", dict)


def record(folder: Path, mixer: MixerSpec, seed: int, *, accuracy: float, lr: float | None = None) -> None:
    """A finished run, as training leaves it."""
    recipe = SentimentRecipe()
    train = replace(recipe.train, seed=seed, lr=lr or recipe.train.lr)
    recipe = replace(recipe, model=replace(recipe.model, mixer=mixer), train=train)
    run = Run.create(folder / f"{type(mixer).__name__}-{seed}-{int(lr is not None)}", recipe)
    classes = {"negative": {"recall": 0.9}, "positive": {"recall": 0.8}}
    rows = [
        {"kind": "train", "step": 1, "epoch": 0, "loss": 0.4},
        {"kind": "test", "step": 1, "accuracy": accuracy, "f1": accuracy, "loss": 0.5, "per_class": classes},
    ]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run.finish({"seconds": 1.0, "processor_seconds": 1.0})


def runs(folder: Path, gru: Callable[[int], float], seeds: int = 5) -> Path:
    for seed in range(seeds):
        record(folder, LSTM(), seed, accuracy=0.9)
        record(folder, GRU(), seed, accuracy=gru(seed))
    return folder


def test_nothing_recorded_says_what_to_type(tmp_path: Path) -> None:
    verdict = find("000-1.1-acc").evidence(tmp_path)
    assert verdict.outcome is Outcome.NOT_RUN
    assert "`threefold compare sentiment --vary 'model.mixer=lstm,gru' --seeds 5" in verdict.limits
    assert not verdict.numbers


@pytest.mark.parametrize("claim", experiments.CLAIMS, ids=lambda claim: claim.id)
def test_each_names_recipe_measure_seeds_and_rule(claim: Claim, tmp_path: Path) -> None:
    says = claim.corrected
    assert says.startswith("decided by E") and "5 paired seeds" in says and "95 % bootstrap interval" in says
    assert any(f"(recipe {experiment.recipe}): " in says for experiment in catalogue.EXPERIMENTS)
    limits = claim.evidence(tmp_path).limits
    assert "`threefold compare " in limits or "`threefold claims " in limits


def test_what_was_recorded_answers_until_there_are_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {str(seed): 0.02 + 0.001 * seed for seed in range(5)}
    session = Session("2026-01-02", "a machine, 2 cores", "0.1.0", "abc1234", 10, 3.0, {rows.ACCURACY.what: values})
    monkeypatch.setattr(experiments_module, "sessions", lambda: {"E1": session})
    claim = find("000-1.1-acc")
    verdict = claim.evidence(tmp_path / "none")
    assert verdict.outcome is Outcome.FALSE  # 0.02 and more apart, and 0.01 was allowed
    assert "refuted by E1 on 2026-01-02 (10 runs, 3 processor minutes, a machine, 2 cores, threefold" in verdict.limits
    assert "runs it again" in verdict.limits and "0.02, 0.021, 0.022" in verdict.limits
    few = claim.evidence(runs(tmp_path / "few", lambda seed: 0.9, seeds=2))  # his own come first, and are too few
    assert few.outcome is Outcome.NOT_RUN and f"2 of 5 seeds are recorded in {tmp_path / 'few'}" in few.limits
    assert claim.evidence(runs(tmp_path / "own", lambda seed: 0.9)).outcome is Outcome.TRUE
    assert find("E1-prf").evidence(tmp_path / "none").outcome is Outcome.NOT_RUN  # another question, not recorded


def test_settings_chosen_after_a_first_try_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments_module, "sessions", recorded.sessions)
    assert "chosen after a first try" in find("E15-mask").evidence(tmp_path).limits
    assert "chosen after" not in find("E12").evidence(tmp_path).limits


def test_sessions_are_kept_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.json")
    recorded.sessions.cache_clear()
    one, two = (Session("2026-01-02", "m", "0", "c", 1, 1.0, {"q": {"0": value}}) for value in (1.0, 2.0))
    recorded.keep({"E1": one})
    recorded.keep({"E2": two})
    assert recorded.sessions() == {"E1": one, "E2": two}
    monkeypatch.undo()
    recorded.sessions.cache_clear()


@pytest.mark.parametrize(("id", "session"), recorded.sessions().items(), ids=lambda value: str(value)[:10])
def test_what_comes_along_answers_every_question_of_its_experiment(id: str, session: Session) -> None:
    experiment = next(experiment for experiment in catalogue.EXPERIMENTS if experiment.id == id)
    assert session.answers.keys() == {question.what for question in rows.QUESTIONS if question.experiment is experiment}
    assert all(answer.keys() == {str(seed) for seed in range(5)} for answer in session.answers.values())
    assert session.runs == 5 * len(experiment.arms)
    assert session.commit and not session.commit.endswith("+")


def test_too_few_seeds_are_not_enough(tmp_path: Path) -> None:
    verdict = find("000-1.1-acc").evidence(runs(tmp_path, lambda seed: 0.9, seeds=3))
    assert verdict.outcome is Outcome.NOT_RUN
    assert "3 of 5 seeds" in verdict.limits


@pytest.mark.parametrize(
    ("gru", "outcome"),
    [
        (lambda seed: 0.9 + 0.001 * seed, Outcome.TRUE),
        (lambda seed: 0.8 - 0.001 * seed, Outcome.FALSE),
        (lambda seed: 0.89 + 0.008 * seed, Outcome.UNDECIDED),
    ],
)
def test_equivalence(tmp_path: Path, gru: Callable[[int], float], outcome: Outcome) -> None:
    verdict = find("000-1.1-acc").evidence(runs(tmp_path, gru))
    assert verdict.outcome is outcome
    assert "95% interval" in verdict.numbers[0].needs


@pytest.mark.parametrize(
    ("gru", "outcome"),
    [
        (lambda seed: 0.8, Outcome.TRUE),
        (lambda seed: 0.95, Outcome.FALSE),
        (lambda seed: 0.8 if seed % 2 else 1.0, Outcome.UNDECIDED),
    ],
)
def test_a_direction(tmp_path: Path, gru: Callable[[int], float], outcome: Outcome) -> None:
    assert find("E1-prf").evidence(runs(tmp_path, gru)).outcome is outcome


def test_other_measures_read_the_same_records(tmp_path: Path) -> None:
    folder = runs(tmp_path, lambda seed: 0.9)
    assert find("000-1.1-neg").evidence(folder).outcome is Outcome.TRUE
    assert find("E2").evidence(folder).outcome is Outcome.UNDECIDED  # equal times


def test_two_questions_need_both(tmp_path: Path) -> None:
    verdict = find("003-1.1-same").evidence(runs(tmp_path, lambda seed: 0.9))
    assert verdict.outcome is Outcome.NOT_RUN
    assert "E3" in verdict.limits


def test_runs_of_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    runs(tmp_path, lambda seed: 0.9, seeds=5)
    for seed in range(4):
        record(tmp_path, GRU(), seed, accuracy=0.1, lr=0.5)
    _, pairs = paired(catalogue.E1, tmp_path)
    assert sorted(pairs) == [0, 1, 2, 3, 4]
    assert all(pair["gru"].test["accuracy"] == 0.9 for pair in pairs.values())


def test_the_commands_own_folder_comes_first_and_is_named(tmp_path: Path) -> None:
    runs(tmp_path / "claims" / "E1", lambda seed: 0.9)
    for seed in range(7):  # more, and of a hasty kind
        record(tmp_path / "aaa", LSTM(), seed, accuracy=0.9, lr=0.5)
        record(tmp_path / "aaa", GRU(), seed, accuracy=0.2, lr=0.5)
    verdict = find("000-1.1-acc").evidence(tmp_path)
    assert verdict.outcome is Outcome.TRUE and f"E1 in {tmp_path / 'claims' / 'E1'};" in verdict.limits
    assert find("000-1.1-acc").evidence(tmp_path / "aaa").outcome is Outcome.FALSE


def test_a_run_that_is_not_done_or_is_torn_is_left_out(tmp_path: Path) -> None:
    runs(tmp_path, lambda seed: 0.9)
    (tmp_path / "GRU-4-0" / "done").unlink()
    (tmp_path / "GRU-3-0" / "metrics.jsonl").write_text('{"kind": "te')
    assert sorted(paired(catalogue.E1, tmp_path)[1]) == [0, 1, 2]
    assert len(list(finished("sentiment", tmp_path))) == 8


def test_scores_of_a_trained_model_are_read_at_every_layer(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat, and the dog on the log. " * 500)
    recipe = CharlmRecipe(data=CharlmData(str(tmp_path / "text.txt"), length=64)).smoke()
    model = replace(recipe.model, mixer=catalogue.ROPE, layers=2)
    recipe = replace(recipe, model=model, train=replace(recipe.train, steps=2))
    run = Run.create(tmp_path / "run", recipe)
    fit(recipe.task(), recipe.train, run)
    pair = {"RoPE": Finished(run, run.recipe)}
    found = measures.fades(pair)
    assert found == measures.fades(pair) and 0 < abs(found) < 100


def test_paths() -> None:
    recipe = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert at(recipe, "a.c.d") == 2
    assert at(recipe, "a.x.y") is None
    assert flat(recipe, {"a.b"}) == {"a.c.d": 2, "e": 3}
    assert plain(LSTM()) == LSTM().to_dict()


@pytest.mark.parametrize("experiment", [e for e in catalogue.EXPERIMENTS if not e.needs], ids=lambda e: e.id)
def test_the_commands_make_the_runs_that_are_read(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threefold.cli import compare
    from threefold.recipes import comparison

    made: dict[str, list[Path]] = {}

    def prepare(folder: Path, variants: Any, seeds: Any) -> dict[str, list[Path]]:
        found = original(tmp_path / folder, variants, seeds)
        made.update(found)
        raise InputError("prepared")

    original = comparison.prepare
    monkeypatch.setattr(comparison, "prepare", prepare)
    for command in experiment.commands:
        program, name, *words = shlex.split(command)
        assert (program, name) == ("threefold", "compare")
        with pytest.raises(InputError, match="prepared"):
            compare.run(words)
    recipes = [Run.open(path).recipe for paths in made.values() for path in paths]
    for arm in experiment.arms:
        seeds = {at(recipe, "train.seed") for recipe in recipes if arm.matches(recipe)}
        assert seeds == set(range(5)), arm.name


def test_what_a_claim_draws_is_the_same_each_time_and_moves_nothing_outside(tmp_path: Path) -> None:
    drawn = [torch.manual_seed(seed) and find("000-4.5-where").evidence(tmp_path).numbers[1].value for seed in (1, 2)]
    assert drawn[0] == pytest.approx(drawn[1], rel=1e-9)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(2)))
