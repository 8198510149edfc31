"""threefold plan"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from threefold.cli.parse import parse
from threefold.errors import require

Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclass
class Options:
    """What a model costs, before it is built: signals, parameters, FLOPs, memory, cache, and how each grows.

    Example: threefold plan encdec-12-8 --check

    MODEL is a preset (encdec-12-8, encdec-pre, cnn-octmnist, speech-attention, speech-lstm), a mixer (softmax, taylor2,
    lstm, "Softmax(heads=4, kv_heads=1)"), a net as Python prints its spec, or a module of your own:
    threefold plan my_layers.py:Layer --input B,T:int. Also: threefold plan taylor --key 16 --range 0.5.
    """

    model: Annotated[str, tyro.conf.Positional] = ""
    """A preset, a mixer, a net, or path/to/file.py:Module."""
    B: int | None = None
    """Batch. (Your own module: 1)"""
    T: int | None = None
    """Length. (mixers: 1024)"""
    S: int | None = None
    """Length of the source or memory. (as long as T, where the preset says nothing)"""
    width: int = 512
    """Width, where the model is a mixer."""
    form: Literal["step", "chunked", "parallel"] | None = None
    """The form in which mixers run. (each mixer's first)"""
    convention: str = ""
    """Of an encoder-decoder: tied3, tied-out or untied, then +b +embbias +norms +learned +unbiased ..."""
    compare: tuple[str, ...] = ()
    """Two conventions, or two models: their parameters weight by weight."""
    against: tuple[str, ...] = ()
    """Other models: from which length which is cheaper, in FLOPs, in memory and in state."""
    fit: str = ""
    """An amount of memory, such as 24GiB: the largest T and the largest B that fit."""
    attention: Literal["fused", "materialised"] = "fused"
    """Whether scores are stored."""
    causal: Literal["full", "half"] = "full"
    """How many pairs causal attention is charged for."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """Of weights and signals."""
    optimiser: Literal["adamw", "momentum", "sgd"] = "adamw"
    """What training keeps of every parameter."""
    recompute: Literal["none", "layers"] = "none"
    """What is made again in the backward pass instead of being kept."""
    depth: int = 9
    """How deep the tree is shown."""
    check: Flag = False
    """Count it as well, where nothing is allocated, and compare. (needs torch)"""
    plot: str = ""
    """Draw FLOPs, memory and state against T into this file (.svg, .png, .pdf)."""
    json: Flag = False
    """For another program."""
    input: tuple[str, ...] = ()
    """Your own module's inputs, in order: axes or sizes, and what they hold: B,T:int  B,T,64  B,T:bool."""
    options: Annotated[str, tyro.conf.arg(name="with", metavar="JSON")] = "{}"
    """Your own module's constructor arguments, as a JSON object."""
    eval: Flag = False
    """Your own module in evaluation mode."""
    no_grad: Flag = False
    """Your own module without gradients: nothing is saved, there is no backward pass."""


def run(argv: list[str]) -> int:
    """Plan, compare, or advise."""
    if argv[:1] == ["taylor"]:
        from threefold.cli.plan_taylor import run as advise

        return advise(argv[1:])
    options = parse(Options, argv, "plan")
    require(bool(options.model), "give a model, such as encdec-12-8 or taylor2; `threefold plan --help` lists them.")
    for axis in "BTS":
        size = getattr(options, axis)
        require(size is None or size >= 1, f"--{axis} {size}: give at least 1.")
    require(options.width >= 1, f"--width {options.width}: give at least 1.")
    require(options.depth >= 0, f"--depth {options.depth}: give 0 or more.")
    from threefold.cli.plan_asked import is_own

    if is_own(options.model):
        from threefold.cli.plan_own import show
    else:
        from threefold.cli.plan_spec import show
    lines, code = show(options)
    sys.stdout.write("\n".join(lines) + "\n")
    return code
