"""A recipe: one frozen declaration of data, model and training, from which flags, records and tests are read off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from threefold.specs.base import Spec
from threefold.train.settings import Train
from threefold.train.task import Assets, Task


@dataclass(frozen=True)
class DataSpec(Spec, ABC):
    """Which data. `path` None is the recipe's embedded data; else the user's own file or folder."""

    path: str | None = None


@dataclass(frozen=True)
class ModelSpec(Spec, ABC):
    """Which model: sizes, and the mixers as objects."""


@dataclass(frozen=True)
class Recipe(Spec, ABC):
    """Everything that decides a run. Subclasses narrow the types of the fields and give defaults."""

    name: ClassVar[str]  # the word on the command line
    says: ClassVar[str]  # one line of help

    data: DataSpec
    model: ModelSpec
    train: Train

    @abstractmethod
    def task(self, assets: Assets | None = None) -> Task[Any]:
        """The task. With `assets` (of a saved run) no training data is needed to build its model."""

    @abstractmethod
    def smoke(self) -> Self:
        """The same recipe, small enough to lower its loss in seconds."""

    def on(self, path: Path | str) -> Self:
        """The same recipe on other data."""
        return replace(self, data=replace(self.data, path=str(path)))
