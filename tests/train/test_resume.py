"""A run that is killed anywhere and resumed gives the same bits as one that was not."""

import os
import platform
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.toy import SETTINGS, Toy, ToySpec, equal, main, measured, weights
from threefold.errors import InputError
from threefold.train.checkpoint import DamageError
from threefold.train.files import read_json
from threefold.train.hold import LOCK, holding
from threefold.train.loop import fit
from threefold.train.record import Run


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nobody disturbed."""
    run = Run.create(tmp_path_factory.mktemp("whole") / "run", ToySpec())
    fit(Toy(), SETTINGS, run)
    return run


def child(folder: Path, *options: str, kill_at: int | None = None, after: float = 0.0) -> int:
    """Train (or continue) in a process of its own, killed some time after it told of step `kill_at`; how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            main(str(folder), *options)
            os._exit(0)
        finally:
            os._exit(1)
    if kill_at is None:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    begun, patience = time.time_ns(), time.monotonic() + 60
    while not (ended := os.waitpid(pid, os.WNOHANG))[0] and reached(folder, begun) < kill_at:
        assert time.monotonic() < patience, f"step {kill_at} does not come"
        time.sleep(0.001)
    if not ended[0]:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended[1])


def reached(folder: Path, begun: int) -> int:
    """The last step that a run has told of since `begun`."""
    path = folder / "metrics.jsonl"
    fresh = path.exists() and path.stat().st_mtime_ns > begun
    return max((row["step"] for row in Run(folder).rows("train")), default=0) if fresh else 0


def same(run: Run, whole: Run) -> None:
    assert measured(run) == measured(whole)
    assert equal(weights(run), weights(whole))
    best = [r.shelf.load(r.shelf.names("best")[0]) for r in (run, whole)]
    assert best[0].name == best[1].name
    assert equal(best[0].tensors, best[1].tensors)
    assert {k: v for k, v in (run.done or {}).items() if k not in ("seconds", "processor_seconds", "idle")} == {
        k: v for k, v in (whole.done or {}).items() if k not in ("seconds", "processor_seconds", "idle")
    }


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("step", [1, 8, 12, 29])
def test_killed_in_a_step(tmp_path: Path, whole: Run, step: int, workers: int) -> None:
    assert child(tmp_path / "run", f"kill={step}", f"workers={workers}") == -signal.SIGKILL
    assert Run.open(tmp_path / "run").done is None
    assert child(tmp_path / "run", f"workers={workers}") == 0
    run = Run.open(tmp_path / "run")
    same(run, whole)


@pytest.mark.parametrize("number", range(1, 19))
def test_killed_in_a_write(tmp_path: Path, whole: Run, number: int) -> None:
    assert child(tmp_path / "run", f"write={number}") == -signal.SIGKILL
    assert child(tmp_path / "run") == 0
    same(Run.open(tmp_path / "run"), whole)
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_ten_times_at_random_moments(tmp_path: Path, whole: Run, workers: int) -> None:
    draw, run, ended = random.Random(4), Run(tmp_path / "run"), []
    for _ in range(10):
        kept = int(run.newest.split("-")[1]) if run.newest else 0
        at = kept + draw.randint(1, 9)
        ended.append(child(run.folder, f"workers={workers}", kill_at=at, after=draw.uniform(0.0, 0.01)))
    assert set(ended) <= {0, -signal.SIGKILL} and ended.count(-signal.SIGKILL) >= 7
    assert child(run.folder, f"workers={workers}") == 0
    begun = {session["from_step"] for session in read_json(run.folder / "environment.json")["sessions"]}
    assert len(begun) >= 5, f"continued from {sorted(begun)} only"
    same(run, whole)


