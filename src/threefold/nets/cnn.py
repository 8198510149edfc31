"""The convolutional net of the image experiments, with pooling or with strides."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from threefold.specs.vision import CNNSpec, Shrink


class CNN(nn.Module):
    """conv 3x3x8 - conv 3x3x16 - 320 - dropout - 120 - classes, ReLU between."""

    def __init__(self, spec: CNNSpec) -> None:
        super().__init__()
        self.spec = spec
        stride = 2 if spec.shrink is Shrink.STRIDE else 1
        self.conv1 = nn.Conv2d(spec.channels, 8, 3, stride, spec.padding)
        self.conv2 = nn.Conv2d(8, 16, 3, stride)
        self.fc1 = nn.Linear(spec.flat, 320)
        self.fc2 = nn.Linear(320, 120)
        self.fc3 = nn.Linear(120, spec.classes)

    def forward(self, images: Float[Tensor, "b c height width"]) -> Float[Tensor, "b classes"]:
        """Logits."""
        x = self._shrunk(self.conv1(images))
        x = self._shrunk(self.conv2(x)).flatten(1)
        x = functional.dropout(self.fc1(x).relu(), self.spec.dropout, self.training)
        return self.fc3(self.fc2(x).relu())

    def _shrunk(self, x: Tensor) -> Tensor:
        return functional.max_pool2d(x.relu(), 2) if self.spec.shrink is Shrink.POOL else x.relu()
