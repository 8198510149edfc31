"""Random states: seeded apart, kept across what must not disturb them, and saved as plain numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed(*numbers: int) -> None:
    """Seed torch, numpy and python from several numbers at once."""
    words = np.random.SeedSequence(numbers).generate_state(4)
    torch.default_generator.manual_seed((int(words[0]) << 32) | int(words[1]))
    np.random.seed(int(words[2]))  # noqa: NPY002  (a task may use the global generators)
    random.seed(int(words[3]))


def state() -> dict[str, Any]:
    """The three generators' states as JSON."""
    numbers = np.random.get_state(legacy=False)  # noqa: NPY002
    version, words, normal = random.getstate()
    return {
        "torch": bytes(torch.default_generator.get_state().numpy()).hex(),
        "numpy": [numbers["state"]["key"].tolist(), numbers["state"]["pos"], numbers["has_gauss"], numbers["gauss"]],
        "python": [version, list(words), normal],
    }


def restore(saved: dict[str, Any]) -> None:
    """The inverse of `state`."""
    torch.default_generator.set_state(torch.tensor(list(bytes.fromhex(saved["torch"])), dtype=torch.uint8))
    keys, position, has_gauss, gauss = saved["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    version, words, normal = saved["python"]
    random.setstate((version, tuple(words), normal))


@contextmanager
def kept() -> Iterator[None]:
    """Whatever is drawn inside, the generators continue after it as if nothing had been."""
    of_torch, of_numpy, of_python = torch.default_generator.get_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)
