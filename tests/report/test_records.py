"""Runs are named by what differs, grouped by what they learn, and say no more than they can decide."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from threefold.errors import InputError
from threefold.report.records import Record, all_of, family, flatten, group
from threefold.report.sections import runs as section
from threefold.report.statistics import interval, main_metric, sentences, wilson
from threefold.specs.attention import Linear
from threefold.specs.cross import Bidirectional
from threefold.specs.features import Relu
from threefold.specs.recurrent import GRU

LINEAR = {"spec": "Linear", "heads": 2, "features": {"spec": "Taylor", "degree": 2, "odd": False}}


def record(mixer: Any, seed: int, accuracy: float, confusion: Any = None) -> Record:
    recipe = {
        "spec": "SentimentRecipe",
        "data": {"spec": "SentimentData", "path": None},
        "model": {"spec": "SentimentModel", "mixer": mixer, "width": 32},
        "train": {"spec": "Train", "seed": seed, "lr": 0.001},
    }
    rows = [{"kind": "train", "step": s, "loss": 1 / s} for s in range(1, 400)]
    rows += [{"kind": "valid", "step": 399, "loss": 0.4}]
    test = {
        "kind": "test",
        "step": 399,
        "loss": 0.5,
        "accuracy": accuracy,
        "confusion": confusion,
        "names": ["no", "yes"],
    }
    return Record(Path("x"), recipe, (*rows, test), {"seconds": 2.0, "parameters": 10}, {})


def two(difference: float, seeds: int) -> Any:
    made = [record({"spec": "LSTM", "hidden": None}, s, 0.7 + 0.001 * s) for s in range(seeds)]
    made += [record(LINEAR, s, 0.7 + difference * (1 + s % 2) + 0.001 * s) for s in range(seeds)]
    return group(made)[0]


def test_a_variant_is_named_by_what_differs() -> None:
    assert list(two(0.01, 2).variants) == ["LSTM", "Taylor 2"]
    assert flatten({"a": {"b": 1}, "c": [LINEAR, LINEAR]}, family) == {"a.b": "1", "c": "Taylor 2"}
    assert flatten({"a": {"spec": "Adam", "lr": 2}, "b": [1, 2]}, family) == {"a": "Adam", "a.lr": "2", "b": "1 2"}
    assert family(Linear(heads=2, features=Relu())) == "Linear Relu"
    assert family(Bidirectional(GRU())) == "GRU both ways"


def test_sizes_are_told_where_they_tell_apart() -> None:
    wide, narrow = record({"spec": "LSTM", "hidden": 64}, 0, 0.5), record({"spec": "LSTM", "hidden": 8}, 0, 0.5)
    assert list(group([wide, narrow])[0].variants) == ["LSTM(hidden=64)", "LSTM(hidden=8)"]
    faster = record({"spec": "LSTM"}, 0, 0.5)
    faster.recipe["train"]["lr"] = 0.01
    assert list(group([record({"spec": "LSTM"}, 0, 0.5), faster])[0].variants) == ["lr 0.001", "lr 0.01"]


def test_a_run_alone_is_called_by_its_mixer() -> None:
    assert list(group([record({"spec": "LSTM"}, 0, 0.5)])[0].variants) == ["LSTM"]


def test_few_seeds_decide_nothing() -> None:
    (said,) = sentences(two(0.05, 3), "accuracy")
    assert said.startswith("Taylor 2 better than LSTM: not decided by these runs") and "at least 5" in said


def test_five_consistent_seeds_decide() -> None:
    (said,) = sentences(two(0.05, 5), "accuracy")
    assert said.startswith("Taylor 2 better than LSTM: yes") and "5 paired seeds" in said
    (said,) = sentences(two(-0.05, 5), "accuracy")
    assert said.startswith("LSTM better than Taylor 2: yes")


def test_seeds_that_disagree_do_not_decide() -> None:
    made = [record({"spec": "LSTM"}, s, 0.7) for s in range(6)]
    made += [record({"spec": "GRU"}, s, 0.7 + (0.02 if s % 2 else -0.019)) for s in range(6)]
    (said,) = sentences(group(made)[0], "accuracy")
    assert "not decided" in said


def test_equal_runs_are_said_to_be_equal() -> None:
    (said,) = sentences(two(0.0, 5), "accuracy")
    assert said == "LSTM and Taylor 2: equal in these runs (the same accuracy with each of 5 seeds)."


def test_one_run_is_resampled_over_its_test_texts() -> None:
    one = record({"spec": "LSTM"}, 0, 0.8)
    test = {"kind": "test", "cer": 0.25, "wrong_characters": [[0, 10], [5, 10], [0, 10], [5, 10]]}
    found = interval((replace(one, rows=(test,)),), "cer")
    assert found.mean == 0.25 and found.low == 0.0 and found.high == 0.5
    del test["wrong_characters"]
    assert interval((replace(one, rows=(test,)),), "cer").low == 0.25


def test_wilson_against_published_values() -> None:
    # 8 of 10: the 95% Wilson interval is (0.4902, 0.9433)
    found = wilson(0.8, 10)
    assert (found.low, found.high) == (pytest.approx(0.4902, abs=5e-5), pytest.approx(0.9433, abs=5e-5))
    one = interval((record({"spec": "LSTM"}, 0, 0.8, [[4, 1], [1, 4]]),), "accuracy")
    assert one == found


def test_section_shows_the_numbers() -> None:
    made = two(0.05, 2)
    assert main_metric(made) == "accuracy"
    built = section.section(made, "s")
    titles = [part.title for part in built.parts]
    assert titles[:4] == ["Training loss", "Validation loss", "Test accuracy", "Test metrics and cost"]
    table = built.parts[3]
    assert table.rows[0] == ("LSTM", 2, 10, 2.0, pytest.approx(0.7005), 0.5)
    training = built.parts[0].series[0]
    assert len(training.x) <= 60 and training.low == training.high == training.y


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        all_of([tmp_path])
    with pytest.raises(InputError, match="no such folder"):
        all_of([tmp_path / "x"])
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "recipe.json").write_text(json.dumps(record(LINEAR, 1, 0.5).recipe))
    assert [g.name for g in all_of([tmp_path])] == ["sentiment"]
