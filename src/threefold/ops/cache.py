"""The keys and values that softmax attention keeps: room that doubles, and states that stay what they were."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from threefold.ops.place import advance, packed
from threefold.ops.scan import cleared


class Lease:
    """One per buffer. Only the newest state of a buffer may write behind its end; any other continues in a copy."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest = 0


class Cache(NamedTuple):
    """Valid tokens only, packed: slot p of a row holds its key and value of position p."""

    keys: Tensor  # (B, G, capacity, K)
    values: Tensor  # (B, G, capacity, V)
    tokens: Tensor  # (B,): valid tokens so far, which is also the next position
    slots: int  # no row holds more
    even: bool  # every row holds exactly `slots`
    serial: int
    lease: Lease | None  # None: shared with a recorded graph, never written

    def canonical(self) -> Cache:
        """What the state means: no room to grow, and zeros where a shorter row has nothing."""
        longest = int(self.tokens.max()) if len(self.tokens) else 0
        real = torch.arange(longest, device=self.tokens.device) < self.tokens[:, None]
        keys, values = (
            torch.where(real[:, None, :, None], buffer[:, :, :longest], torch.zeros((), dtype=buffer.dtype))
            for buffer in (self.keys, self.values)
        )
        return self._replace(keys=keys, values=values, slots=longest, lease=None)

    def seen(self) -> tuple[Tensor, Tensor]:
        """Keys and values in use: (B, G, slots, K), (B, G, slots, V)."""
        return self.keys[:, :, : self.slots], self.values[:, :, : self.slots]


def empty(keys: Float[Tensor, "b g 0 k"], values: Float[Tensor, "b g 0 v"]) -> Cache:
    """The cache before the first token."""
    count = torch.zeros(len(keys), dtype=torch.long, device=keys.device)
    return Cache(keys, values, count, 0, True, 0, None)


def append(
    cache: Cache,
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t g v"],
    valid: Bool[Tensor, "b t"] | None,
    *,
    record: bool,
) -> Cache:
    """The cache with the valid tokens behind it. `record`: autograd watches, so nothing is written in place."""
    length = k.shape[1]
    k, v = cleared(k, valid).transpose(1, 2), cleared(v, valid).transpose(1, 2)
    count = advance(cache.tokens, length, valid)
    even = cache.even and valid is None
    place = (
        None
        if even
        else packed(
            cache.tokens, torch.ones(k.shape[0], length, dtype=torch.bool, device=k.device) if valid is None else valid
        )
    )
    slots = cache.slots + length
    if valid is not None and not torch.compiler.is_compiling() and len(count):
        slots = int(count.max())
    if even and cache.slots == 0:
        return Cache(k, v, count, slots, even, 0, None)
    if record:
        keys, values = (_joined(old, new, place) for old, new in zip(cache.seen(), (k, v), strict=True))
        return Cache(keys, values, count, slots, even, 0, None)
    return _written(cache, k, v, place)._replace(tokens=count, slots=slots, even=even)


def _joined(old: Tensor, new: Tensor, place: Tensor | None) -> Tensor:
    """A new buffer: old, then new; or new where `place` says."""
    new = new.to(old.dtype)
    if place is None:
        return torch.cat([old, new], 2)
    return torch.cat([old, torch.zeros_like(new)], 2).scatter(2, _spread(place, new), new)


def _written(cache: Cache, k: Tensor, v: Tensor, place: Tensor | None) -> Cache:
    """The same buffers with the new tokens behind, or buffers of twice the size if there is no room or no right."""
    start, stop = cache.slots, cache.slots + k.shape[2]
    keys, values, lease = cache.keys, cache.values, cache.lease
    locked = keys.is_inference() and not torch.is_inference_mode_enabled()
    if lease is None or locked or lease.newest != cache.serial or keys.shape[2] < stop:
        room = keys.shape[2] if keys.shape[2] >= stop else max(stop, 2 * start)
        keys, values = (_grown(buffer[:, :, :start], room) for buffer in (keys, values))
        lease = Lease()
    for buffer, new in ((keys, k), (values, v)):
        if place is None:
            buffer[:, :, start:stop] = new
        else:
            buffer.scatter_(2, _spread(place, new), new.to(buffer.dtype))
    lease.newest += 1
    return cache._replace(keys=keys, values=values, serial=lease.newest, lease=lease)


def _grown(buffer: Tensor, room: int) -> Tensor:
    grown = buffer.new_zeros(*buffer.shape[:2], room, buffer.shape[3])
    grown[:, :, : buffer.shape[2]] = buffer
    return grown


def _spread(place: Tensor, new: Tensor) -> Tensor:
    return place[:, None, :, None].expand_as(new)
