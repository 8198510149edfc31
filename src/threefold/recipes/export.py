"""A trained run as a folder to take away: it loads in one line, and its forms as graphs where their ops allow it.

The folder is itself a run without its history (recipe, assets, best weights), so `threefold.load(folder)` and every
command that takes a run take it too. Beside it lie `<form>.pt2` (torch.export) and `<form>.onnx`.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.nets.classifier import Classifier
from threefold.nets.cnn import CNN
from threefold.nets.lm import Decoder, DecoderState
from threefold.nets.speech import Speech
from threefold.ops.scan import map_state
from threefold.recipes.saved import Saved, reopen
from threefold.train.checkpoint import Shelf
from threefold.train.files import write_json
from threefold.train.record import Run

TOLERANCE = 1e-4  # float32 graphs of a few layers, another runtime's order of sums


@dataclass(frozen=True)
class Piece:
    """One form of a model as a function of tensors, with an example, and the axes that may differ from it."""

    name: str
    module: nn.Module
    example: tuple[Tensor, ...]
    free: tuple[dict[int, str] | None, ...]


@dataclass(frozen=True)
class Exported:
    """What became of one form in one format: the file and its largest error, or the reason why there is none."""

    form: str
    format: str
    file: str = ""
    error: float | None = None
    reason: str = ""


class Step(nn.Module):
    """(token, state tensors...) -> (logits, state tensors...): one token of a decoder whose state has a fixed size."""

    def __init__(self, decoder: Decoder, state: DecoderState) -> None:
        super().__init__()
        self.decoder = decoder
        self._like = state

    def forward(self, token: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
        rest = iter(leaves)
        logits, state = self.decoder.step(token, map_state(lambda _: next(rest), self._like))
        return (logits, *tensors(state))


class Listening(nn.Module):
    """(frames, which are real) -> the memory that the decoder reads."""

    def __init__(self, speech: Speech) -> None:
        super().__init__()
        self.speech = speech

    def forward(self, frames: Tensor, valid: Tensor) -> Tensor:
        return self.speech.listen(frames, valid).memory


class Whole(nn.Module):
    """tokens -> logits of each next token."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder.scan(tokens, self.decoder.init_state(len(tokens)))[0]


def tensors(state: tuple) -> tuple[Tensor, ...]:
    """A state's tensors in the order in which `map_state` visits them."""
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        found.append(leaf)
        return leaf

    map_state(note, state)
    return tuple(found)


def export(saved: Saved, out: Path) -> list[Exported]:
    """Write the folder; what became of each form."""
    require(
        not out.exists() or not any(out.iterdir()), f"{out} exists and is not empty: give a folder that does not exist."
    )
    _copy(saved, out)
    found = [made for piece in pieces(saved.model) for made in (_torch(piece, out), _onnx(piece, out))]
    write_json(out / "export.json", [vars(made) for made in found])
    return found


def load(folder: Path | str) -> Saved:
    """An exported folder, or any run, ready to use: `load(folder).predict([...])`."""
    return reopen(folder)


def _copy(saved: Saved, out: Path) -> None:
    source = saved.run.folder
    run = Run.create(out, saved.recipe)
    for name in ("assets.json", "environment.json", "samples.json", "done"):
        if (source / name).exists():
            shutil.copyfile(source / name, out / name)
    held = saved.run.shelf.load(saved.checkpoint)
    weights = {name: tensor for name, tensor in held.tensors.items() if name.startswith("model.")}
    Shelf(run.folder / "checkpoints").save("best", held.step, weights, {"from": saved.checkpoint})


def pieces(model: nn.Module) -> list[Piece]:
    """The forms of a net that a program elsewhere would call."""
    match model:
        case CNN():
            side = model.spec.side
            return [Piece("full", model, (torch.rand(2, model.spec.channels, side, side),), ({0: "batch"},))]
        case Classifier():
            ids, valid = torch.randint(1, model.spec.vocab, (2, 9, 3)), torch.ones(2, 9, dtype=torch.bool)
            valid[1, 6:] = False
            axes = {0: "batch", 1: "time"}
            return [Piece("full", model, (ids, valid), ({**axes, 2: "ids"}, axes))]
        case Speech():
            frames = torch.randn(1, 64, model.spec.front.bins)
            heard = Piece("listen", Listening(model), (frames, torch.ones(1, 64, dtype=torch.bool)), ({}, {}))
            with torch.no_grad():
                state = model.init_state(model.listen(frames))
            return [heard, *_step(model.decoder, state)]
        case Decoder():
            tokens = torch.randint(0, model.spec.vocab, (2, 12))
            whole = Piece("full", Whole(model), (tokens,), ({0: "batch", 1: "time"},))
            return [whole, *_step(model, model.init_state(1))]
    raise InputError(f"{type(model).__name__} has no exported form; load the folder with threefold.load instead.")


