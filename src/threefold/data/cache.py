"""Where fetched and made data is kept between runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """$THREEFOLD_CACHE, else the user's cache folder."""
    home = os.environ.get("THREEFOLD_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) if home else Path(base) / "threefold"


def make_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """The folder `target`, filled if it is not there yet: whole or not at all, also when two processes race."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(draft)
        draft.chmod(0o755)
        draft.rename(target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target
