"""Writing so that a kill at any moment leaves either the old file or the new one, whole."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from threefold.errors import InputError


def write(path: Path, content: bytes) -> None:
    """Temporary file beside it, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """Indented JSON, atomically."""
    write(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=True) + "\n").encode())


def read_json(path: Path) -> Any:
    """The JSON value of a file, or one sentence about what is wrong with it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: it is not JSON ({error}).") from None


def digest(content: bytes) -> str:
    """The checksum of bytes."""
    return sha256(content).hexdigest()


TEXT = 2**24  # bytes: in a folder, larger files and sounds are known by their size


def fingerprint(path: Path) -> str:
    """A checksum of a file; of a folder, of its names and sizes and of the content of its tables."""
    if path.is_file():
        return digest(path.read_bytes())
    told = []
    for each in sorted(p for p in path.rglob("*") if p.is_file()):
        size = each.stat().st_size
        table = size <= TEXT and each.suffix in (".csv", ".tsv", ".txt", ".json", ".jsonl")
        told.append((each.relative_to(path).as_posix(), size, digest(each.read_bytes()) if table else ""))
    return digest(json.dumps(told).encode())


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """The state with a checksum of itself."""
    return state | {"seal": _seal(state)}


def intact(state: dict[str, Any]) -> bool:
    """Whether a sealed state is as it was written."""
    return isinstance(state, dict) and state.get("seal") == _seal({k: v for k, v in state.items() if k != "seal"})


def _seal(state: dict[str, Any]) -> str:
    return digest(json.dumps(state, sort_keys=True).encode())
