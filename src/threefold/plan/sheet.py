"""A model run on paper: signals have named axes instead of numbers, and every op writes down what it costs.

The rules are those of the machine: a product of (n, k) and (k, m) is 2nkm FLOPs and keeps both factors for its backward
pass, which costs as much again for each factor that wants a gradient; a sigmoid keeps its output; a sum keeps nothing.
What two ops both keep is kept once. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod

from threefold.cost import ONE, ZERO, Cost, Most, Plan, Poly, as_poly, axis_poly
from threefold.plan.conventions import Conventions
from threefold.plan.signal import Signal, Size, broadcast, leading, volume


@dataclass
class _Part:
    name: str
    shape: tuple[Poly, ...] = ()
    note: str = ""
    sums: dict[str, Poly] = field(default_factory=dict)
    largest: set[Poly] = field(default_factory=set)
    parts: list[Plan] = field(default_factory=list)
    when: Poly = ONE
    weights: list[tuple[str, int]] = field(default_factory=list)

    def plan(self) -> Plan:
        cost = Cost(**self.sums, temporary=Most(self.largest))
        return Plan(self.name, cost, tuple(self.parts), self.shape, self.note, self.when, tuple(self.weights))


class Sheet:
    """Collects a plan while a model is run on paper."""

    def __init__(self, name: str, conventions: Conventions | None = None) -> None:
        self.conventions = conventions or Conventions()
        self.width = self.conventions.dtype.bytes
        self.wide = self.conventions.dtype.accumulator
        self._open = [_Part(name)]
        self._kept: dict[int, Poly] = {}  # storage -> 1 where it is kept
        self._when = ONE
        self._weights: set[str] = set()
        self._storages = 0
        self._silent = False
        self._flat = False
        self._states = True

    def finish(self, shape: tuple[Poly, ...] = (), note: str = "") -> Plan:
        """The plan of everything that was run."""
        self._open[0].shape, self._open[0].note = shape, note
        return self._open[0].plan()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is run inside is a part of its own (inside `steps`, which sums over tokens, it is not)."""
        if self._flat:
            yield
            return
        self._open.append(_Part(name, when=self._when))
        yield
        done = self._open.pop()
        self._open[-1].parts.append(done.plan())

    @contextmanager
    def steps(self, tokens: Poly) -> Iterator[Poly]:
        """Run once for t = 1..tokens: yields t, and sums what the body costs. Every token keeps tensors of its own."""
        part, t = self._open[-1], axis_poly("t")
        before, largest, flat = dict(part.sums), part.largest, self._flat
        part.largest, self._flat = set(), True
        yield t
        self._flat = flat
        for name in ("forward", "backward", "saved"):
            start = before.get(name, ZERO)
            part.sums[name] = start + _summed(part.sums.get(name, ZERO) - start, tokens)
        part.largest = largest | {_last(size, tokens) for size in part.largest}

    def says(self, x: Signal | tuple[Size, ...] = (), note: str = "") -> None:
        """The signal that the open part hands on, for the table of signals."""
        if self._flat:
            return
        shape = x.shape if isinstance(x, Signal) else tuple(map(as_poly, x))
        self._open[-1].shape, self._open[-1].note = shape, note

    def add(self, **amounts: Size) -> None:
        """Add to the open part's params, forward, backward, saved or state."""
        sums = self._open[-1].sums
        for name, amount in amounts.items():
            if name == "state" and not self._states:
                continue
            when = ONE if name == "params" else self._when
            sums[name] = sums.get(name, ZERO) + amount * when

    def weight(self, name: str, *shape: int) -> None:
        """Numbers to learn; a name used twice is one weight (tied)."""
        if name in self._weights:
            return
        self._weights.add(name)
        self._open[-1].weights.append((name, prod(shape)))
        self.add(params=prod(shape))

    # signals

    def new(self, *shape: Size, grad: bool = True, width: int | None = None) -> Signal:
        """A tensor that an op makes."""
        polys = tuple(map(as_poly, shape))
        width = width or self.width
        self._storages += 1
        stored = volume(polys) * width
        self._open[-1].largest.add(stored * self._when)
        return Signal(polys, width, self._storages, stored, grad)

    def given(self, *shape: Size, grad: bool = False, width: int | None = None) -> Signal:
        """A tensor that exists before: an input, a table of positions."""
        largest = set(self._open[-1].largest)
        signal = self.new(*shape, grad=grad, width=width)
        self._open[-1].largest = largest
        return signal

    def like(self, *of: Signal, width: int | None = None) -> Signal:
        """A new tensor with the broadcast shape of these, which an op makes without keeping anything."""
        return self.new(*broadcast(*of), grad=any(x.grad for x in of), width=width or max(x.width for x in of))

    def copy(self, x: Signal, *shape: Size, apart: Poly) -> Signal:
        """The numbers of x in rows of their own, which costs a copy where `apart` is 1."""
        before = set(self._open[-1].largest)
        made = self.new(*shape, grad=x.grad, width=x.width)
        self._open[-1].largest = before | {made.stored * self._when * apart}
        return replace(made, of=x, apart=apart)

    def keep(self, *signals: Signal) -> None:
        """Kept for the backward pass: each storage once."""
        for signal in signals:
            self._hold(signal, self._when)

    def _hold(self, signal: Signal, when: Poly) -> None:
        if signal.of is not None:
            self._hold(signal.of, when * (1 - signal.apart))
            when = when * signal.apart
        before = self._kept.get(signal.storage, ZERO)
        more = when - before * when
        if more and not self._silent:
            self._kept[signal.storage] = before + more
            sums = self._open[-1].sums
            sums["saved"] = sums.get("saved", ZERO) + signal.stored * more

    @contextmanager
    def only(self, when: Poly) -> Iterator[None]:
        """What is run inside is run where `when` is 1."""
        before, self._when = self._when, self._when * when
        yield
        self._when = before

    # ops

    def product(self, a: Signal, b: Signal, flops: Poly, *shape: Size) -> Signal:
        """A contraction of two signals: each is kept for the other's gradient."""
        self.add(forward=flops, backward=flops * (a.grad + b.grad))
        if a.grad:
            self.keep(b)
        if b.grad:
            self.keep(a)
        return self.new(*shape, grad=a.grad or b.grad, width=max(a.width, b.width))

    def matmul(self, a: Signal, b: Signal) -> Signal:
        """(..., n, k) (..., k, m)."""
        lead = leading(a.shape[:-2], b.shape[:-2])
        flops = volume((*lead, a.shape[-2], a.shape[-1], b.shape[-1])) * 2
        return self.product(a, b, flops, *lead, a.shape[-2], b.shape[-1])

    def linear(self, x: Signal, out: int, *, bias: bool, name: str, fan: int | None = None) -> Signal:
        """W x [+ b]; the same name is the same weight."""
        fan = fan or int(x.shape[-1])
        self.weight(name, out, fan)
        if bias:
            self.weight(f"{name} bias", out)
        flops = x.numbers * out * 2
        self.add(forward=flops, backward=flops * (1 + x.grad))
        self.keep(x)
        return self.new(*x.shape[:-1], out, width=x.width)

    def times(self, a: Signal, b: Signal) -> Signal:
        """Elementwise product: each factor is kept for the other's gradient."""
        if a.grad:
            self.keep(b)
        if b.grad:
            self.keep(a)
        return self.like(a, b)

    def over(self, a: Signal, b: Signal) -> Signal:
        """Elementwise quotient."""
        if a.grad or b.grad:
            self.keep(b)
        if b.grad:
            self.keep(a)
        return self.like(a, b)

    def by_output(self, x: Signal) -> Signal:
        """exp, softmax, tanh, sigmoid, relu, sqrt: the derivative is a function of the output."""
        y = self.like(x)
        if x.grad:
            self.keep(y)
        return y

    def by_input(self, x: Signal) -> Signal:
        """gelu, log, powers, clamp: the derivative is a function of the input."""
        if x.grad:
            self.keep(x)
        return self.like(x)

    def chosen(self, mask: Signal, x: Signal) -> Signal:
        """where(mask, x, constant)."""
        if x.grad:
            self.keep(mask)
        return self.like(x, replace(mask, grad=False, width=1))

    def normed(self, x: Signal, *, name: str) -> Signal:
        """LayerNorm with gain and bias: keeps its input, and a mean and a deviation for each token."""
        size = int(x.shape[-1])
        self.weight(f"{name} gain", size)
        self.weight(f"{name} bias", size)
        rows = x.shape[:-1]
        y = self.new(*x.shape, grad=True, width=x.width)
        mean, deviation = (self.new(*rows, 1, width=self.wide) for _ in range(2))
        self.keep(x, mean, deviation)
        return y

    @contextmanager
    def stateless(self) -> Iterator[None]:
        """No state is handed on from what is run inside."""
        before, self._states = self._states, False
        yield
        self._states = before

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """Nothing is kept inside, and forward is run again in the backward pass: recomputation."""
        if self._silent:
            yield
            return
        before = self._forward()
        self._silent = True
        yield
        self._silent = False
        self.add(backward=self._forward() - before)

    def _forward(self) -> Poly:
        part = self._open[-1]
        return sum((each.total.forward for each in part.parts), part.sums.get("forward", ZERO))


def _summed(per_token: Poly, tokens: Poly) -> Poly:
    """sum over t = 1..tokens of a polynomial of degree 2 or less in t."""
    sums = (tokens, tokens * (tokens + 1) / 2, tokens * (tokens + 1) * (2 * tokens + 1) / 6)
    return sum((per_token.coefficient("t", power) * total for power, total in enumerate(sums)), ZERO)


def _last(size: Poly, tokens: Poly) -> Poly:
    return sum((size.coefficient("t", power) * tokens**power for power in range(size.degree("t") + 1)), ZERO)
