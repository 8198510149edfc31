"""Checkpoints: tensors in safetensors, everything else in JSON, both with checksums, nothing pickled.

A checkpoint is `<kind>-<step>.safetensors` and then `<kind>-<step>.json`. The JSON is written last and holds the
checksum of the tensors and of itself: without it the checkpoint does not exist. The last two of each kind are kept, so
that damage to the newest costs one interval, never the run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from threefold.errors import InputError, require
from threefold.train.files import digest, intact, read_json, sealed, write, write_json

KEEP = 2
NAME = re.compile(r"(last|best)-(\d+)")


@dataclass(frozen=True)
class Saved:
    """What one checkpoint holds."""

    name: str
    tensors: dict[str, Tensor]
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """How many steps had been done."""
        return int(self.state["step"])


class DamageError(InputError):
    """A checkpoint whose bytes are not those that were written."""


@dataclass(frozen=True)
class Shelf:
    """The checkpoints of one run."""

    folder: Path

    def save(self, kind: str, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> str:
        """Write one checkpoint, then drop all but the newest two of its kind."""
        from safetensors.torch import save

        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{step}"
        content = save({key: tensor.detach().contiguous() for key, tensor in tensors.items()})
        write(self.folder / f"{name}.safetensors", content)
        files = {"sha256": digest(content), "bytes": len(content)}
        write_json(self.folder / f"{name}.json", sealed(state | {"step": step, "tensors": files}))
        for old in self.names(kind)[KEEP:]:
            self.drop(old)
        for stray in self.folder.glob(".*.tmp"):
            stray.unlink(missing_ok=True)
        return name

    def names(self, kind: str) -> list[str]:
        """The committed checkpoints of a kind, newest first."""
        found = [m for path in self.folder.glob("*.json") if (m := NAME.fullmatch(path.stem)) and m[1] == kind]
        return [m[0] for m in sorted(found, key=lambda m: int(m[2]), reverse=True)]

    def drop(self, name: str) -> None:
        """Remove a checkpoint: first the file that says that it exists."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)
        (self.folder / f"{name}.safetensors").unlink(missing_ok=True)

    def load(self, name: str) -> Saved:
        """Read and verify; damage is named, and an intact earlier checkpoint is offered."""
        from safetensors.torch import load

        known = [*self.names("last"), *self.names("best")]
        require(name in known, f"{self.folder} has no checkpoint {name!r}; it has {', '.join(known) or 'none'}.")
        if fault := self.fault(name):
            raise DamageError(f"{fault} {self._offer(name)}")
        content = (self.folder / f"{name}.safetensors").read_bytes()
        return Saved(name, load(content), read_json(self.folder / f"{name}.json"))

    def fault(self, name: str) -> str:
        """What is wrong with a checkpoint, as a sentence; empty when it is intact."""
        path, tensors = self.folder / f"{name}.json", self.folder / f"{name}.safetensors"
        try:
            state = read_json(path)
            content = tensors.read_bytes()
        except InputError as error:
            return str(error)
        except OSError as error:
            return f"{tensors} cannot be read: {error.strerror}."
        if not intact(state):
            return f"{path} is damaged: its checksum does not match its content."
        wanted = state["tensors"]
        if len(content) != wanted["bytes"]:
            return f"{tensors} is damaged: it has {len(content)} bytes, and {wanted['bytes']} were written."
        if digest(content) != wanted["sha256"]:
            return f"{tensors} is damaged: its checksum is not that of the {wanted['bytes']} bytes that were written."
        return ""

    def _offer(self, name: str) -> str:
        kind = name.split("-")[0]
        for other in self.names(kind):
            if other != name and not self.fault(other):
                how = "continue from it with --from" if kind == "last" else "use it with --checkpoint"
                return f"The checkpoint {other} is intact: {how} {other}."
        return "No other checkpoint of this kind is intact."
