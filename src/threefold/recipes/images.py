"""Images to classes with the documents' convolutional net: handwritten digits, OCTMNIST, any MedMNIST file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from threefold.errors import InputError, require
from threefold.recipes.recipe import DataSpec, ModelSpec, Recipe
from threefold.specs.vision import CNNSpec, Shrink
from threefold.train.settings import SGD, Train
from threefold.train.task import Assets

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from threefold.data.images import Images


@dataclass(frozen=True)
class ImageData(DataSpec):
    """A MedMNIST-layout npz file; without a path, the recipe's own images."""


@dataclass(frozen=True)
class ImageModel(ModelSpec):
    """The documents' net: `shrink` pools or strides, `padding` is conv1's."""

    shrink: Shrink = Shrink.POOL
    padding: int = 1
    dropout: float = 0.7


class ImageBatch(NamedTuple):
    """Images (B, channels, side, side), scaled to [-1, 1], and class numbers."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class ImageRecipe(Recipe):
    """Shared by the image recipes; the documents' settings: SGD, batch 8, 15 epochs, rate 0.01."""

    data: ImageData = ImageData()
    model: ImageModel = ImageModel()
    train: Train = Train(lr=0.01, epochs=15, batch=8, optimiser=SGD(), watch="accuracy", seed=42)

    def task(self, assets: Assets | None = None) -> ImageTask:
        return ImageTask(self, assets)

    def smoke(self) -> Self:
        train = replace(self.train, lr=0.05, steps=60, epochs=3, batch=16, optimiser=SGD(momentum=0.9))
        return replace(self, model=replace(self.model, dropout=0.2), train=train)


@dataclass(frozen=True)
class DigitsRecipe(ImageRecipe):
    """1,797 handwritten digits that come with scikit-learn."""

    name: ClassVar[str] = "digits"
    says: ClassVar[str] = "handwritten digits with the documents' CNN; no download"


@dataclass(frozen=True)
class OctmnistRecipe(ImageRecipe):
    """Retina scans of four kinds: `threefold data fetch octmnist`, or another MedMNIST file by --data."""

    name: ClassVar[str] = "octmnist"
    says: ClassVar[str] = "retina scans (or any MedMNIST file) with the documents' CNN"


class ImageTask:
    """Gives the loop batches of images and judges classes."""

    def __init__(self, recipe: ImageRecipe, assets: Assets | None) -> None:
        self.recipe = recipe
        self._images: dict[str, Images] | None = None
        self._assets = assets or self._read()
        self.names: list[str] = list(self._assets["names"])

    @property
    def images(self) -> dict[str, Images]:
        """Loaded when first asked for: a saved model is used without its training data."""
        if self._images is None:
            self._images = self._load()
            if "test" not in self._images:
                self._images["test"] = next(iter(self._images.values()))
        return self._images

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(name for name in ("train", "valid", "test") if name in self.images)

    def _load(self) -> dict[str, Images]:
        from threefold.data import fetch, images

        if self.recipe.data.path is not None:
            return images.load(Path(self.recipe.data.path))
        if self.recipe.name == "digits":
            return images.digits()
        return images.load(fetch.fetched(self.recipe.name))

    def _read(self) -> Assets:
        require("train" in self.images, f"{self.recipe.data.path}: no train_images to learn from.")
        train = self.images["train"]
        count = int(max(each.labels.max() for each in self.images.values())) + 1
        return {
            "names": [str(number) for number in range(max(2, count))],
            "side": int(train.pixels.shape[1]),
            "channels": int(train.pixels.shape[3]),
        }

    def assets(self) -> Assets:
        return self._assets

    def build(self) -> nn.Module:
        model = self.recipe.model
        side, channels = self._assets["side"], self._assets["channels"]
        return CNNSpec(len(self.names), side, channels, model.shrink, model.padding, model.dropout).build()

    def order(self, seed: int, epoch: int, size: int) -> list[list[int]]:
        from threefold.data.order import shuffled

        return shuffled(len(self.images["train"].labels), seed, epoch, size)

    def batch(self, indices: Sequence[int], seed: int, epoch: int) -> ImageBatch:
        return self._of("train", list(indices))

    def _of(self, split: str, indices: list[int]) -> ImageBatch:
        import torch

        chosen = self.images[split]
        return ImageBatch(scaled(chosen.pixels[indices]), torch.from_numpy(chosen.labels[indices]))

    def weight(self, batch: ImageBatch) -> float:
        return float(len(batch.labels))

    def loss(self, model: nn.Module, batch: ImageBatch) -> Tensor:
        from torch.nn import functional

        smoothing = self.recipe.train.smoothing
        return functional.cross_entropy(model(batch.images), batch.labels, reduction="sum", label_smoothing=smoothing)

    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        from threefold.recipes.common import Verdicts

        self._fits(self.images[split])
        verdicts = Verdicts(self.names)
        for start in range(0, len(self.images[split].labels), 256):
            batch = self._of(split, list(range(start, min(start + 256, len(self.images[split].labels)))))
            verdicts.add(model(batch.images), batch.labels)
        return verdicts.report()

    def _fits(self, images: Images) -> None:
        side, channels = self._assets["side"], self._assets["channels"]
        require(
            images.pixels.shape[1:] == (side, side, channels),
            f"images of shape {images.pixels.shape[1:]}: this model was trained on {(side, side, channels)}.",
        )
        require(
            int(images.labels.max()) < len(self.names),
            f"label {int(images.labels.max())}: this model knows {len(self.names)} classes.",
        )

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        import numpy as np

        from threefold.recipes.common import chances

        pixels = [self._picture(Path(path)) for path in inputs]
        return chances(model(scaled(np.stack(pixels))), self.names, inputs) if pixels else []

    def _picture(self, path: Path) -> np.ndarray:
        """One image file as uint8 pixels of the model's size."""
        import numpy as np

        side, channels = self._assets["side"], self._assets["channels"]
        require(path.is_file(), f"{path}: no such file.")
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError:
            raise InputError("Reading pictures needs Pillow: pip install 'threefold[report]'.") from None
        try:
            with Image.open(path) as picture:
                sized = picture.convert("L" if channels == 1 else "RGB").resize((side, side), Image.Resampling.BILINEAR)
        except (UnidentifiedImageError, OSError) as error:
            raise InputError(f"{path}: not a readable picture ({error}).") from None
        return np.asarray(sized, dtype=np.uint8).reshape(side, side, channels)


def scaled(pixels: np.ndarray) -> Tensor:
    """uint8 (B, side, side, channels) to float32 (B, channels, side, side) in [-1, 1]."""
    import torch

    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0).contiguous()