def _step(decoder: Decoder, state: Any) -> list[Piece]:
    token = torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        _, state = decoder.step(token, state)
    example = (token, *tensors(state))
    return [Piece("step", Step(decoder, state), example, (None,) * len(example))]


def _obstacle(piece: Piece) -> str:
    """Why a form cannot be a graph of its own, where that is known beforehand."""
    if isinstance(piece.module, Step) and not _bounded(piece.module.decoder):
        return "its state is a cache that grows with every token, and a graph's tensors keep their sizes"
    return ""


def _bounded(decoder: Decoder) -> bool:
    return all(mixer.traits.bounded_state for mixer in decoder.stack.spec.mixers)


def _torch(piece: Piece, out: Path) -> Exported:
    if reason := _obstacle(piece):
        return Exported(piece.name, "pt2", reason=reason)
    dims = tuple(None if axes is None else dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in piece.free)
    name = f"{piece.name}.pt2"
    try:
        with _quiet(), torch.no_grad():
            program = torch.export.export(piece.module, piece.example, dynamic_shapes=_shapes(piece, dims))
            torch.export.save(program, out / name)
            again = torch.export.load(out / name).module()(*piece.example)
            return Exported(piece.name, "pt2", name, _error(piece, _listed(again)))
    except Exception as error:
        (out / name).unlink(missing_ok=True)
        return Exported(piece.name, "pt2", reason=_sentence(error))


def _onnx(piece: Piece, out: Path) -> Exported:
    if reason := _obstacle(piece):
        return Exported(piece.name, "onnx", reason=reason)
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        return Exported(piece.name, "onnx", reason="onnx is not installed: pip install 'threefold[export]'")
    name = f"{piece.name}.onnx"
    try:
        with _quiet(), torch.no_grad():
            dims = _shapes(piece, piece.free)
            program = torch.onnx.export(piece.module, piece.example, dynamo=True, dynamic_shapes=dims, verbose=False)
            assert program is not None
            program.save(str(out / name))
            session = onnxruntime.InferenceSession(str(out / name), providers=["CPUExecutionProvider"])
            given = dict(zip((i.name for i in session.get_inputs()), _numpy(piece.example), strict=True))
            answers = tuple(torch.from_numpy(value) for value in session.run(None, given))
        error = _error(piece, answers)
        require(error <= TOLERANCE, f"onnxruntime differs by {error:.2g} from torch, more than {TOLERANCE:g}.")
        return Exported(piece.name, "onnx", name, error)
    except Exception as error:
        for left in (out / name, out / f"{name}.data"):
            left.unlink(missing_ok=True)
        return Exported(piece.name, "onnx", reason=_sentence(error))


def _shapes(piece: Piece, dims: tuple[Any, ...]) -> Any:
    """Dynamic shapes as the exporters want them: a variadic forward takes its own as one nested tuple."""
    if all(not axes for axes in dims):
        return None
    return dims


def _error(piece: Piece, answers: tuple[Tensor, ...]) -> float:
    """Largest difference from the module itself, relative to its largest entry."""
    with torch.no_grad():
        expected = _listed(piece.module(*piece.example))
    errors = [
        float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-6))
        for a, b in zip(answers, expected, strict=True)
        if b.numel()
    ]
    return max(errors, default=0.0)


def _listed(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _numpy(example: tuple[Tensor, ...]) -> Iterator[Any]:
    return (tensor.detach().numpy() for tensor in example)


def _sentence(error: Exception) -> str:
    """The exporter's long story in one line."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    if "threefold" in str(cause) or "threefold" in text:
        return (
            "a recurrent sequence runs in one opaque op of this library, which no other runtime knows; export its step"
        )
    return f"{type(cause).__name__}: {text[:160]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters tell long stories on three channels."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
