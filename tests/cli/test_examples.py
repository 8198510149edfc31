"""Every example that a command's help shows is run: as it stands, but for words that make it small."""

import io
import os
import shlex
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from threefold.cli.main import COMMANDS, examples, run
from threefold.data.espeak import Synthetic
from threefold.recipes.recipe import Recipe
from threefold.recipes.sentiment import SentimentRecipe
from threefold.recipes.speech import SpeechRecipe
from threefold.specs.recurrent import GRU
from threefold.train.loop import fit
from threefold.train.record import Run

REPOSITORY = Path(__file__).parents[2]
LAYER = """
import torch

class Attention(torch.nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.inward, self.outward = torch.nn.Linear(d_model, 3 * d_model), torch.nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = self.inward(x).chunk(3, -1)
        return self.outward(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
"""
SMALL = "--train.steps 2 --model.width 8 --model.buckets 50 --data.count 64"
WITH = {  # what is added to an example so that it ends in seconds
    "threefold train sentiment --model.mixer gru": f" {SMALL} --run runs/made",
    "threefold compare sentiment --vary model.mixer=lstm,gru,softmax,taylor2 --seeds 5": f" {SMALL}",
    "threefold laws my_layers.py:Attention --with '{\"d_model\": 64}' --causal": " --law causal batch",
}
ELSEWHERE = {  # run by a test of their own
    "threefold explore encdec-12-8": "test_explore_serves_until_it_is_stopped",
    "threefold data fetch tinyshakespeare": "tests/data/test_fetch.py, from a server of its own",
    "threefold demo": "tests/cli/test_demo.py",
    "threefold bench recurrent --repeats 15": "tests of the benchmarks, with fewer repeats",
}
SLOW = ("compare",)  # twenty runs, each in a process of its own
EXAMPLES = [line for command in COMMANDS for line in examples(command)]


def test_every_command_has_an_example() -> None:
    assert {shlex.split(line.split("| ")[-1])[1] for line in EXAMPLES} == {command.name for command in COMMANDS}
    assert set(WITH) | set(ELSEWHERE) <= set(EXAMPLES)


def _trained(folder: Path, recipe: Recipe) -> None:
    recipe = replace(recipe, train=replace(recipe.train, steps=2))
    fit(recipe.task(), recipe.train, Run.create(folder, recipe))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the examples name."""
    pytest.importorskip("espeakng_loader", reason="made speech needs the extra `speech`")
    folder, home = tmp_path_factory.mktemp("desk"), Path.cwd()
    os.chdir(folder)
    _trained(Path("runs/sentiment"), SentimentRecipe().smoke())
    speech = SpeechRecipe().smoke()
    model = replace(speech.model, encoder=GRU(), streaming=True)
    _trained(Path("runs/speech"), replace(speech, data=replace(speech.data, synthetic=Synthetic(20)), model=model))
    (folder / "runs" / "demo").symlink_to(folder / "runs" / "speech")
    Path("my_layers.py").write_text(LAYER)
    Path("reviews.tsv").write_text("sentence\tlabel\na fine film\tpositive\nnot my day\tnegative\n")
    for name in ("my_claims.py", "my_lstm.py"):
        Path(name).write_text((REPOSITORY / "examples" / name).read_text())
    Path("lines.txt").write_text("um dois\nquatro\n")
    (folder / "my-recordings" / "wavs").mkdir(parents=True)
    noise = 0.1 * np.random.default_rng(0).standard_normal((4, 8000))
    for number, samples in enumerate(noise):
        soundfile.write(folder / "my-recordings" / "wavs" / f"{number}.wav", samples, 16000)
    (folder / "my-recordings" / "metadata.csv").write_text("0|one\n1|two\n2|three\n3|four\n")
    os.chdir(home)
    yield folder


def _cases() -> list:
    lines = [line for line in EXAMPLES if line not in ELSEWHERE]
    return [pytest.param(line, marks=[pytest.mark.slow] * (line.split()[1] in SLOW), id=line) for line in lines]


@pytest.mark.parametrize("line", _cases())
def test_example_runs(
    line: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("THREEFOLD_CACHE", str(desk / "cache"))
    before, _, command = (line + WITH.get(line, "")).rpartition("| ")
    if before:  # a microphone
        sound = io.TextIOWrapper(io.BytesIO((3000 * np.sin(np.arange(16000))).astype("<i2").tobytes()))
        monkeypatch.setattr(sys, "stdin", sound)
    code = run(shlex.split(command)[1:])
    seen = capsys.readouterr()
    assert code == 0 or (code == 1 and "doctor" in line), seen.err  # the doctor may find something on this machine
    assert seen.out


def test_explore_serves_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from threefold.explore import server

    monkeypatch.chdir(tmp_path)
    made, serve = [], server.serve
    monkeypatch.setattr(server, "serve", lambda site, port: made.append(serve(site, 0)) or made[0])
    thread = threading.Thread(target=lambda: made.append(run(["explore", "encdec-12-8"])))
    thread.start()
    while not made or not (said := capsys.readouterr().out):
        thread.join(0.05)
    page = urllib.request.urlopen(said.split()[0]).read().decode()
    assert "Dimensions and cost" in page and "139" not in said
    made[0].shutdown()
    thread.join(10)
    assert made[1] == 0
