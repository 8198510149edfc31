"""Likelihood of characters, counted once each."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from threefold.errors import InputError
from threefold.recipes.charlm import CharlmData, CharlmRecipe, CharlmTask, strided, tail
from threefold.specs.positions import Learned
from threefold.specs.recurrent import GRU

TEXT = "سلام. the quick brown fox; " * 40


def task_on(folder: Path, length: int = 16, model: dict[str, object] | None = None) -> CharlmTask:
    path = folder / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    small = CharlmRecipe().smoke()
    return replace(small, data=CharlmData(str(path), length=length), model=replace(small.model, **(model or {}))).task()


def test_parts_are_the_texts_beginning_middle_and_end(tmp_path: Path) -> None:
    task = task_on(tmp_path)
    assert "".join(task.alphabet.decode(task.parts[name].tolist()) for name in task.splits) == TEXT
    assert [len(task.parts[name]) for name in task.splits] == [864, 108, 108]


def test_an_epoch_reads_every_character_once_with_an_epochs_shift(tmp_path: Path) -> None:
    task = task_on(tmp_path)
    order = task.order(0, 2, 4)
    assert sum(map(len, order)) == (864 - 1) // 16 - 1
    windows = {tuple(row) for batch in order for row in task.batch(batch, 0, 2).tokens.tolist()}
    assert all(len(row) == 17 for row in windows)
    assert task.batch([0], 0, 0).tokens.tolist() == task.batch([0], 0, 0).tokens.tolist()
    starts = {tuple(task.batch([0], 0, epoch).tokens[0].tolist()) for epoch in range(8)}
    assert len(starts) > 2


@pytest.mark.parametrize("size", [2, 16, 17, 50, 108])
def test_every_character_is_scored_once_with_half_a_window_before_it(tmp_path: Path, size: int) -> None:
    task = task_on(tmp_path, model={"mixer": GRU()})
    torch.manual_seed(0)
    model = task.build().eval()
    text, total, half = task.parts["test"][:size], 0.0, 8
    for at in range(1, size):
        start = 0 if at <= 16 else ((at - 1) // half - 1) * half
        logits = model(text[None, start:at])[0, -1]
        total += float(functional.cross_entropy(logits, text[at]).detach())
    with torch.no_grad():
        assert strided(model, text, 16) == pytest.approx(total / (size - 1), rel=1e-5)


def test_lengths_beyond_a_learned_table_are_not_measured(tmp_path: Path) -> None:
    task = task_on(tmp_path, model={"position": Learned(16)})
    torch.manual_seed(0)
    model = task.build().eval()
    with torch.no_grad():
        found = task.evaluate(model, "test")
    assert found["at_length"]["1"] > 0
    assert found["at_length"]["2"] is None
    assert found["bits"] == pytest.approx(found["loss"] / 0.6931471805599453)
    assert tail(model, task.parts["test"], 128) is None


def test_a_text_is_continued(tmp_path: Path) -> None:
    task = task_on(tmp_path)
    row = task.predict(task.build().eval(), ["the"])[0]
    assert row["input"] == "the"
    assert len(row["text"]) <= 200
    with pytest.raises(InputError, match="at least one character"):
        task.predict(task.build(), [""])


def test_too_short_a_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1001"):
        task_on(tmp_path, length=500).order(0, 0, 4)


def test_another_text_is_all_for_testing(tmp_path: Path) -> None:
    task = task_on(tmp_path)
    (tmp_path / "b.txt").write_text("the fox Ω")
    again = task.recipe.on(tmp_path / "b.txt").task(task.assets())
    assert again.splits == ("test",)
    with torch.no_grad():
        assert again.evaluate(again.build().eval(), "test")["characters"] == 9