def test_two_processes_do_not_train_one_run(tmp_path: Path, whole: Run) -> None:
    run, pids = Run.create(tmp_path / "run", ToySpec()), []

    def second() -> bool:
        """Asked before every step: once, another process tries the same run."""
        if not pids:
            reads, writes = os.pipe()
            pids.append(os.fork())
            if not pids[0]:
                try:
                    fit(Toy(), SETTINGS, run)
                except InputError as refused:
                    os.write(writes, str(refused).encode())
                finally:
                    os._exit(0)
            os.close(writes)
            os.waitpid(pids[0], 0)
            told.append(os.read(reads, 1000).decode())
        return False

    told: list[str] = []
    fit(Toy(), SETTINGS, run, stop=second)
    who = f"process {os.getpid()} on {platform.node()}"
    assert told == [f"{run.folder} is being trained by {who}: wait for it, or stop it first."]
    same(run, whole)
    assert not (run.folder / LOCK).exists()


def test_a_folder_is_held_until_the_outermost_block_ends(tmp_path: Path) -> None:
    def free() -> bool:
        """Whether another process could hold it."""
        pid = os.fork()
        if not pid:
            try:
                with holding(tmp_path):
                    os._exit(0)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    with holding(tmp_path):
        with holding(tmp_path):
            assert not free()
        assert not free()
    assert free()


def test_patience_survives(tmp_path: Path) -> None:
    from dataclasses import replace

    settings = replace(SETTINGS, epochs=50, lr=0.3, patience=3, watch="accuracy")
    whole, broken = (Run.create(tmp_path / name, ToySpec(settings)) for name in ("whole", "broken"))
    fit(Toy(), settings, whole)
    for step in range(11, 500, 11):
        asked = iter([False] * 11 + [True])
        begin = next(iter(broken.shelf.names("last")), None)
        if fit(Toy(), settings, broken, begin=begin, stop=lambda asked=asked: next(asked))["reason"] != "stopped":  # type: ignore[misc]
            break
        assert broken.shelf.names("last")[0] == f"last-{step}"
    same(broken, whole)
    assert whole.done and whole.done["reason"] == "no improvement"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


def stopped(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "run", ToySpec())
    asked = iter([False] * 20 + [True])
    fit(Toy(), SETTINGS, run, stop=lambda: next(asked))
    return run


@pytest.mark.parametrize("suffix", ["safetensors", "json"])
@pytest.mark.parametrize("at", [9, -9])
def test_a_flipped_byte_is_named_and_the_previous_offered(tmp_path: Path, whole: Run, suffix: str, at: int) -> None:
    run = stopped(tmp_path)
    newest, previous = run.shelf.names("last")
    flip(run.shelf.folder / f"{newest}.{suffix}", at)
    with pytest.raises(DamageError) as caught:
        fit(Toy(), SETTINGS, run, begin=newest)
    assert f"{newest}.{suffix} is damaged" in str(caught.value)
    assert f"--from {previous}" in str(caught.value)
    fit(Toy(), SETTINGS, run, begin=previous)
    same(run, whole)


def test_a_cut_file_is_named_and_nothing_is_offered_when_nothing_is_intact(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    for name in run.shelf.names("last"):
        path = run.shelf.folder / f"{name}.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamageError, match=r"11404 were written\. No other checkpoint of this kind is intact"):
        run.shelf.load(run.shelf.names("last")[0])
    with pytest.raises(InputError, match="has no checkpoint 'last-7'; it has last-20"):
        run.shelf.load("last-7")


def test_a_checkpoint_without_its_json_does_not_exist(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    newest, previous = run.shelf.names("last")
    (run.shelf.folder / f"{newest}.json").unlink()
    assert run.shelf.names("last") == [previous]


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    class Wider(Toy):
        def build(self) -> Any:
            net = super().build()
            net.out = torch.nn.Linear(16, 4)
            return net

    run = stopped(tmp_path)
    with pytest.raises(InputError, match=r"of another model: out\.weight has shape \(3, 16\), and \(4, 16\) is needed"):
        fit(Wider(), SETTINGS, run, begin=run.shelf.names("last")[0])


def test_no_pickle_is_read_or_written(whole: Run) -> None:
    kinds = {path.suffix for path in whole.folder.rglob("*") if path.is_file()}
    assert kinds == {".json", ".jsonl", ".safetensors", ""}
