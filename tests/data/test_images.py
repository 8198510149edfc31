"""MedMNIST's layout, and what can be wrong with it."""

from pathlib import Path

import numpy as np
import pytest

from threefold.data.images import check, digits, load
from threefold.errors import InputError

GOOD = {
    "train_images": np.zeros((6, 28, 28), np.uint8),
    "train_labels": np.array([[0], [1], [2], [0], [1], [2]]),
    "val_images": np.zeros((2, 28, 28), np.uint8),
    "val_labels": np.array([[0], [2]], np.uint8),
    "test_images": np.zeros((3, 28, 28), np.uint8),
    "test_labels": np.array([[0], [2], [1]], np.uint8),
}


def put(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    path = folder / "a.npz"
    np.savez(path, **arrays)
    return path


def test_digits_are_real_and_dealt_once() -> None:
    splits = digits()
    assert [len(splits[name].labels) for name in ("train", "valid", "test")] == [1438, 179, 180]
    assert splits["train"].pixels.shape[1:] == (28, 28, 1)
    assert splits["train"].pixels.max() == 255
    assert set(splits["test"].labels) == set(range(10))


def test_a_good_file_in_grey_and_colour(tmp_path: Path) -> None:
    splits = load(put(tmp_path, GOOD))
    assert splits["valid"].labels.tolist() == [0, 2]
    assert splits["train"].pixels.shape == (6, 28, 28, 1)
    colour = {k: np.zeros((len(v), 8, 8, 3), np.uint8) if "images" in k else v for k, v in GOOD.items()}
    assert load(put(tmp_path, colour))["train"].pixels.shape == (6, 8, 8, 3)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            {"train_images": None, "train_labels": None, "test_images": None, "test_labels": None},
            "none of the MedMNIST",
        ),
        ({"val_labels": None}, "val_labels is missing"),
        ({"train_images": np.zeros((6, 28, 28), np.float32)}, "uint8"),
        ({"train_images": np.zeros((6, 28), np.uint8)}, "of shape"),
        ({"train_images": np.zeros((6, 28, 20), np.uint8)}, "square"),
        ({"train_labels": np.array([0, 1])}, "labels of shape"),
        ({"train_labels": np.zeros((6, 1))}, "integers"),
        ({"train_labels": np.full((6, 1), -1)}, "negative"),
        ({"test_labels": np.array([[0], [7], [1]])}, r"\[7\] do not occur in training"),
        ({"test_images": np.zeros((3, 32, 32), np.uint8)}, "where others have"),
        ({"val_images": np.zeros((0, 28, 28), np.uint8), "val_labels": np.zeros((0, 1), int)}, "no images"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, change: dict[str, np.ndarray | None], what: str) -> None:
    arrays = {k: v for k, v in (GOOD | change).items() if v is not None}
    with pytest.raises(InputError, match=what):
        load(put(tmp_path, arrays))


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for raw in (b"", b"hello", put(tmp_path, GOOD).read_bytes()[:300]):
        path.write_bytes(raw)
        assert "not a readable npz" in check(path)[0].what
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert "one array" in check(path)[0].what


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD | {"train_images": np.array([{"a": 1}], dtype=object)})
    assert "not a readable npz" in check(path)[0].what
