"""Images to classes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from threefold.errors import InputError
from threefold.recipes.images import DigitsRecipe, ImageData, ImageModel, OctmnistRecipe, scaled
from threefold.specs.vision import Shrink


def test_the_defaults_are_the_documents() -> None:
    train = OctmnistRecipe().train
    assert (train.lr, train.epochs, train.batch, train.smoothing) == (0.01, 15, 8, 0.0)
    assert OctmnistRecipe().model == ImageModel(Shrink.POOL, 1, 0.7)


@torch.no_grad()
def test_what_evaluates_is_what_predicts(tmp_path: Path) -> None:
    task = DigitsRecipe().task()
    torch.manual_seed(0)
    model = task.build().eval()
    truths, paths = task.images["test"].labels[:20], []
    for at in range(20):
        paths.append(str(tmp_path / f"{at}.png"))
        Image.fromarray(task.images["test"].pixels[at, :, :, 0]).save(paths[-1])
    rows = task.predict(model, paths)
    guesses = [int(row["label"]) for row in rows]
    logits = model(scaled(task.images["test"].pixels[:20]))
    assert guesses == logits.argmax(-1).tolist()
    assert all(abs(sum(row["probabilities"].values()) - 1) < 1e-5 for row in rows)
    found = task.evaluate(model, "test")
    assert found["accuracy"] == pytest.approx(float((model(scaled(task.images["test"].pixels)).argmax(-1).numpy()
                                                      == task.images["test"].labels).mean()))  # fmt: skip
    assert sum(map(sum, found["confusion"])) == 180
    assert len(truths) == len(guesses)


def test_pixels_span_minus_one_to_one() -> None:
    pixels = np.array([[[[0], [255]]]], np.uint8)
    assert scaled(pixels).tolist() == [[[[-1.0, 1.0]]]]


def test_a_saved_model_needs_no_training_data(tmp_path: Path) -> None:
    recipe = replace(OctmnistRecipe(), data=ImageData(str(tmp_path / "gone.npz")))
    task = recipe.task({"names": ["0", "1", "2", "3"], "side": 28, "channels": 1})
    assert sum(p.numel() for p in task.build().parameters()) == 224_892


def test_wrong_inputs_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="threefold data fetch octmnist"):
        OctmnistRecipe().task()
    task = DigitsRecipe().task()
    model = task.build().eval()
    (tmp_path / "a.png").write_bytes(b"not a picture")
    for path in ("a.png", "b.png"):
        with pytest.raises(InputError, match=path):
            task.predict(model, [str(tmp_path / path)])
    sizes = {"test_images": np.zeros((2, 8, 8), np.uint8), "test_labels": np.zeros((2, 1), int)}
    np.savez(tmp_path / "a.npz", **sizes)
    other = DigitsRecipe().on(tmp_path / "a.npz").task(task.assets())
    with pytest.raises(InputError, match=r"trained on \(28, 28, 1\)"):
        other.evaluate(model, "test")
