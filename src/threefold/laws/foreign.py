"""Subjects that nobody here wrote. What a layer is meant to be is declared, or inferred and said."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from threefold.errors import InputError
from threefold.laws.case import Case
from threefold.laws.guard import untouched
from threefold.laws.subject import WIDE, Claims, Subject
from threefold.laws.wiring import (
    PAIRS,
    Narrowest,
    blocks_of,
    causal_pairs,
    named_tensors,
    read,
    scores_like,
    sequence_of,
    vocabulary_of,
    width_of,
)

_TRY = Case(T=5, B=2)


class Bare(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ModuleSubject(Subject):
    """Any module, or function of a sequence: wired by its signature, tried once, claims inferred where not given."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        name: str,
        claims: Claims = Claims(),  # noqa: B008
        width: int | None = None,
        vocabulary: int | None = None,
    ) -> None:
        self.name = name
        self._make = make
        with untouched():
            module = self.build()
            self.wiring = read(module)
            self.blocks = blocks_of(module)
            self._fit(module, width, vocabulary)
            self._find_time(module)
            self._try_ways(module)
            self._narrow(module)
            self.claims, said = infer(self, claims)
        self.notes = (*self.wiring.said, *said)

    def fresh(self) -> nn.Module:
        return self._make()

    def _fit(self, module: nn.Module, width: int | None, vocabulary: int | None) -> None:
        """Find inputs that the module takes: vectors of some width, or ids."""
        sizes = [width] if width else [] if vocabulary else width_of(module)
        ids = [size for size in [vocabulary or vocabulary_of(module)] if size and not width]
        failure: Exception | None = None
        for size, words in [*((size, None) for size in sizes), *((1, words) for words in ids)]:
            self.width, self.vocabulary = size, words
            x = torch.zeros(2, 3, dtype=torch.long) if words else torch.zeros(2, 3, size, dtype=WIDE)
            try:
                _, self.per_token = sequence_of(self._raw(module, x, {}), 2, 3, self.wiring.time_first)
                return
            except Exception as error:
                failure = failure or error
        raise InputError(
            f"{self.name} took neither (2, 3, width) vectors with width {', '.join(map(str, sizes)) or 'given'} nor "
            f"ids: {type(failure).__name__}: {' '.join(str(failure).split())[:160]}. Give --width, --ids, or the "
            "constructor's --with."
        )

    def _find_time(self, module: nn.Module) -> None:
        """Time is the axis along which tokens reach each other. Where it is the first and no flag says so, say so."""
        if self.wiring.time_first or not self.per_token:
            return
        x = self.inputs(Case(T=3, B=3))
        other = x.clone()
        other[1, 1] = self.differing(x, Case(T=3, B=3), 7)[1, 1]
        with torch.no_grad():
            try:
                y, z = (sequence_of(self._raw(module, each, {}), 3, 3, False)[0] for each in (x, other))
            except Exception:
                return
        moved = (y != z).flatten(2).any(-1) if y.ndim > 2 else y != z
        rows, columns = bool(moved[[0, 2], 1].any()), bool(moved[1, [0, 2]].any())
        if rows and not columns:
            said = "tokens reach each other along the first axis alone: time is the first axis"
            self.wiring = replace(self.wiring.saying(said), time_first=True)

    def _try_ways(self, module: nn.Module) -> None:
        """Believe a mask, a state or positions only after a call with them worked."""
        x = self.differing(
            torch.zeros(2, 5, dtype=torch.long) if self.vocabulary else torch.zeros(2, 5, self.width, dtype=WIDE),
            _TRY,
            1,
        )
        wiring = self.wiring
        with torch.no_grad():
            if wiring.mask:
                self.masks = self._polarity(module, x)
            self.streams = self._can_stream(module, x)
            if wiring.place:
                self.moves = _works(lambda: self.call(module, x, valid=None, at=torch.arange(5), form=None))

    def _polarity(self, module: nn.Module, x: Tensor) -> bool:
        """Whether the mask works, with its polarity tried: hiding nothing must change nothing."""
        name, plain = self.wiring.mask, self._raw(module, x, {})
        if self.wiring.always:
            meaning = "real token" if self.wiring.real else "padded token"
            self.wiring = self.wiring.saying(f"{name} is required; by its name True is a {meaning}")
            return True

        def harmless(value: bool) -> bool:
            mask = torch.full(x.shape[:2], value)
            return _works(lambda: _equal(self._raw(module, x, {name: mask}), plain))

        same = {value: harmless(value) for value in (True, False)}
        if not any(same.values()):
            self.wiring = replace(self.wiring.saying(f"{name} is no (B, T) mask of padding: left out"), mask="")
            return False
        real = self.wiring.real if same[True] and same[False] else same[True]
        meaning = "real token" if real else "padded token"
        self.wiring = replace(self.wiring.saying(f"{name}: True is a {meaning}"), real=real)
        return True

    def _can_stream(self, module: nn.Module, x: Tensor) -> bool:
        if self.vocabulary is None and x.is_floating_point() and getattr(module, "bidirectional", False):
            return False
        if self.wiring.steps:
            if _works(lambda: self.feed(module, x, self.start(module, 2), valid=None, form=None)):
                return True
            self.wiring = replace(self.wiring.saying("step(x_t, state) did not work: left out"), steps=False)
        if not self.wiring.state:
            return False
        if _works(
            lambda: self.feed(module, x, self.feed(module, x, None, valid=None, form=None)[1], valid=None, form=None)
        ):
            return True
        self.wiring = replace(
            self.wiring.saying(f"{self.wiring.state} did not continue a sequence: left out"), state=""
        )
        return False

    def _narrow(self, module: nn.Module) -> None:
        """A layer that leaves float64 inside cannot be held to float64's rounding."""
        with torch.no_grad(), Narrowest() as watch:
            self.run(self.inputs(_TRY), module=module)
        self.precision = watch.dtype
        if watch.dtype is not WIDE:
            self.wiring = self.wiring.saying(
                f"computes partly in {watch.dtype}: judged by its rounding".replace("torch.", "")
            )

    def offer_causal_mask(self, module: nn.Module) -> None:
        """Declared causal, and not so by itself: pass a causal mask where the forward takes one."""
        named = inspect.signature(module.forward).parameters
        for name in PAIRS:
            if name in named:
                self.wiring = replace(
                    self.wiring.saying(f"declared causal: {name} is given the causal mask"), pairs=name
                )
                return

    def _raw(self, module: nn.Module, x: Tensor, more: dict[str, Any]) -> Any:
        if self.wiring.time_first:
            x = x.transpose(0, 1)
        others = self.wiring.xs[1:]
        if self.wiring.always and self.wiring.mask not in more:
            shape = x.shape[:2][::-1] if self.wiring.time_first else x.shape[:2]
            more = more | {self.wiring.mask: torch.full(shape, self.wiring.real, device=x.device)}
        return module(x, **dict.fromkeys(others, x), **more)

    def call(
        self, module: nn.Module, x: Tensor, *, valid: Tensor | None, at: Tensor | None, form: str | None
    ) -> Tensor:
        if form == "step":
            return torch.cat([y for y, _ in self._walk(module, x)], 1)
        more: dict[str, Any] = {}
        if valid is not None and self.wiring.mask:
            more[self.wiring.mask] = self._mask(valid, scores_like(module, x))
        if at is not None:
            more[self.wiring.place] = at.expand(x.shape[:2])
        if self.wiring.pairs:
            more[self.wiring.pairs] = causal_pairs(x.shape[1], scores_like(module, x))
        return sequence_of(self._raw(module, x, more), x.shape[0], x.shape[1], self.wiring.time_first)[0]

    def _mask(self, valid: Tensor, like: Tensor) -> Tensor:
        """In the subject's polarity; added to the scores where the causal mask is (torch wants both of one kind)."""
        if self.wiring.real:
            return valid
        return like.new_zeros(valid.shape).masked_fill(~valid, float("-inf")) if self.wiring.pairs else ~valid

    def _walk(self, module: nn.Module, x: Tensor) -> list[tuple[Tensor, Any]]:
        state, steps = self.start(module, len(x)), []
        for t in range(x.shape[1]):
            y, state = self.feed(module, x[:, t : t + 1], state, valid=None, form=None)
            steps.append((y, state))
        return steps

    def start(self, module: nn.Module, batch: int) -> Any:
        begin = getattr(module, "init_state", None)
        if self.wiring.steps and callable(begin):
            return begin(batch)
        return None

    def feed(
        self, module: nn.Module, x: Tensor, state: Any, *, valid: Tensor | None, form: str | None
    ) -> tuple[Tensor, Any]:
        if self.wiring.steps:
            ys, step = [], cast(Callable[..., Any], module.step)
            for x_t in x.unbind(1):
                y_t, state = step(x_t, state)
                ys.append(y_t)
            return (torch.stack(ys, 1) if ys else x), state
        output = self._raw(module, x, {self.wiring.state: state})
        if not isinstance(output, tuple) or len(output) != 2:
            raise InputError(
                f"{self.name} takes {self.wiring.state} and does not return (output, {self.wiring.state})."
            )
        return sequence_of(output[0], x.shape[0], x.shape[1], self.wiring.time_first)[0], output[1]

    def leaves(self, state: Any) -> dict[str, Tensor]:
        return named_tensors(state)


def infer(subject: ModuleSubject, claims: Claims) -> tuple[Claims, list[str]]:
    """Fill in what nobody declared, from what the layer does, and say so."""
    from threefold.laws.influence import looks_causal, looks_permuting

    said: list[str] = []
    if claims.causal is None and subject.per_token:
        causal, sentence = looks_causal(subject)
        claims = replace(claims, causal=causal)
        said.append(sentence)
    elif claims.causal and subject.per_token and not looks_causal(subject)[0]:
        subject.offer_causal_mask(subject.module())
    if claims.permutes is None and subject.per_token and not claims.causal:
        permutes, sentence = looks_permuting(subject)
        claims = replace(claims, permutes=permutes)
        said.append(sentence)
    return claims, [*said]


def _works(call: Callable[[], Any]) -> bool:
    try:
        return call() is not False
    except Exception:
        return False


def _equal(one: Any, other: Any) -> bool:
    a, b = next(iter(named_tensors(one).values())), next(iter(named_tensors(other).values()))
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=1e-9, atol=1e-9))
