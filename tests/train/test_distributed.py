"""Two processes are one process with twice the batch, however the model is spread; and they survive a kill."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.train.test_resume import same
from tests.train.toy import ToySpec, equal, main, weights
from threefold.errors import InputError
from threefold.train.hold import holding
from threefold.train.launch import launch
from threefold.train.record import Run


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def forked(folder: Path, processes: int, *options: str) -> list[int]:
    """The toy in several processes, as torchrun would start them; how each ended."""
    port, pids = str(free_port()), []
    for rank in range(processes):
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
                os.environ |= {"MASTER_PORT": port} if processes > 1 else {}
                main(str(folder), *options)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def losses(run: Run) -> list[float]:
    return [row["loss"] for row in run.rows() if row["kind"] != "test"]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One process, batch 8; the last batch of an epoch has 2 examples."""
    folder = tmp_path_factory.mktemp("one") / "run"
    assert forked(folder, 1, "dropout=0", "batch=8") == [0]
    return Run.open(folder)


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("sharding", "accumulate"),
    [("ddp", 1), ("full", 2), pytest.param("ddp", 2, marks=slow), pytest.param("full", 1, marks=slow)],
)
def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path, one: Run, sharding: str, accumulate: int) -> None:
    options = ("dropout=0", f"batch={4 // accumulate}", f"accumulate={accumulate}", f"sharding={sharding}")
    assert forked(tmp_path / "two", 2, *options) == [0, 0]
    two = Run.open(tmp_path / "two")
    assert losses(two) == pytest.approx(losses(one), rel=2e-4)
    assert losses(two)[0] == pytest.approx(losses(one)[0], rel=1e-6)
    ours, theirs = weights(two), weights(one)
    assert {n: t.shape for n, t in ours.items()} == {n: t.shape for n, t in theirs.items()}
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=2e-3, atol=2e-4)
    assert two.left() == 2


@slow
def test_a_last_batch_with_fewer_examples_than_processes(tmp_path: Path) -> None:
    """42 examples in global batches of 20: the last has 2, so that two of four processes have nothing to do."""
    assert forked(tmp_path / "one", 1, "dropout=0", "batch=20") == [0]
    assert forked(tmp_path / "four", 4, "dropout=0", "batch=5") == [0, 0, 0, 0]
    one, four = Run.open(tmp_path / "one"), Run.open(tmp_path / "four")
    assert losses(four) == pytest.approx(losses(one), rel=2e-4)


@pytest.mark.parametrize(
    ("sharding", "where"),
    [
        ("ddp", "kill=17"),
        ("full", "write=9"),
        pytest.param("ddp", "write=9", marks=slow),
        pytest.param("full", "kill=17", marks=slow),
    ],
)
def test_killed_and_resumed_to_the_same_bits(tmp_path: Path, sharding: str, where: str) -> None:
    options = (f"sharding={sharding}", "workers=1")
    assert forked(tmp_path / "whole", 2, *options) == [0, 0]
    codes = forked(tmp_path / "run", 2, *options, where)
    assert -signal.SIGKILL in codes and 0 not in codes
    assert Run.open(tmp_path / "run").done is None
    assert forked(tmp_path / "run", 2, *options) == [0, 0]
    same(Run.open(tmp_path / "run"), Run.open(tmp_path / "whole"))


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    assert -signal.SIGKILL in forked(tmp_path / "run", 2, "kill=12")
    with pytest.raises(InputError, match="was trained by 2 processes, and here are 1"):
        main(str(tmp_path / "run"))


def test_torchrun_and_the_marks(tmp_path: Path) -> None:
    """The real launcher gives the same bits as processes that found each other by themselves."""
    assert forked(tmp_path / "forked", 2) == [0, 0]
    (tmp_path / "launched").mkdir()
    run = Run(tmp_path / "launched")
    assert launch(run, 2, "tests.train.toy", [str(run.folder)]) == 0
    assert run.left() == 2
    assert equal(weights(run), weights(Run.open(tmp_path / "forked")))


@slow
def test_torchrun_killed_at_random_steps(tmp_path: Path) -> None:
    """Each time both processes die in a step, with two data workers each; the last start runs to the end."""
    assert forked(tmp_path / "whole", 2) == [0, 0]
    draw, run = random.Random(7), Run(tmp_path / "run")
    run.folder.mkdir()
    for _ in range(4):
        assert launch(run, 2, "tests.train.toy", [str(run.folder), "workers=2", f"kill={draw.randint(3, 5)}"]) != 0
    assert run.newest is not None and run.done is None
    assert launch(run, 2, "tests.train.toy", [str(run.folder), "workers=2"]) == 0
    same(run, Run.open(tmp_path / "whole"))


def test_a_run_that_is_held_is_not_launched_and_keeps_its_marks(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", ToySpec())
    run.leave(0)
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with holding(run.folder):
                os.write(writes, b"x")
                time.sleep(60)
        finally:
            os._exit(0)
    os.read(reads, 1)
    try:
        with pytest.raises(InputError, match=f"is being trained by process {pid} on "):
            launch(run, 2, "tests.train.toy", [str(run.folder)])
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert run.left() == 1


@pytest.mark.parametrize(("code", "marks", "answer"), [(0, 2, 0), (1, 2, 0), (0, 1, 1), (3, 1, 3)])
def test_the_marks_are_believed_and_not_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, marks: int, answer: int
) -> None:
    run = Run(tmp_path)
    run.leave(7)  # of an earlier start

    class Instead:
        def __init__(self, command: list[str], **_: object) -> None:
            assert "--nproc-per-node=2" in command

        def wait(self) -> int:
            for rank in range(marks):
                run.leave(rank)
            return code

    monkeypatch.setattr(subprocess, "Popen", Instead)
    assert launch(run, 2, "module", []) == answer
