"""Writing tokens with any net that has `step`: greedy, beam search, sampling. A prefix is never read twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from threefold.errors import require
from threefold.ops.scan import map_state

S = TypeVar("S", bound=tuple)
Step = Callable[[Tensor, S], tuple[Tensor, S]]


class Hypothesis(NamedTuple):
    """A finished beam: its tokens without start and stop, and its length-normalised log-probability."""

    tokens: list[int]
    score: float


class Taste(NamedTuple):
    """How `sample` draws: logits / temperature, of the `top_k` likeliest, of the fewest that hold a mass of `top_p`."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0


@torch.no_grad()
def greedy(step: Step[S], state: S, first: Int[Tensor, " b"], *, stop: int | None, limit: int) -> list[list[int]]:
    """The likeliest token, again and again, until `stop` or `limit` tokens."""
    return _write(step, state, first, stop, limit, lambda logits: logits.argmax(-1))


@torch.no_grad()
def sample(
    step: Step[S],
    state: S,
    first: Int[Tensor, " b"],
    *,
    stop: int | None,
    limit: int,
    taste: Taste = Taste(),  # noqa: B008
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Tokens drawn from the model's own distribution, as `taste` narrows it."""
    require(taste.temperature > 0, f"temperature {taste.temperature}: give more than 0, or use greedy.")
    require(0 < taste.top_p <= 1, f"top_p {taste.top_p}: give a share in (0, 1].")
    require(taste.top_k is None or taste.top_k >= 1, f"top_k {taste.top_k}: give at least 1.")

    def draw(logits: Tensor) -> Tensor:
        return torch.multinomial(_narrowed(logits, taste).softmax(-1), 1, generator=generator)[:, 0]

    return _write(step, state, first, stop, limit, draw)


def _write(
    step: Step[S], state: S, token: Tensor, stop: int | None, limit: int, choose: Callable[[Tensor], Tensor]
) -> list[list[int]]:
    written: list[list[int]] = [[] for _ in token]
    open_rows = torch.ones(len(token), dtype=torch.bool)
    for _ in range(limit):
        logits, state = step(token, state)
        token = choose(logits)
        if stop is not None:
            open_rows &= (token != stop).cpu()
        if not open_rows.any():
            break
        for row in open_rows.nonzero()[:, 0].tolist():
            written[row].append(int(token[row]))
    return written


def _narrowed(logits: Float[Tensor, "b v"], taste: Taste) -> Float[Tensor, "b v"]:
    logits = logits / taste.temperature
    if taste.top_k is not None and taste.top_k < logits.shape[-1]:
        least = logits.topk(taste.top_k, -1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if taste.top_p < 1:
        ordered, places = logits.sort(-1, descending=True)
        share = ordered.softmax(-1)
        past = share.cumsum(-1) - share >= taste.top_p
        logits = torch.empty_like(logits).scatter(-1, places, ordered.masked_fill(past, -torch.inf))
    return logits


@torch.no_grad()
def beam(
    step: Step[S],
    state: S,
    first: Int[Tensor, " b"],
    *,
    stop: int,
    limit: int,
    beams: int = 4,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """For each row its finished hypotheses, best first, by log p / ((5 + length) / 6)^length_penalty (Wu et al. 2016).

    With one beam it writes what `greedy` writes. `length` counts the stop; a beam that meets `limit` ends there.
    """
    require(beams >= 1, f"beams={beams}: give at least 1.")
    rows = len(first)
    device = first.device
    state = map_state(lambda leaf: leaf.repeat_interleave(beams, 0), state)
    token = first.repeat_interleave(beams, 0)
    scores = torch.full((rows, beams), -torch.inf, device=device)
    scores[:, 0] = 0.0
    prefixes: list[list[list[int]]] = [[[] for _ in range(beams)] for _ in range(rows)]
    done: list[list[Hypothesis]] = [[] for _ in range(rows)]
    for length in range(1, limit + 1):
        logits, state = step(token, state)
        totals = scores[..., None] + logits.log_softmax(-1).float().unflatten(0, (rows, beams))
        vocab = totals.shape[-1]
        best, places = totals.flatten(1).topk(min(2 * beams, totals[0].numel()), -1)
        scores, chosen = _advance(best, places, vocab, stop, beams)
        norm = ((5 + length) / 6) ** length_penalty
        _collect(done, prefixes, best, places, vocab, stop, norm, beams)
        parents, tokens = chosen // vocab, chosen % vocab
        prefixes = [
            [[*prefixes[r][int(p)], int(t)] for p, t in zip(parents[r], tokens[r], strict=True)] for r in range(rows)
        ]
        select = (parents + torch.arange(rows, device=device)[:, None] * beams).flatten()
        state = map_state(partial(torch.Tensor.index_select, dim=0, index=select), state)
        token = tokens.flatten()
        if all(len(found) >= beams for found in done):
            break
    return [_finish(done[r], prefixes[r], scores[r], limit, length_penalty, beams) for r in range(rows)]


def _advance(best: Tensor, places: Tensor, vocab: int, stop: int, beams: int) -> tuple[Tensor, Tensor]:
    """The `beams` best continuations that do not stop: their scores and places."""
    running = best.masked_fill(places % vocab == stop, -torch.inf)
    scores, kept = running.topk(beams, -1) if running.shape[-1] >= beams else running.sort(-1, descending=True)
    return scores, places.gather(-1, kept)


def _collect(
    done: list[list[Hypothesis]],
    prefixes: list[list[list[int]]],
    best: Tensor,
    places: Tensor,
    vocab: int,
    stop: int,
    norm: float,
    beams: int,
) -> None:
    """Stops among the `beams` best candidates become hypotheses."""
    for r, found in enumerate(done):
        for score, place in zip(best[r, :beams].tolist(), places[r, :beams].tolist(), strict=True):
            if place % vocab == stop and len(found) < beams and score > -torch.inf:
                found.append(Hypothesis(prefixes[r][place // vocab], score / norm))


def _finish(
    found: list[Hypothesis], prefixes: list[list[int]], scores: Tensor, limit: int, penalty: float, beams: int
) -> list[Hypothesis]:
    """A row's hypotheses; beams that met the limit count only where too few stopped by themselves."""
    if len(found) < beams:
        norm = ((5 + limit) / 6) ** penalty
        open_beams = [(p, s) for p, s in zip(prefixes, scores.tolist(), strict=True) if s > -torch.inf]
        found = found + [Hypothesis(p, s / norm) for p, s in open_beams[: beams - len(found)]]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
