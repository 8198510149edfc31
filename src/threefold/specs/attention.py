"""Attention mixers as declarations: softmax over a cache, or a feature map over a state of fixed size."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threefold.errors import require
from threefold.specs.base import Form, MixerSpec, Site, Traits
from threefold.specs.features import Elu1, FeatureMap
from threefold.specs.positions import Position

if TYPE_CHECKING:
    from threefold.mixers.base import Mixer


@dataclass(frozen=True)
class Attention(MixerSpec, ABC):
    """Shared by softmax and linear attention: H heads of queries and keys (K wide) and values (V wide).

    `key_dim` and `value_dim` are per head and independent of the width; None divides the width among the heads.
    """

    heads: int = 8
    key_dim: int | None = None
    value_dim: int | None = None
    causal: bool = True
    bias: bool = False
    position: Position | None = None
    chunk: int = 64

    def __post_init__(self) -> None:
        name = type(self).__name__
        require(self.heads >= 1, f"{name}(heads={self.heads}): give at least 1.")
        require(self.chunk >= 1, f"{name}(chunk={self.chunk}): give at least 1.")
        for field in ("key_dim", "value_dim"):
            size = getattr(self, field)
            require(size is None or size >= 1, f"{name}({field}={size}): give at least 1, or None for width / heads.")
        if self.position is not None:
            self._accept(self.position)

    def _accept(self, position: Position) -> None:
        """Refuse a position that this mixer cannot honour, with a sentence that says why and what to use instead."""
        sites = ", ".join(sorted(site.value for site in self.traits.accepts))
        require(
            position.site in self.traits.accepts,
            f"{type(self).__name__} cannot take {position!r}: it enters at {position.site.value}, "
            f"and this mixer takes positions at {sites}. Input positions belong to the net.",
        )

    def key_size(self, width: int) -> int:
        """K."""
        return self.key_dim or self._share(width, "key_dim")

    def value_size(self, width: int) -> int:
        """V."""
        return self.value_dim or self._share(width, "value_dim")

    def _share(self, width: int, field: str) -> int:
        require(
            width % self.heads == 0,
            f"width {width} does not divide among {self.heads} heads: give {field} or change the heads.",
        )
        return width // self.heads


@dataclass(frozen=True)
class Softmax(Attention):
    """y_i = sum_j softmax_j(q_i.k_j / sqrt(K) + bias_ij) v_j. With `kv_heads` G < H, H/G heads share keys."""

    kv_heads: int | None = None
    qk_norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.kv_heads is None or (self.kv_heads >= 1 and self.heads % self.kv_heads == 0),
            f"Softmax(heads={self.heads}, kv_heads={self.kv_heads}): heads must be a multiple of kv_heads.",
        )

    @property
    def groups(self) -> int:
        """G, the number of key/value heads."""
        return self.kv_heads or self.heads

    @property
    def traits(self) -> Traits:
        forms = (Form.PARALLEL, Form.CHUNKED, Form.STEP) if self.causal else (Form.PARALLEL, Form.CHUNKED)
        return Traits(
            causal=self.causal,
            bounded_state=False,
            forms=forms,
            accepts=frozenset({Site.HEADS, Site.SCORES}),
            permutes=not self.causal and self.position is None,
        )

    def build(self, width: int) -> Mixer:
        from threefold.mixers.attention import build_softmax

        return build_softmax(self, width)


@dataclass(frozen=True)
class Linear(Attention):
    """y_i = sum_j phi(q_i).phi(k_j) v_j [/ sum_j phi(q_i).phi(k_j)], by a state sum_j phi(k_j) v_j^T.

    Rotary with a map whose kernel is a function of q.k (Taylor, Identity) turns q and k before the map: exactly
    relative, and still positive. With any other map it follows the published rule: phi(q), phi(k) are turned in the
    numerator only.
    """

    features: FeatureMap = Elu1()
    normalised: bool = True

    @property
    def traits(self) -> Traits:
        forms = (Form.CHUNKED, Form.PARALLEL, Form.STEP) if self.causal else (Form.CHUNKED, Form.PARALLEL)
        sites = {Site.HEADS, Site.DECAY} if self.causal else {Site.HEADS}
        return Traits(
            causal=self.causal,
            bounded_state=True,
            forms=forms,
            accepts=frozenset(sites),
            permutes=not self.causal and self.position is None,
        )

    def _accept(self, position: Position) -> None:
        require(
            position.site is not Site.SCORES,
            f"Linear cannot take {position!r}: a term added to each score needs the T x T scores, which a linear mixer "
            "never forms. Use Decay() (ALiBi's exact linear counterpart, causal only) or Rotary().",
        )
        super()._accept(position)

    def build(self, width: int) -> Mixer:
        from threefold.mixers.linear import build_linear

        return build_linear(self, width)
