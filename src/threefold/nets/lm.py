"""Tokens in, logits of the next token out: the language model, and the decoder that reads a memory besides."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from threefold.nets.stack import Stack, StackState
from threefold.specs.base import Form
from threefold.specs.nets import LMSpec, StackSpec


class Embedding(nn.Module):
    """sqrt(D) * table[token] (+ bias): unit variance enters the stack while the tied output stays of unit scale."""

    def __init__(self, vocab: int, width: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, width) / sqrt(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.scale = sqrt(width)

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        x = functional.embedding(tokens, self.weight) * self.scale
        return x if self.bias is None else x + self.bias


class DecoderState(NamedTuple):
    """`at` (B,): how many tokens were read; and the stack's state."""

    at: Tensor
    stack: StackState


class Decoder(nn.Module):
    """Embedding, positions, a causal stack, logits. `stack` may read a memory; `spec` says all the rest."""

    def __init__(self, spec: LMSpec, stack: StackSpec) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = Embedding(spec.vocab, stack.width, spec.embedding_bias)
        self.position = spec.position.build(stack.width) if spec.position else None
        self.stack = Stack(stack)
        self.output = None if spec.tied else nn.Linear(stack.width, spec.vocab, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(spec.vocab)) if spec.output_bias else None

    def init_state(
        self,
        batch: int,
        memory: Float[Tensor, "b s d"] | None = None,
        memory_valid: Bool[Tensor, "b s"] | None = None,
    ) -> DecoderState:
        """The state before the first token."""
        at = torch.zeros(batch, dtype=torch.long, device=self.embedding.weight.device)
        return DecoderState(at, self.stack.init_state(batch, memory, memory_valid))

    def scan(
        self,
        tokens: Int[Tensor, "b t"],
        state: DecoderState,
        *,
        valid: Bool[Tensor, "b t"] | None = None,
        form: Form | None = None,
    ) -> tuple[Float[Tensor, "b t v"], DecoderState]:
        """Continue from `state`: any split of T gives the same result."""
        x, at = place(self.embedding, self.position, tokens, state.at, valid)
        x, stack = self.stack.scan(x, state.stack, valid=valid, form=form)
        return self._logits(x), DecoderState(at, stack)

    def step(
        self, token: Int[Tensor, " b"], state: DecoderState, valid: Bool[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b v"], DecoderState]:
        """One token, at the cost of one token: the prefix is in the state."""
        mask = None if valid is None else valid[:, None]
        logits, state = self.scan(token[:, None], state, valid=mask, form=Form.STEP)
        return logits[:, 0], state

    def _logits(self, x: Tensor) -> Tensor:
        weight = self.embedding.weight if self.output is None else self.output.weight
        return functional.linear(x, weight, self.output_bias)


class LM(Decoder):
    """A language model: `forward` on whole sequences, `scan` and `step` from a state."""

    def __init__(self, spec: LMSpec) -> None:
        super().__init__(spec, spec.stack)

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        valid: Bool[Tensor, "b t"] | None = None,
        *,
        form: Form | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each."""
        return self.scan(tokens, self.init_state(len(tokens)), valid=valid, form=form)[0]


def place(
    embedding: nn.Module,
    position: nn.Module | None,
    tokens: Int[Tensor, "b t *j"],
    at: Int[Tensor, " b"],
    valid: Bool[Tensor, "b t"] | None,
) -> tuple[Float[Tensor, "b t d"], Int[Tensor, " b"]]:
    """Embedded tokens with their positions added, and the next position: only valid tokens are counted."""
    if valid is not None:
        tokens = tokens.masked_fill(~valid.reshape(valid.shape + (1,) * (tokens.ndim - 2)), 0)
    x = embedding(tokens)
    return positioned(x, position, at, valid)


def positioned(
    x: Float[Tensor, "b t d"],
    position: nn.Module | None,
    at: Int[Tensor, " b"],
    valid: Bool[Tensor, "b t"] | None,
) -> tuple[Float[Tensor, "b t d"], Int[Tensor, " b"]]:
    """x with positions at, at + 1, ... of its valid tokens added, and the position after them."""
    if valid is None:
        places = at[:, None] + torch.arange(x.shape[1], device=x.device)
        after = at + x.shape[1]
    else:
        counts = valid.long().cumsum(1)
        places = (at[:, None] + counts - 1).clamp_min(0)
        after = at + valid.sum(1)
    return (x if position is None else position(x, places)), after
