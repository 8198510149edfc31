"""The convolutional net of the image experiments, as a declaration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.nets import NetSpec

if TYPE_CHECKING:
    from threefold.nets.cnn import CNN


class Shrink(Enum):
    """How the image becomes smaller: max-pooling after each convolution, or a stride of 2 in it. Equal parameters."""

    POOL = "pool"
    STRIDE = "stride"


@dataclass(frozen=True)
class CNNSpec(NetSpec):
    """conv 3x3x8 - conv 3x3x16 - 320 - dropout - 120 - classes, with ReLU between; sizes as in the documents.

    `padding` is conv1's (conv2 has none): 1 keeps 28x28 and gives 224,892 parameters with 4 classes; 0 gives 168,572
    when pooling.
    """

    classes: int
    side: int = 28
    channels: int = 1
    shrink: Shrink = Shrink.POOL
    padding: int = 1
    dropout: float = 0.7

    def __post_init__(self) -> None:
        require(self.classes >= 2, f"CNNSpec(classes={self.classes}): give at least 2.")
        require(self.channels >= 1, f"CNNSpec(channels={self.channels}): give at least 1.")
        require(self.padding in (0, 1), f"CNNSpec(padding={self.padding}): give 0 or 1.")
        require(0.0 <= self.dropout < 1.0, f"CNNSpec(dropout={self.dropout}): give a probability in [0, 1).")
        require(
            self.sides[-1] >= 1, f"CNNSpec(side={self.side}): nothing is left after two reductions; use larger images."
        )

    @property
    def sides(self) -> tuple[int, ...]:
        """The image's side after conv1, its pooling, conv2, its pooling; with strides, after conv1 and conv2."""
        if self.shrink is Shrink.POOL:
            first = self.side + 2 * self.padding - 2
            second = first // 2 - 2
            return first, first // 2, second, second // 2
        first = (self.side + 2 * self.padding - 3) // 2 + 1
        return first, (first - 3) // 2 + 1

    @property
    def flat(self) -> int:
        """F, the number of values that reach the first full layer."""
        return 16 * self.sides[-1] ** 2

    def build(self) -> CNN:
        from threefold.nets.cnn import CNN

        return CNN(self)
