"""Images: MedMNIST's npz layout, and scikit-learn's handwritten digits, which need no download."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from threefold.data.problems import Problem, refuse
from threefold.errors import require

SPLITS = {"train": "train", "val": "valid", "test": "test"}


@dataclass(frozen=True, eq=False)
class Images:
    """uint8 pixels (N, height, width, channels) and class numbers (N,)."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


def digits() -> dict[str, Images]:
    """1,797 real handwritten digits, 8x8 tripled and framed to 28x28; a fixed 80/10/10 deal."""
    from sklearn.datasets import load_digits

    from threefold.data.order import held_out

    raw = load_digits()
    small = np.rint(raw.images * (255 / 16)).astype(np.uint8)
    pixels = np.pad(np.kron(small, np.ones((1, 3, 3), np.uint8)), ((0, 0), (2, 2), (2, 2)))[..., None]
    labels = raw.target.astype(np.int64)
    parts = held_out(len(labels), (0.8, 0.1, 0.1))
    return {name: Images(pixels[part], labels[part]) for name, part in zip(SPLITS.values(), parts, strict=True)}


def load(path: Path) -> dict[str, Images]:
    """The splits of a MedMNIST-layout npz file: `{train,val,test}_images` and `_labels`."""
    require(path.is_file(), f"{path}: no such file.")
    refuse(check(path), str(path))
    with np.load(path, allow_pickle=False) as arrays:
        found = {}
        for key, split in SPLITS.items():
            if f"{key}_images" in arrays:
                pixels = arrays[f"{key}_images"]
                pixels = pixels[..., None] if pixels.ndim == 3 else pixels
                found[split] = Images(pixels, arrays[f"{key}_labels"].reshape(-1).astype(np.int64))
    return found


def check(path: Path) -> list[Problem]:
    """Everything that is wrong with such a file."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return [Problem(path.name, "one array, not an npz archive of named arrays")]
            with found as arrays:
                return _check(path.name, {name: arrays[name] for name in arrays.files})
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        return [Problem(path.name, f"not a readable npz file ({_why(error)})")]


def _why(error: Exception) -> str:
    """numpy takes whatever is not an archive for a pickle, and advises to load it; we never do."""
    told = str(error).splitlines()[0]
    return "it holds pickled objects, or is no npz at all" if "pickle" in told else told


def _check(name: str, arrays: dict[str, np.ndarray]) -> list[Problem]:
    problems = []
    keys = [key for key in SPLITS if f"{key}_images" in arrays or f"{key}_labels" in arrays]
    if "train" not in keys and "test" not in keys:
        wanted = "train_images, train_labels, val_images, ..."
        return [Problem(name, f"none of the MedMNIST names ({wanted}); it holds {', '.join(arrays) or 'nothing'}")]
    known: set[int] | None = None
    shape: tuple[int, ...] | None = None
    for key in keys:
        images, labels = arrays.get(f"{key}_images"), arrays.get(f"{key}_labels")
        if images is None or labels is None:
            problems.append(Problem(f"{name} {key}", f"{key}_{'images' if images is None else 'labels'} is missing"))
            continue
        faults = _faults(images, labels)
        problems += [Problem(f"{name} {key}", fault) for fault in faults]
        if faults:
            continue
        shape = shape or images.shape[1:]
        if images.shape[1:] != shape:
            problems.append(Problem(f"{name} {key}", f"images of shape {images.shape[1:]} where others have {shape}"))
        here = set(np.unique(labels).tolist())
        known = here if known is None else known
        if key != "train" and here - known:
            problems.append(Problem(f"{name} {key}", f"labels {sorted(here - known)} do not occur in training"))
    return problems


def _faults(images: np.ndarray, labels: np.ndarray) -> list[str]:
    faults = []
    if images.dtype != np.uint8:
        faults.append(f"images are {images.dtype}; uint8 (0..255) is needed")
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        faults.append(f"images of shape {images.shape}; (N, side, side) or (N, side, side, 3) is needed")
    elif images.shape[1] != images.shape[2]:
        faults.append(f"images of {images.shape[1]}x{images.shape[2]}; square ones are needed")
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape not in ((len(images),), (len(images), 1)):
        faults.append(f"labels of shape {labels.shape}, {labels.dtype}; ({len(images)}, 1) integers are needed")
    elif len(labels) == 0:
        faults.append("no images")
    elif labels.min() < 0:
        faults.append(f"label {labels.min()} is negative")
    return faults
