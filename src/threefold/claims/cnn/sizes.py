"""Parameters of the convolutional nets, and what max-pooling is blind to."""

from __future__ import annotations

import torch

from threefold.claims.claim import Evidence, Outcome, claim, equals, stated
from threefold.plan.count import count
from threefold.specs.vision import CNNSpec, Shrink

CLASSES = 4


def net(shrink: Shrink = Shrink.POOL, padding: int = 1) -> CNNSpec:
    """The net for 1 × 28 × 28 images of four classes."""
    return CNNSpec(CLASSES, shrink=shrink, padding=padding)


def parameters(spec: CNNSpec) -> dict[str, int]:
    """Parameters by layer, and in all."""
    module = spec.build()
    found = {name: sum(p.numel() for p in layer.parameters()) for name, layer in module.named_children()}
    return found | {"all": sum(found.values())}


def by_formula(flat: int) -> int:
    """80 + 1,168 + (320 F + 320) + 38,520 + 484."""
    return (8 * 9 + 8) + (16 * 8 * 9 + 16) + (320 * flat + 320) + (120 * 320 + 120) + (4 * 120 + 4)


def convolution_macs(spec: CNNSpec) -> int:
    """Multiply-adds of both convolutions, one image."""
    found = count(spec.build().eval(), torch.zeros(1, 1, 28, 28), backward=False)
    return (found.rows["conv1"] + found.rows["conv2"]) // 2


def _layers(e: Evidence) -> None:
    found = parameters(net())
    for name, value in (("conv1", 80), ("conv2", 1_168), ("fc1", 184_640), ("fc2", 38_520), ("fc3", 484)):
        e.truth(f"max-pool, padding 1: {name}", found[name], equals(value))


@claim(
    "001-2.3-mp",
    "with max-pooling: 168,572 parameters",
    "224,892 for the specified net; 168,572 if the flattened size is 400, for instance with conv1 padding 0",
    recorded=Outcome.FALSE,
)
def pooled_001(e: Evidence) -> None:
    e.said("the specified net: parameters", parameters(net())["all"], equals(168_572))
    e.truth("the specified net: parameters", parameters(net())["all"], equals(224_892))
    e.truth("conv1 padding 0: parameters", parameters(net(padding=0))["all"], equals(168_572))
    e.truth("conv1 padding 0: flattened size", net(padding=0).flat, equals(400))
    e.truth("by formula, F = 400", by_formula(400), equals(168_572))
    _layers(e)
    e.counter_example(
        "28 → 28 → 14 → 12 → 6 leaves 16·6·6 = 576 values; padding 0: 28 → 26 → 13 → 11 → 5 leaves 16·5·5 = 400."
    )


@claim(
    "001-2.3-nomp",
    "without max-pooling: 224,892 parameters",
    "strides of 2, flattened size 576 with padding 1 or 0",
    recorded=Outcome.TRUE,
)
def strided_001(e: Evidence) -> None:
    for padding in (1, 0):
        spec = net(Shrink.STRIDE, padding)
        e.said(f"stride net, padding {padding}: parameters", parameters(spec)["all"], equals(224_892))
        e.said(f"stride net, padding {padding}: flattened size", spec.flat, equals(576))


@claim(
    "004-2.3-n",
    "both nets have 224,892 parameters",
    "and 4 times the arithmetic in the pooled one's convolutions",
    recorded=Outcome.TRUE,
)
def both_004(e: Evidence) -> None:
    for shrink in Shrink:
        e.said(f"{shrink.value}: parameters", parameters(net(shrink))["all"], equals(224_892))
    e.said("by formula, F = 576", by_formula(576), equals(224_892))
    pool, stride = (convolution_macs(net(shrink)) for shrink in (Shrink.POOL, Shrink.STRIDE))
    e.truth("pool: multiply-adds of the convolutions", pool, equals(222_336))
    e.truth("stride: multiply-adds of the convolutions", stride, equals(55_584))
    _layers(e)


@claim(
    "C16",
    "CNN parameters: 168,572 with max-pool and 224,892 without (001), 224,892 for both (004). "
    "Adjudicated: 004 is right",
    "168,572 is the max-pool net with conv1 padding 0 (flattened 400, not 576)",
    sources=("001", "004"),
    recorded=Outcome.TRUE,
)
def which_count(e: Evidence) -> None:
    e.said("pool, padding 1", parameters(net())["all"], equals(224_892))
    e.said("stride, padding 1", parameters(net(Shrink.STRIDE))["all"], equals(224_892))
    e.said("pool, padding 0", parameters(net(padding=0))["all"], equals(168_572))
    e.said("conv1 → pool → conv2 → pool sizes, padding 1", "→".join(map(str, net().sides)), equals("28→14→12→6"))
    e.said("the same, padding 0", "→".join(map(str, net(padding=0).sides)), equals("26→13→11→5"))


def impulse(row: int, column: int) -> torch.Tensor:
    """A 4 × 4 image with one bright pixel, after 2 × 2 max-pooling by the library's net."""
    image = torch.zeros(1, 1, 4, 4)
    image[0, 0, row, column] = 1.0
    return net().build()._shrunk(image)


@claim(
    "004-2.3-feat",
    "max-pooling keeps the most important features and is robust to small changes",
    "exactly invariant to moves inside a 2 × 2 window only; a one-pixel move across its border changes the result",
    recorded=Outcome.CONDITIONAL,
)
def robust(e: Evidence) -> None:
    e.when("pixel (0,0) → (1,1), inside a window: change", (impulse(0, 0) - impulse(1, 1)).abs().max(), equals(0.0))
    e.otherwise(
        "pixel (1,1) → (1,2), across its border: change", (impulse(1, 1) - impulse(1, 2)).abs().max(), equals(0.0)
    )
    e.counter_example("A bright pixel at (1,1) of a 4 × 4 image, moved to (1,2), moves to the next window.")
    e.limit("Robustness of trained nets is experiment E9.")


figures = stated(
    "001-2.2",
    "the figures are lost",
    "`threefold report` draws loss and accuracy by epoch from a run",
    Outcome.BLANK,
    "cnn",
)
