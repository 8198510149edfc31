"""The encoder-decoder: a source is read once, a target is written token by token while looking at it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from threefold.nets.lm import Decoder, DecoderState, Embedding, place
from threefold.nets.stack import Stack
from threefold.specs.base import Form
from threefold.specs.nets import Seq2SeqSpec, Tying


class Seq2Seq(nn.Module):
    """`encode` and `init_state` once, then `step`; `forward` does both on whole sequences."""

    def __init__(self, spec: Seq2SeqSpec) -> None:
        super().__init__()
        self.spec = spec
        own = spec.tying is not Tying.THREE
        self.source = Embedding(spec.vocab, spec.encoder.width, spec.embedding_bias) if own else None
        self.position = spec.position.build(spec.encoder.width) if spec.position else None
        self.encoder = Stack(spec.encoder)
        self.decoder = Decoder(spec.target, spec.decoder)

    def encode(self, source: Int[Tensor, "b s"], valid: Bool[Tensor, "b s"] | None = None) -> Float[Tensor, "b s d"]:
        """The memory of a source."""
        table = self.decoder.embedding if self.source is None else self.source
        at = torch.zeros(len(source), dtype=torch.long, device=source.device)
        x, _ = place(table, self.position, source, at, valid)
        return self.encoder(x, valid)

    def init_state(self, source: Int[Tensor, "b s"], valid: Bool[Tensor, "b s"] | None = None) -> DecoderState:
        """The decoder's state before its first token, holding what each layer keeps of the source."""
        return self.decoder.init_state(len(source), self.encode(source, valid), valid)

    def step(self, token: Int[Tensor, " b"], state: DecoderState) -> tuple[Float[Tensor, "b v"], DecoderState]:
        """One target token."""
        return self.decoder.step(token, state)

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_valid: Bool[Tensor, "b s"] | None = None,
        target_valid: Bool[Tensor, "b t"] | None = None,
        *,
        form: Form | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each target token."""
        state = self.init_state(source, source_valid)
        return self.decoder.scan(target, state, valid=target_valid, form=form)[0]
