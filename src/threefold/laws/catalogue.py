"""The whole CATALOG judged, in as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from threefold.laws.describe import brief
from threefold.laws.law import Verdict


def judge_entry(index: int, names: tuple[str, ...]) -> tuple[int, tuple[Verdict, ...]]:
    """The verdicts on CATALOG[index]."""
    from threefold.laws.all import LAWS
    from threefold.laws.law import judge
    from threefold.laws.ours import MixerSubject
    from threefold.mixers.catalog import CATALOG, WIDTH

    subject = MixerSubject(CATALOG[index], WIDTH, name=brief(CATALOG[index]))
    return index, judge(subject, tuple(law for law in LAWS if law.name in names))


def judge_catalogue(names: tuple[str, ...], workers: int | None = None) -> Iterator[tuple[int, tuple[Verdict, ...]]]:
    """(index, verdicts) as they come; one thread in each process, so that cores are not fought over."""
    from threefold.mixers.catalog import CATALOG

    spawn = multiprocessing.get_context("spawn")
    count = workers or max(1, min(os.cpu_count() or 1, 8))
    with ProcessPoolExecutor(count, mp_context=spawn, initializer=_alone) as pool:
        jobs = [pool.submit(judge_entry, index, names) for index in range(len(CATALOG))]
        for job in as_completed(jobs):
            yield job.result()


def _alone() -> None:
    import torch

    torch.set_num_threads(1)
