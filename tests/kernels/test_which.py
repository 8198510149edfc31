"""What would run is told, and told truly; what slows a machine down is named."""

import json

import pytest
import torch

from threefold import CATALOG, GRU, LSTM, RNN, Bidirectional, Elu1, Linear, Relative, Rotary, Softmax, Taylor
from threefold.cli.main import run
from threefold.kernels import which
from threefold.kernels.machine import advice, conditions, openmp_runtimes
from threefold.kernels.native import available, disabled

needs_native = pytest.mark.skipif(bool(available()), reason=f"no native kernels here: {available()}")
X = torch.empty(2, 5, 12)


def called(spec, x, valid=None) -> set[str]:
    """The operators that run, as torch's profiler sees them."""
    mixer = spec.build(x.shape[-1]).to(x.dtype)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        mixer(torch.zeros_like(x), valid)
    return {event.key for event in seen.key_averages()}


@needs_native
@pytest.mark.parametrize("spec", CATALOG, ids=repr)
def test_what_is_told_is_what_runs(spec) -> None:
    ops = called(spec, X)
    told = which(spec, X)
    ours = {"threefold::linear", "threefold::recurrent"} & ops
    assert (told == "native") == bool(ours)
    assert told.startswith("oneDNN") == ("aten::mkldnn_rnn_layer" in ops)
    if isinstance(spec, Softmax):
        assert ("flash" in told) == any("flash" in op for op in ops)


@needs_native
def test_the_reason_is_told() -> None:
    valid = torch.ones(2, 5, dtype=torch.bool)
    assert which(LSTM(), X, valid) == "native; not oneDNN: it knows no mask"
    assert "float64" in which(LSTM(), X.double())
    assert which(GRU(), X.bfloat16()) == which(RNN(), X.bfloat16()) == "native", "it computes in float32"
    assert "Taylor of degree 4" in which(Linear(heads=2, features=Taylor(4)), X)
    assert "float16" in which(Linear(heads=2), X.half())
    assert which(Linear(heads=2, features=Elu1(), position=Rotary()), X.bfloat16()) == "native"
    assert "math" in which(Softmax(heads=2, position=Relative()), X), "a learned bias needs its gradient"
    with disabled("switched off here"):
        for spec in (GRU(), Linear(heads=2), Bidirectional(Linear(heads=2))):
            assert which(spec, X) == "torch; not native: switched off here"


def test_asking_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    which(GRU(), X)
    assert torch.equal(before, torch.get_rng_state())


def test_two_openmp_runtimes_are_seen() -> None:
    maps = "7f r-xp 0 /a/torch.libs/libgomp-24e2ab19.so.1.0.0\n7f r--p 0 /a/torch.libs/libgomp-24e2ab19.so.1.0.0\n"
    assert openmp_runtimes(maps) == ["libgomp-24e2ab19.so.1.0.0"]
    assert len(openmp_runtimes(maps + "7f r-xp 0 /b/libiomp5.so\n7f rw-p 0 /c/libgompish.txt\n")) == 2


def test_what_slows_a_machine_is_named() -> None:
    found = conditions()
    healthy = found | {
        "threads": 2,
        "cores": 2,
        "torch": {"openmp_runtimes": ["libgomp.so.1"], "oneDNN": True},
        "native": {"active": True, "instruction_set": "avx2", "instruction_sets": ["avx2", "base"]},
    }
    assert advice(healthy) == []
    worse = {
        "Native kernels do not run: no compiler": {"native": {"active": False, "why_not": "no compiler"}},
        "THREEFOLD_ISA holds": {"native": healthy["native"] | {"instruction_set": "base"}},
        "2 OpenMP runtimes": {"torch": {"openmp_runtimes": ["libgomp.so.1", "libiomp5.so"], "oneDNN": True}},
        "no oneDNN": {"torch": {"openmp_runtimes": [], "oneDNN": False}},
        "8 threads on 2 cores": {"threads": 8},
    }
    for sentence, change in worse.items():
        (said,) = advice(healthy | change)
        assert sentence in said


def test_doctor_tells_people_and_programs(capsys) -> None:
    with disabled("off for a test"):
        assert run(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "off: off for a test" in told and "steps     torch" in told
    assert "Native kernels do not run: off for a test" in told
    code = run(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == int(bool(found["advice"]))
    assert found["paths"]["GRU"]["float32"] == which(GRU(), torch.empty(1, 16, 64))
    assert found["torch"]["version"] == torch.__version__ and found["threads"] == torch.get_num_threads()
