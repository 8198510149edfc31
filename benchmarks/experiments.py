"""Run experiments of the claims and record what their questions found: `python benchmarks/experiments.py E1 E15 ...`.

Each experiment's own commands are run, in this folder; runs that are finished are not run again. What comes along with
the library (src/threefold/claims/experiments/recorded.json) is then written anew for these experiments.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from threefold.claims.experiments.catalogue import EXPERIMENTS
from threefold.claims.experiments.experiment import Experiment, Pair, paired
from threefold.claims.experiments.recorded import Session, keep
from threefold.claims.experiments.rows import QUESTIONS
from threefold.train.record import Run

RUNS = Path("runs")  # where the commands put them


def run(experiment: Experiment, jobs: int) -> None:
    """Type the commands."""
    for command in experiment.commands:
        sys.stderr.write(f"{command}\n")
        words = shlex.split(command)[1:]
        subprocess.run([sys.executable, "-m", "threefold", *words, "--jobs", str(jobs)], check=True)


def session(experiment: Experiment, pairs: dict[int, Pair]) -> Session:
    """What the questions of an experiment found, and of which runs: of one version of the code, on one machine."""
    runs = [finished.run for pair in pairs.values() for finished in pair.values()]
    told = {(_commit(run), _machine(run), run.environment["threefold"]) for run in runs}
    if len(told) > 1:
        sys.exit(f"{experiment.id}: its runs are not of one code and machine: {sorted(told)}. Run them anew.")
    ((commit, machine, version),) = told
    seconds = sum((run.done or {})["processor_seconds"] for run in runs)
    return Session(
        date=max(run.environment["started"] for run in runs)[:10],
        machine=machine,
        threefold=version,
        commit=commit,
        runs=len(runs),
        processor_minutes=round(seconds / 60, 2),
        answers={
            question.what: {str(seed): question.measure(pair) for seed, pair in pairs.items()}
            for question in QUESTIONS
            if question.experiment is experiment
        },
    )


def _commit(run: Run) -> str:
    git = run.environment["git"]
    return git["commit"][:7] + ("+" if git["changed"] else "") if git else ""


def _machine(run: Run) -> str:
    return f"{run.environment['machine']}, {run.environment['cores']} cores"


def main() -> None:
    """Run, measure, record."""
    known = {experiment.id: experiment for experiment in EXPERIMENTS if experiment.commands}
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="+", choices=known, metavar="E1")
    words.add_argument("--jobs", type=int, default=2, help="runs at a time, each on one core")
    asked = words.parse_args()
    for name in asked.names:
        run(known[name], asked.jobs)
    found = {}
    for name in asked.names:
        _, pairs = paired(known[name], RUNS)
        if len(pairs) < known[name].seeds:
            sys.exit(f"{name}: {len(pairs)} of {known[name].seeds} seeds are finished; the same command continues.")
        found[name] = session(known[name], pairs)
        for what, values in found[name].answers.items():
            sys.stdout.write(f"{name}: {what}: {', '.join(f'{value:.4g}' for value in values.values())}\n")
    keep(found)


if __name__ == "__main__":
    main()
