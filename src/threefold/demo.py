"""The demonstration: train a few models on embedded data, judge their mixers, measure them, run the claims.

It is a list of jobs, two at a time, each of which leaves a file. What is done is not done again, so that the same
command continues where it was interrupted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from threefold.errors import require
from threefold.recipes.comparison import Variant, prepare
from threefold.recipes.images import DigitsRecipe
from threefold.recipes.sentiment import SentimentRecipe
from threefold.recipes.speech import SpeechRecipe
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.features import Taylor
from threefold.specs.positions import Rotary
from threefold.specs.recurrent import GRU, LSTM
from threefold.train.files import read_json, write_json

FOLDER = Path("runs") / "demo"
MIXERS: dict[str, MixerSpec] = {
    "LSTM": LSTM(),
    "GRU": GRU(),
    "Softmax": Softmax(heads=2, position=Rotary()),
    "Taylor 2": Linear(heads=2, key_dim=8, features=Taylor(2), position=Rotary()),
}
SEEDS = range(5)  # fewer decide nothing
LENGTHS = (64, 256, 1024, 4096)
WIDTH = 64


@dataclass(frozen=True)
class Job:
    """One thing to do in a process of its own; it is done when its file is there."""

    says: str
    command: tuple[str, ...]
    leaves: Path

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.leaves.exists()


def jobs(folder: Path) -> list[Job]:
    """Everything but the page, the longest first; the folders of the runs are made here."""
    python = sys.executable
    made = [
        Job(f"train {path.parent.name} {path.name}", (python, "-m", "threefold", "resume", str(path)), path / "done")
        for path in [*_spoken(folder), *_sentiment(folder)]
    ]
    laws, claims = folder / "laws.json", folder / "claims.json"
    made.append(Job("claims", (python, "-m", "threefold.demo", "claims", str(claims)), claims))
    made.append(Job("laws", (python, "-m", "threefold.demo", "laws", str(laws)), laws))
    return made


def _sentiment(folder: Path) -> list[Path]:
    recipe = SentimentRecipe()
    recipe = replace(
        recipe,
        data=replace(recipe.data, count=3000),
        model=replace(recipe.model, width=32, buckets=2000, dropout=0.1, drop_ids=0.05),
        train=replace(recipe.train, epochs=8, lr=8e-3),
    )
    variants = [
        Variant(name, replace(recipe, model=replace(recipe.model, mixer=mixer))) for name, mixer in MIXERS.items()
    ]
    return [path for paths in prepare(folder / "sentiment", variants, SEEDS).values() for path in paths]


def _spoken(folder: Path) -> list[Path]:
    """Speech with both decoders, or handwritten digits where no synthesiser is installed."""
    if find_spec("espeakng_loader") is None:
        digits = DigitsRecipe()
        return list(prepare(folder / "digits", [Variant("CNN", digits)], SEEDS)["CNN"])
    recipe = SpeechRecipe()
    synthetic = replace(recipe.data.synthetic, count=1500, shortest=1, longest=2)
    recipe = replace(
        recipe,
        data=replace(recipe.data, synthetic=synthetic, stretch=0.0, gaps=0, bands=0),
        model=replace(recipe.model, encoder=GRU(), width=80, ffn=160, layers=1, dropout=0.0, streaming=True),
        train=replace(recipe.train, epochs=12, lr=4e-3, evaluate_every=300),
    )
    decoders: dict[str, MixerSpec] = {"LSTM decoder": LSTM(), "transformer decoder": Softmax(heads=2)}
    variants = [Variant(name, replace(recipe, model=replace(recipe.model, decoder=d))) for name, d in decoders.items()]
    return [path for paths in prepare(folder / "speech", variants, SEEDS[:1]).values() for path in paths]


def run(folder: Path, heard: Callable[[str, int, int], object]) -> None:
    """Do what is not done; `heard` is told what ended, and how many of how many are done."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = jobs(folder)
    total = len(todo) + 1
    waiting = [job for job in todo if not job.done]
    done = len(todo) - len(waiting)
    heard("", done, total)
    for job in _two_at_a_time(waiting):
        done += 1
        heard(job.says, done, total)
    speed = folder / "speed.json"
    if not speed.exists():
        write_json(speed, measured())
    heard("time and memory", total, total)


def _two_at_a_time(waiting: list[Job]) -> Iterator[Job]:
    """The jobs as they end. Whatever stops us stops what runs: its files say how far it came."""
    children: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        running = {pool.submit(_do, job, children): job for job in waiting}
        try:
            for future in as_completed(running):
                future.result()
                yield running[future]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in tuple(children):
                child.terminate()
            raise


