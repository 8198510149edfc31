"""A trained run as a folder: it loads in one line, answers as the run did, and its graphs answer alike elsewhere."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import threefold
from threefold.errors import InputError
from threefold.kernels.native import disabled
from threefold.recipes.export import export, pieces
from threefold.recipes.saved import reopen
from threefold.recipes.sentiment import SentimentRecipe
from threefold.specs.attention import Linear, Softmax
from threefold.specs.features import Taylor
from threefold.specs.nets import LMSpec, StackSpec
from threefold.specs.recurrent import GRU, LSTM
from threefold.train.loop import fit
from threefold.train.record import Run

TAYLOR = Linear(heads=2, key_dim=4, features=Taylor(2))


def trained(folder: Path, mixer) -> Path:
    recipe = SentimentRecipe().smoke()
    recipe = replace(recipe, model=replace(recipe.model, mixer=mixer), train=replace(recipe.train, steps=2, epochs=1))
    run = Run.create(folder, recipe)
    fit(recipe.task(), recipe.train, run)
    return folder


def test_a_folder_that_loads_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    run = trained(tmp_path / "run", TAYLOR)
    made = export(reopen(run), tmp_path / "out")
    texts = ["a fine film", "not good, but short"]
    assert threefold.load(tmp_path / "out").predict(texts) == reopen(run).predict(texts)
    graph, onnx = made
    assert (graph.form, graph.format, graph.file, graph.error) == ("full", "pt2", "full.pt2", 0.0)
    assert onnx.reason == "onnx is not installed: pip install 'threefold[export]'"
    assert not (tmp_path / "out" / "metrics.jsonl").exists()
    assert json.loads((tmp_path / "out" / "export.json").read_text()) == [vars(m) for m in made]
    with pytest.raises(InputError, match="not empty"):
        export(reopen(run), tmp_path / "out")


@pytest.mark.slow
def test_onnx_answers_alike_at_other_sizes(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra export)")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (extra export)")
    saved = reopen(trained(tmp_path / "run", TAYLOR))
    made = export(saved, tmp_path / "out")
    (onnx,) = [m for m in made if m.format == "onnx"]
    assert onnx.error is not None and onnx.error <= 1e-4, onnx.reason
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "full.onnx"), providers=["CPUExecutionProvider"])
    ids = torch.randint(1, saved.model.spec.vocab, (5, 23, 2))
    valid = torch.arange(23) < torch.tensor([23, 4, 1, 20, 9])[:, None]
    names = [given.name for given in session.get_inputs()]
    (answer,) = session.run(None, dict(zip(names, (ids.numpy(), valid.numpy()), strict=True)))
    with torch.no_grad():
        expected = saved.model(ids, valid)
    assert torch.allclose(torch.from_numpy(answer), expected, rtol=1e-4, atol=1e-5)


def test_an_opaque_op_is_said(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (extra export)")
    made = export(reopen(trained(tmp_path / "run", GRU())), tmp_path / "out")
    by_format = {m.format: m for m in made}
    assert by_format["pt2"].file == "full.pt2" and "opaque op" in by_format["onnx"].reason


def lm(mixer) -> torch.nn.Module:
    torch.manual_seed(0)
    return LMSpec(vocab=11, stack=StackSpec(16, (mixer,))).build().eval()


@pytest.mark.parametrize("mixer", [LSTM(), TAYLOR], ids=["LSTM", "Taylor"])
def test_the_step_of_a_bounded_state_is_a_graph(mixer) -> None:
    _, step = pieces(lm(mixer))
    with torch.no_grad():
        program = torch.export.export(step.module, step.example)
        native, answers = step.module(*step.example), program.module()(*step.example)
        with disabled("a graph holds the torch path"):
            expected = step.module(*step.example)
        token, state = torch.tensor([3]), expected[1:]
        again, other = step.module(token, *state), program.module()(token, *state)
    assert all(torch.equal(a, b) for a, b in zip(expected, answers, strict=True))
    assert all(torch.allclose(a, b, rtol=2e-6, atol=2e-6) for a, b in zip(expected, native, strict=True))
    assert all(torch.allclose(a, b) for a, b in zip(again, other, strict=True))


def test_a_growing_cache_is_said(tmp_path: Path) -> None:
    from threefold.recipes.export import _torch

    _, step = pieces(lm(Softmax(heads=2)))
    assert "cache that grows" in _torch(step, tmp_path).reason
