"""Sentences to labels."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from threefold.errors import InputError
from threefold.recipes.sentiment import SentimentData, SentimentRecipe, SentimentTask, bags_of
from threefold.specs.recurrent import GRU

SMALL = SentimentRecipe().smoke()


def table(folder: Path, count: int = 60) -> Path:
    path = folder / "reviews.csv"
    rows = [f"{'خوشمزه' if i % 2 else 'سرد'} بود {i},{'HAPPY' if i % 2 else 'SAD'}" for i in range(count)]
    path.write_text("\n".join(["comment,label", *rows]) + "\n", encoding="utf-8")
    return path


def task_on(path: Path, data: dict[str, object] | None = None) -> SentimentTask:
    return replace(SMALL, data=replace(SentimentData(str(path)), **(data or {}))).task()


def test_the_users_table_in_any_script(tmp_path: Path) -> None:
    task = task_on(table(tmp_path))
    assert task.splits == ("train", "valid", "test")
    assert task.assets()["names"] == ["HAPPY", "SAD"]
    assert "خوشمزه" in task.assets()["words"]
    model = task.build().eval()
    rows = task.predict(model, ["غذا سرد بود", "نو"])
    assert [set(row["probabilities"]) for row in rows] == [{"HAPPY", "SAD"}] * 2


@torch.no_grad()
def test_what_evaluates_is_what_predicts(tmp_path: Path) -> None:
    task = task_on(table(tmp_path))
    torch.manual_seed(0)
    model = task.build().eval()
    test = task.rows["test"]
    guesses = [row["label"] for row in task.predict(model, test.texts)]
    right = sum(guess == label for guess, label in zip(guesses, test.labels, strict=True))
    assert task.evaluate(model, "test")["accuracy"] == pytest.approx(right / len(guesses))


@torch.no_grad()
def test_too_long_a_text_is_refused_or_cut_on_request(tmp_path: Path) -> None:
    path = table(tmp_path)
    path.write_text(path.read_text(encoding="utf-8") + f"{'word ' * 40},SAD\n", encoding="utf-8")
    task = task_on(path, {"longest": 20})
    with pytest.raises(InputError, match=r"--data.cut keeps.*40 words, over the limit of 20"):
        for split in task.splits:
            task.order(0, 0, 4)
            task.evaluate(task.build(), split)
    cut = task_on(path, {"longest": 20, "cut": True})
    assert max(len(bags) for split in cut.splits for bags in cut._encoded[split]) == 20


def test_a_label_that_the_model_does_not_know(tmp_path: Path) -> None:
    task = task_on(table(tmp_path))
    other = tmp_path / "other.tsv"
    other.write_text("fine\tGREAT\n")
    again = SMALL.on(other).task(task.assets())
    assert again.splits == ("test",)
    with pytest.raises(InputError, match=r"\['GREAT'\]: this model knows HAPPY, SAD"):
        again.evaluate(task.build(), "test")


def test_nothing_to_judge() -> None:
    task = SMALL.task()
    model = task.build()
    assert task.predict(model, []) == []
    with pytest.raises(InputError, match="empty sentence"):
        task.predict(model, ["fine", " "])


def test_bags_are_padded_behind() -> None:
    ids, valid = bags_of([[[5], [6, 7]], [[8, 9, 1]]])
    assert ids.tolist() == [[[5, 0, 0], [6, 7, 0]], [[8, 9, 1], [0, 0, 0]]]
    assert valid.tolist() == [[True, True], [True, False]]
    assert bags_of([[[5]]])[0].shape == (1, 1, 1)


def test_forward_only_and_smoothing_reach_the_model() -> None:
    recipe = replace(SMALL, model=replace(SMALL.model, mixer=GRU(), forward_only=True))
    torch.manual_seed(0)
    assert type(recipe.task().build().stack.blocks[0].mixer).__name__ == "GRUMixer"
    sharp, soft = recipe.task(), replace(recipe, train=replace(recipe.train, smoothing=0.2)).task()
    model, batch = sharp.build().eval(), sharp.batch([0, 1], 0, 0)
    assert float(sharp.loss(model, batch).detach()) != float(soft.loss(model, batch).detach())
