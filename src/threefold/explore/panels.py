"""What the live panels ask: a model's dimensions and cost at a length, and the text of a sound as it is heard."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threefold.cost import Plan
from threefold.errors import InputError, require
from threefold.plan import show
from threefold.report.figures import Panel, Section

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from threefold.train.task import Listener

LARGEST = 2**40
BEAT = 0.32  # seconds of sound between two looks at the text
LATE = "The encoder reads the sound in both directions, so the text comes when the sound has ended."


def dimensions_section(name: str, plan: Plan, sizes: dict[str, int]) -> Section:
    """Type a length and see every signal's dimensions and what each part costs there."""
    says = "Planned without building it. Parts that are alike stand once, with the amounts of one."
    return Section(
        "dimensions",
        "Dimensions and cost",
        "Type a length or a batch; the numbers are exact.",
        (Panel(name, says, "dimensions", {"sizes": sizes}),),
    )


def ear_section(language: str = "") -> Section:
    """Upload or record speech and watch the text appear."""
    return Section(
        "ear",
        "Listen",
        "The sound goes to this machine only; the text comes as the model hears it.",
        (Panel("Speech to text", "Choose a sound file, or record.", "ear", {"language": language}),),
    )


def dimensions(plan: Plan) -> Callable[[dict[str, str]], dict[str, Any]]:
    """The answer to `/api/dimensions?B=..&T=..`: one row a part."""

    def answer(given: dict[str, str]) -> dict[str, Any]:
        sizes = {axis: _size(axis, text) for axis, text in given.items()}
        placed = plan.at(**sizes)
        total = placed.total
        rows = [_row("· " * row.depth + row.name, row.part) for row in show.rows(placed)]
        verdict = (
            f"{int(total.params()):,} parameters; {int(total.forward()):,} FLOPs forward, "
            f"{int(total.backward()):,} backward; {int(total.saved()):,} bytes saved for it; "
            f"{int(total.state()):,} bytes of state or cache."
        )
        header = ["part", "dimensions", "parameters", "FLOPs forward", "bytes saved", "bytes of state"]
        return {"header": header, "rows": rows, "verdict": verdict}

    return answer


def _row(name: str, part: Plan) -> list[Any]:
    cost = part.total
    shape = " × ".join(f"{int(size()):,}" if not isinstance(size, int) else f"{size:,}" for size in part.shape)
    numbers = [int(poly()) for poly in (cost.params, cost.forward, cost.saved, cost.state)]
    return [name, shape, *numbers]


def _size(axis: str, text: str) -> int:
    require(axis.isalpha() and len(axis) <= 2, f"{axis[:20]!r} is not an axis: give B, T or S.")
    require(text.isdigit() and int(text) <= LARGEST, f"{axis} is {text[:20]!r}: give a whole number from 0 to 2^40.")
    return int(text)


def ear(listen: Callable[[], Listener]) -> Callable[[bytes], Iterator[dict[str, Any]]]:
    """Sound in, rows out: the text that each third of a second added, and how long it took."""

    def hear(sound: bytes) -> Iterator[dict[str, Any]]:
        listener = listen()
        samples = _decoded(sound, listener.rate)
        size = max(1, int(BEAT * listener.rate))
        begun, worst = time.perf_counter(), 0.0
        for start in range(0, len(samples), size):
            before = time.perf_counter()
            text = listener.hear(samples[start : start + size])
            worst = max(worst, time.perf_counter() - before)
            yield {"text": text}
        rest = listener.end()
        spent, length = time.perf_counter() - begun, len(samples) / listener.rate
        yield {"text": rest, "says": f"{_took(length, spent)}; slowest piece {1000 * worst:.0f} ms."}

    return hear


def ear_at_the_end(transcribe: Callable[[Path], str], rate: int) -> Callable[[bytes], Iterator[dict[str, Any]]]:
    """Sound in, its whole text out at once, for a model that reads the sound in both directions."""

    def hear(sound: bytes) -> Iterator[dict[str, Any]]:
        with _kept(sound) as path:
            length = len(_loaded(path, rate)) / rate
            begun = time.perf_counter()
            text = transcribe(path)
        yield {"text": text, "says": f"{_took(length, time.perf_counter() - begun)}. {LATE}"}

    return hear


def _took(length: float, spent: float) -> str:
    return f"{length:.1f} s of sound in {spent:.2f} s (real-time factor {spent / max(length, 1e-9):.2f})"


def _decoded(sound: bytes, rate: int) -> Tensor:
    import torch

    with _kept(sound) as path:
        return torch.from_numpy(_loaded(path, rate))


@contextmanager
def _kept(sound: bytes) -> Iterator[Path]:
    """The sound as a file while the block runs."""
    suffix = ".flac" if sound[:4] == b"fLaC" else ".wav"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(sound)
        yield path


def _loaded(path: Path, rate: int) -> NDArray[np.float32]:
    from threefold.data import audio

    try:
        return audio.load(path, rate)
    except InputError as error:
        raise InputError(str(error).replace(str(path), "the sound that was sent")) from None
