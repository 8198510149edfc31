"""Runs are named by what differs, grouped by what they learn, and say no more than they can decide."""

import json
from pathlib import Path
from typing import Any

import pytest

from threefold.errors import InputError
from threefold.report.records import Record, all_of, flatten, group, named
from threefold.report.sections import runs as section
from threefold.report.statistics import interval, main_metric, sentences, wilson

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
    assert named({"spec": "Softmax"}) == "Softmax"
    assert flatten({"a": {"b": 1}, "c": [LINEAR, LINEAR]}) == {"a.b": "1", "c": "Taylor 2"}


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
    assert len(training.x) <= 160 and training.low == training.high == training.y


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        all_of([tmp_path])
    with pytest.raises(InputError, match="no such folder"):
        all_of([tmp_path / "x"])
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "recipe.json").write_text(json.dumps(record(LINEAR, 1, 0.5).recipe))
    assert [g.name for g in all_of([tmp_path])] == ["sentiment"]
