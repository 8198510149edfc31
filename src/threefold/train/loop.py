"""The training loop: a straight line from a task and its settings to a finished run. It knows no task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.train import chance, metrics
from threefold.train.checkpoint import Saved
from threefold.train.feed import Feed, Share, Steps
from threefold.train.hold import holding
from threefold.train.progress import Progress, Silent
from threefold.train.record import Journal, Row, Run, note_session
from threefold.train.settings import Train
from threefold.train.shell import Spread
from threefold.train.state import load_model, load_optimiser, model_tensors, optimiser_tensors
from threefold.train.task import Shows, Task
from threefold.train.world import ALONE, World

SAMPLES = 3  # single examples that a run keeps for the report


class DivergenceError(InputError):
    """The loss is no longer a number."""


@dataclass
class Best:
    """The best validation so far, and for how many evaluations nothing was better."""

    step: int | None = None
    value: float | None = None
    waiting: int = 0


@dataclass
class Session:
    """Everything that one process holds while it trains."""

    task: Task[Any]
    train: Train
    run: Run
    world: World
    spread: Spread
    optimiser: torch.optim.Optimizer
    steps: Steps
    total: int
    best: Best = field(default_factory=Best)
    spent: float = 0.0  # seconds of training, over all sessions of the run
    idle: float = 0.0  # of these, waiting for data
    worked: float = 0.0  # seconds of this process's processors, which a busy machine does not stretch


def fit(
    task: Task[Any],
    train: Train,
    run: Run,
    *,
    begin: str | None = None,
    world: World = ALONE,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Row:
    """Train, from the start or from the checkpoint `begin`; the outcome. `stop` is asked before every step.

    A stopped or killed run, continued from its last checkpoint, gives the same losses and weights to the bit.
    """
    with holding(run.folder, world):
        return _fit(_prepare(task, train, run, world), begin, progress or Silent(), stop)


def _fit(session: Session, begin: str | None, progress: Progress, stop: Callable[[], bool]) -> Row:
    run, world = session.run, session.world
    saved = run.shelf.load(begin) if begin else None
    done = _continue(session, saved) if saved else 0
    world.meet()
    if world.first:
        run.rewind(done)
        note_session(run, world.size, done)
    with Journal(run, progress, world.first) as journal:
        if not saved:
            _watchable(session)
        progress.begin(_about(session, done))
        feed = Feed(session.steps, done, session.total)
        if saved:
            chance.restore(saved.state["chance"][world.rank])
        done, reason = _descend(session, feed, done, journal, stop)
        if reason == "stopped":
            _save(session, done, journal)
            outcome: Row = {"step": done, "reason": reason}
        else:
            outcome = _conclude(session, done, reason, journal)
    progress.end(outcome)
    return outcome


def _descend(session: Session, feed: Feed, done: int, journal: Journal, stop: Callable[[], bool]) -> tuple[int, str]:
    """Step after step, until there is a reason to end."""
    began, woke = time.perf_counter() - session.spent, time.process_time() - session.worked
    while not (reason := _reason(session, done)):
        shares = feed.next()
        terms = sum(share.counts * session.task.weight(share.batch) for share in shares)
        halt, weight = session.world.sum(float(stop()), terms)
        if halt:
            return done, "stopped"
        row = _step(session, shares, done, weight)
        done += 1
        session.spent, session.idle = time.perf_counter() - began, session.idle + feed.waited
        session.worked = time.process_time() - woke
        journal.write(row | {"seconds": round(session.spent, 4), "waited": round(feed.waited, 6)})
        _after(session, done, journal)
    return done, reason


def _prepare(task: Task[Any], train: Train, run: Run, world: World) -> Session:
    chance.seed(train.seed)
    steps = Steps(task, train, world)
    total = min(train.steps or math.inf, train.epochs * steps.per_epoch)
    chance.seed(train.seed)
    model = task.build()
    model.train()
    chance.seed(train.seed, world.rank)
    spread = Spread(model, train.sharding, world)
    optimiser = train.optimiser.build(model.parameters())
    if world.first:
        run.keep_assets(task.assets())
    return Session(task, train, run, world, spread, optimiser, steps, int(total))


def _continue(session: Session, saved: Saved) -> int:
    """Everything as it was when the checkpoint was written; the steps done."""
    state = saved.state
    require(
        state["processes"] == session.world.size,
        f"{session.run.folder} was trained by {state['processes']} processes, and here are {session.world.size}: "
        f"continue with `threefold resume {session.run.folder} --processes {state['processes']}`.",
    )
    load_model(session.spread.model, saved.tensors)
    load_optimiser(session.optimiser, session.spread.parameters(), saved.tensors)
    session.best, session.spent, session.idle = Best(**state["best"]), state["spent"], state["idle"]
    session.worked = state["worked"]
    return saved.step


def _about(session: Session, done: int) -> Row:
    return {
        "run": str(session.run.folder),
        "parameters": sum(p.numel() for p in session.spread.model.parameters()),
        "step": done,
        "total": session.total,
        "per_epoch": session.steps.per_epoch,
    }


def _step(session: Session, shares: list[Share], done: int, weight: float) -> Row:
    """One step of descent; `done` steps were done before it."""
    train, spread = session.train, session.spread
    require(weight > 0, f"step {done + 1}: the batch has no term of loss, every token in it is padding.")
    rate = train.lr * train.schedule.factor(done, session.total)
    for group in session.optimiser.param_groups:
        group["lr"] = rate
    loss = 0.0
    for number, share in enumerate(shares, 1):
        with spread.meeting(number == len(shares)):
            term = spread(_loss, session.task, share, train.bfloat16)
            (term * (session.world.size / weight)).backward()
        loss += float(term.detach())
    (loss,) = session.world.sum(loss)
    loss /= weight
    if not math.isfinite(loss):
        raise DivergenceError(
            f"step {done + 1}: the loss is {loss}. Lower train.lr ({train.lr:g}), or set train.clip, and train anew; "
            f"{session.run.folder} keeps what was measured until here."
        )
    row: Row = {"kind": "train", "step": done + 1, "epoch": done // session.steps.per_epoch, "loss": loss, "rate": rate}
    if train.clip is not None:
        row["norm"] = spread.clip(train.clip)
    session.optimiser.step()
    session.optimiser.zero_grad(set_to_none=True)
    return row


def _loss(model: nn.Module, task: Task[Any], share: Share, bfloat16: bool) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = task.loss(model, share.batch)
    return loss.float() * share.counts if share.counts != 1.0 else loss


def _after(session: Session, done: int, journal: Journal) -> None:
    """Evaluate and save where it is due."""
    train = session.train
    last = done == session.total
    evaluated = last or done % (train.evaluate_every or session.steps.per_epoch) == 0
    if evaluated:
        _evaluate(session, done, journal)
    if last or (done % train.save_every == 0 if train.save_every else evaluated):
        _save(session, done, journal)


def _evaluate(session: Session, done: int, journal: Journal) -> None:
    """Measure on validation, and keep the weights if they are the best so far."""
    if "valid" not in session.task.splits:
        return
    found = _measure(session, "valid")
    journal.write({"kind": "valid", "step": done, "epoch": (done - 1) // session.steps.per_epoch, **found})
    watch, best = session.train.watch, session.best
    if not metrics.better(watch, found[watch], best.value):
        best.waiting += 1
        return
    session.best = Best(done, found[watch])
    tensors = model_tensors(session.spread.model)
    if session.world.first:
        session.run.shelf.save("best", done, tensors, {"metrics": found, "watch": watch})


def _watchable(session: Session) -> None:
    """Ask now whether the watched metric will be there, not after the first epoch."""
    watch = session.train.watch
    if watch == "loss" or "valid" not in session.task.splits:
        return
    numbers = [key for key, value in _measure(session, "valid").items() if isinstance(value, float)]
    require(watch in numbers, f"train.watch {watch!r} is not measured here; choose one of {', '.join(numbers)}.")


def _measure(session: Session, split: str) -> Row:
    with chance.kept():
        return session.spread.measure(session.task.evaluate, split)


def _save(session: Session, done: int, journal: Journal) -> None:
    """A checkpoint from which the run continues to the same bits."""
    tensors = model_tensors(session.spread.model)
    tensors |= optimiser_tensors(session.optimiser, session.spread.parameters())
    states = session.world.gather(chance.state())
    journal.settle()
    if session.world.first:
        state = {
            "processes": session.world.size,
            "threads": torch.get_num_threads(),
            "chance": states,
            "best": vars(session.best),
            "spent": session.spent,
            "idle": session.idle,
            "worked": session.worked,
        }
        session.run.shelf.save("last", done, tensors, state)


def _reason(session: Session, done: int) -> str:
    """Why there is nothing left to do; empty while there is."""
    if done >= session.total:
        return "finished"
    if session.train.patience is not None and session.best.waiting >= session.train.patience:
        return "no improvement"
    return ""


def _show(model: nn.Module, task: Shows) -> list[Row]:
    return task.show(model, SAMPLES)


def _conclude(session: Session, done: int, reason: str, journal: Journal) -> Row:
    """Measure the best weights on the test set, and say that the run is done."""
    run, best = session.run, session.best
    chosen = f"best-{best.step}"
    if best.step is not None:
        load_model(session.spread.model, run.shelf.load(chosen).tensors)
    outcome: Row = {"step": done, "reason": reason, "best": vars(best), "seconds": round(session.spent, 3)}
    outcome["idle"] = round(session.idle / session.spent, 5) if session.spent else 0.0
    outcome["processor_seconds"] = round(session.worked, 3)
    outcome["parameters"] = sum(p.numel() for p in session.spread.model.parameters())
    if "test" in session.task.splits:
        found = _measure(session, "test")
        journal.write({"kind": "test", "step": done, "checkpoint": best.step, **found})
        outcome["test"] = {key: value for key, value in found.items() if isinstance(value, float)}
        if isinstance(session.task, Shows):
            with chance.kept():
                shown = session.spread.measure(_show, session.task)
            if session.world.first:
                run.keep_samples(shown)
    if session.world.first:
        run.finish(outcome)
    return outcome
