"""threefold stream runs/speech recording.wav"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from threefold.cli.parse import parse


@dataclass
class Options:
    """Transcribe sound as it comes: text at once, then how far behind it was.

    Example: arecord -f S16_LE -r 16000 | threefold stream runs/speech -

    The run must be of a speech recipe that streams: `threefold train speech --model.streaming`.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    sound: Annotated[str, tyro.conf.Positional]
    """A wav or flac file, or - for 16-bit samples (WAV or bare mono) on the standard input."""
    piece: float = 0.2
    """Seconds of sound at a time."""
    rate: int | None = None
    """Samples a second of bare samples; by default the model's own."""
    json: bool = False
    """One object a line for each text, and one for the timing."""


def run(argv: list[str]) -> int:
    """Listen, write, and tell the timing."""
    options = parse(Options, argv, "stream")
    from threefold.errors import InputError, require
    from threefold.recipes.saved import reopen
    from threefold.recipes.streaming import Timing, follow, of_file, of_stream
    from threefold.train.task import Listens

    require(options.piece > 0, f"--piece {options.piece}: give a length in seconds, such as 0.2.")
    require(options.rate is None or options.rate > 0, f"--rate {options.rate}: give samples a second, such as 16000.")
    saved = reopen(options.run)
    if not isinstance(saved.task, Listens):
        raise InputError(f"{options.run} is a run of {saved.recipe.name}, which hears nothing: give a run of speech.")
    listener = saved.task.listen(saved.model)
    if options.sound == "-":
        pieces = of_stream(sys.stdin.buffer, options.rate, listener.rate, options.piece)
    else:
        pieces = of_file(Path(options.sound), listener.rate, options.piece)
    timing = Timing()
    for text in follow(listener, pieces, timing):
        if text:
            sys.stdout.write(json.dumps({"at": round(timing.heard, 3), "text": text}) + "\n" if options.json else text)
            sys.stdout.flush()
    told = timing.to_dict()
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    sys.stdout.write("\n")
    delays = f"{told['delay_ms_median']:.1f} ms (95 %: {told['delay_ms_95']:.1f}, worst {told['delay_ms_worst']:.1f})"
    sys.stderr.write(
        f"{told['seconds']} s of sound in pieces of {options.piece} s; text {delays} after a piece; "
        f"real-time factor {told['real_time_factor']}\n"
    )
    return 0
