"""One writer for each run's folder, whoever starts it and however it ends."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from threefold.errors import InputError
from threefold.train.world import ALONE, World

LOCK = "lock"  # there while a folder is held, and after a kill; nothing else may open it, for closing it lets go
_held: set[tuple[int, Path]] = set()  # by whom: a fork holds nothing


@contextmanager
def holding(folder: Path, world: World = ALONE) -> Iterator[None]:
    """Until the block ends, no other process writes into the folder; the system lets go of it when this one is killed.

    The first process of a world holds it for all, and when it cannot, all say so. Inside a block that holds the folder
    this changes nothing.
    """
    key = (os.getpid(), folder.resolve())
    if key in _held:
        yield
        return
    file, refused = _lock(folder) if world.first else (None, "")
    if refused := world.tell(refused):
        raise InputError(refused)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        if file:
            (folder / LOCK).unlink(missing_ok=True)
            file.close()


def _lock(folder: Path) -> tuple[TextIO | None, str]:
    """The locked file, or the sentence that says why not; neither where the system has no such locks."""
    if sys.platform == "win32":
        return None, ""
    import fcntl

    path = folder / LOCK
    while True:
        try:
            file = path.open("a+")
        except OSError as error:
            return None, f"{folder} cannot be written to: {error.strerror}."
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # unlike flock's, not kept by a killed parent's workers
        except (BlockingIOError, PermissionError):
            file.seek(0)
            who = file.read().strip() or "another process"
            file.close()
            return None, f"{folder} is being trained by {who}: wait for it, or stop it first."
        except OSError:
            pass  # a file system without locks
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            break
        file.close()  # its owner let go, and took the file away, between our opening and locking it
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}\n")
    file.flush()
    return file, ""
