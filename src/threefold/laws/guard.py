"""Judging leaves the process as it was: random streams, modes, flags and defaults, also after an exception."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def global_state() -> dict[str, object]:
    """What a layer's forward has no business to change, by name."""
    return {
        "torch's random stream": torch.get_rng_state(),
        "numpy's random stream": repr(np.random.get_state()),  # noqa: NPY002
        "python's random stream": random.getstate(),
        "the default dtype": torch.get_default_dtype(),
        "the grad mode": torch.is_grad_enabled(),
        "the deterministic flag": torch.are_deterministic_algorithms_enabled(),
        "the number of threads": torch.get_num_threads(),
        "the attention fast path": torch.backends.mha.get_fastpath_enabled(),
    }


@contextmanager
def untouched() -> Iterator[None]:
    """Restore the process's state on the way out."""
    python, numbers, stream = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    strict, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002
        torch.set_rng_state(stream)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The same random draws for the same seed, and the stream outside unmoved."""
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)  # noqa: NPY002