def _do(job: Job, children: set[subprocess.Popen[str]]) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        job.command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )
    children.add(child)
    out, err = child.communicate()
    children.discard(child)
    last = (err or out).strip().splitlines()[-1:]
    require(job.done, f"{job.says} did not finish: {' '.join(last) or f'it ended with code {child.returncode}'}")


def judged() -> list[dict[str, Any]]:
    """Every law on the mixers of the demonstration."""
    from threefold.laws.all import LAWS
    from threefold.laws.describe import as_dict
    from threefold.laws.law import judge
    from threefold.laws.ours import MixerSubject

    verdicts = [
        verdict for name, spec in MIXERS.items() for verdict in judge(MixerSubject(spec, width=12, name=name), LAWS)
    ]
    return [as_dict(verdict, f"threefold laws --all --law {verdict.law}") for verdict in verdicts]


def adjudicated() -> list[dict[str, Any]]:
    """Every statement of the source documents with the verdict that its numbers give now."""
    from threefold.claims import CLAIMS

    rows = []
    for claim in CLAIMS:
        verdict = claim.evidence()
        recorded = claim.recorded.value if claim.recorded else ""
        found = {"id": claim.id, "says": claim.says, "verdict": verdict.outcome.value, "recorded": recorded}
        rows.append(found | {"moved": claim.moved(verdict)})
    return rows


def measured(repeats: int = 5) -> dict[str, Any]:
    """Forward and backward of one layer at several lengths: time, and bytes kept, beside the plan."""
    import torch

    from threefold.train.record import environment

    torch.manual_seed(0)
    rows = [_measure(name, spec, length, repeats) for name, spec in MIXERS.items() for length in LENGTHS]
    here = environment()
    return {
        "rows": rows,
        "machine": here["machine"],
        "threads": here["threads"],
        "torch": here["torch"],
        "width": WIDTH,
        "batch": 1,
    }


def _measure(name: str, spec: MixerSpec, length: int, repeats: int) -> dict[str, Any]:
    import torch

    from threefold.plan.conventions import Conventions
    from threefold.plan.count import count

    mixer = spec.build(WIDTH)
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    best = float("inf")
    for _ in range(repeats + 1):
        began = time.perf_counter()
        mixer(x).sum().backward()
        best = min(best, time.perf_counter() - began)
    here = count(mixer, x, backward=False).saved
    nowhere = torch.randn(1, length, WIDTH, device="meta", requires_grad=True)
    total = spec.plan(WIDTH).total.at(B=1, T=length)
    return {
        "mixer": name,
        "T": length,
        "milliseconds": round(1000 * best, 4),
        "flops": int(total.forward() + total.backward()),
        "planned": int(total.saved()),
        "counted": count(mixer.to("meta"), nowhere, backward=False, scores=Conventions().scores).saved,
        "here": here,
    }


def lines(folder: Path) -> list[str]:
    """What was found: a line for each task, one for what the mixers cost, one for why it can be trusted."""
    from threefold.report.build import finding
    from threefold.report.records import all_of

    verdicts, claims = read_json(folder / "laws.json"), read_json(folder / "claims.json")
    status = Counter(verdict["status"] for verdict in verdicts)
    moved = sum(claim["moved"] for claim in claims)
    trust = (
        f"trust: {status['lawful']} laws hold on {len(MIXERS)} mixers, {status['broken']} broken; "
        f"{len(claims)} statements of the source documents run, {moved} verdicts moved."
    )
    return [*map(finding, all_of([folder])), crossover(), trust]


def crossover() -> str:
    """From which length on the other mixers need fewer FLOPs than softmax attention, by their plans."""
    plans = {name: (spec.plan(WIDTH).total.forward + spec.plan(WIDTH).total.backward) for name, spec in MIXERS.items()}
    softmax = plans.pop("Softmax")
    told = []
    for name, flops in plans.items():
        dearer = [T for T in range(LENGTHS[-1] + 1) if flops(B=1, T=T) >= softmax(B=1, T=T)]
        told.append(
            f"{name} from T = {dearer[-1] + 1:,}"
            if dearer[-1] < LENGTHS[-1]
            else f"{name} not yet at T = {dearer[-1]:,}"
        )
    return f"plan: at width {WIDTH}, fewer FLOPs than softmax attention: {', '.join(told)}."


if __name__ == "__main__":
    what, target = sys.argv[1], Path(sys.argv[2])
    write_json(target, {"laws": judged, "claims": adjudicated}[what]())
