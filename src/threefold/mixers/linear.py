"""Linear attention: projections and heads around ops.linear."""

from __future__ import annotations

import warnings

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from threefold.kernels import linear as native
from threefold.mixers.attention import Heads
from threefold.mixers.base import CausalMixer, Mixer
from threefold.ops import linear
from threefold.ops.features import lifted
from threefold.ops.linear import LinearState
from threefold.ops.place import positions
from threefold.ops.scan import accumulator, cleared
from threefold.specs.attention import Linear
from threefold.specs.base import Form
from threefold.specs.features import Elu1, FeatureMap, Identity, Sign
from threefold.specs.positions import Decay, Rotary

linear.accelerate(native.ACCELERATOR)
FORMS = {Form.STEP: linear.step, Form.CHUNKED: linear.chunked, Form.PARALLEL: linear.parallel}


class NormaliserWarning(RuntimeWarning):
    """A signed feature map gave a normaliser that is not positive: those outputs are not averages of values."""


def report(spec: Linear, before: Int[Tensor, " b"], after: Int[Tensor, " b"]) -> None:
    """Warn of new outputs with a normaliser <= 0. The counts themselves stay in the state, whatever the map."""
    if not spec.normalised or spec.features.sign is not Sign.SIGNED or torch.compiler.is_compiling():
        return
    if count := int((after - before).sum()):
        warnings.warn(
            f"{spec.features!r} gave {count} normalisers that are not positive, so those outputs are not averages of "
            "values: use an even Taylor degree, Elu1(), or normalised=False.",
            NormaliserWarning,
            stacklevel=2,
        )


class LinearHeads(Heads):
    """Queries and keys turned before a map of q.k; for any other map, features are turned, in the numerator only."""

    def __init__(self, spec: Linear, width: int, source: int | None = None) -> None:
        super().__init__(spec, width, spec.heads, source)
        self.spec = spec
        self.turn = spec.position.build(self.key_dim) if isinstance(spec.position, Rotary) else None
        self.turns_features = self.turn is not None and not spec.features.of_dot
        self.lifts = spec.normalised and isinstance(spec.features, Elu1)
        self.rates = spec.position.rates(spec.heads) if isinstance(spec.position, Decay) else None

    def queries(self, x: Tensor) -> Tensor:
        q = super().queries(x)
        return lifted(q) if self.lifts else q

    def entering(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v of tokens at these positions."""
        q, k, v = self.queries(x), self.keys(x), self.values(x)
        if self.turn is not None and not self.turns_features:
            q, k = self.turn(q, at), self.turn(k, at)
        return q, k, v

    def feature_sizes(self) -> int:
        return self.spec.features.dim(self.key_dim)


class LinearMixer(CausalMixer[LinearState]):
    """Causal linear attention: a state of fixed size in all three forms."""

    spec: Linear

    def __init__(self, spec: Linear, width: int) -> None:
        super().__init__(spec, width)
        self.heads = LinearHeads(spec, width)

    def init_state(self, batch: int) -> LinearState:
        return linear.empty(
            batch,
            self.spec.heads,
            self.heads.feature_sizes(),
            self.heads.value_dim,
            normalised=self.spec.normalised,
            like=self._zeros(),
        )

    def mix(
        self, x: Float[Tensor, "b t d"], state: LinearState, valid: Bool[Tensor, "b t"] | None, form: Form
    ) -> tuple[Float[Tensor, "b t d"], LinearState]:
        at = positions(state.tokens, x.shape[1], valid)
        q, k, v = self.heads.entering(x, at)
        before = state.nonpositive
        if self.heads.turns_features:
            y, state = self._turned(q, k, v, at, state, valid, form)
        else:
            rates = None
            if self.heads.rates is not None:
                rates = torch.tensor(self.heads.rates, dtype=accumulator(x.dtype), device=x.device)
            y, state = FORMS[form](
                q, k, v, state, features=self.spec.features, valid=valid, rates=rates, chunk=self.spec.chunk
            )
        report(self.spec, before, state.nonpositive)
        return self.heads.joined(y), state

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        dtype, features = x.dtype, self.spec.features
        if self.heads.turns_features:
            dtype, features = accumulator(dtype), Identity()
        given = x.new_empty((), dtype=dtype).expand(*x.shape[:2], self.spec.heads, 1)  # the shape without the numbers
        reason = native.supports(given, given, given, self.init_state(len(x)), features)
        return f"torch; not native: {reason}" if reason else "native"

    def _turned(
        self, q: Tensor, k: Tensor, v: Tensor, at: Tensor, state: LinearState, valid: Tensor | None, form: Form
    ) -> tuple[Tensor, LinearState]:
        """y_m = sum_n (R_m phi(q_m)).(R_n phi(k_n)) v_n / sum_n phi(q_m).phi(k_n): two reads of given features."""
        assert self.heads.turn is not None
        wide = state.memory.dtype
        q, k = self.spec.features.phi(q.to(wide)), self.spec.features.phi(k.to(wide))
        top_state = state._replace(mass=state.mass[..., :0])
        run = FORMS[form]
        top, top_state = run(
            self.heads.turn(q, at),
            self.heads.turn(k, at),
            v.to(wide),
            top_state,
            features=Identity(),
            valid=valid,
            chunk=self.spec.chunk,
        )
        if not self.spec.normalised:
            return top.to(v.dtype), top_state._replace(mass=state.mass)
        mass = linear.LinearState(state.mass[..., None], state.mass[..., :0], state.tokens, state.nonpositive)
        ones = torch.ones_like(v[..., :1], dtype=wide)
        below, mass = run(q, k, ones, mass, features=Identity(), valid=valid, chunk=self.spec.chunk)
        y, bad = linear.divided(top, below, valid, self.spec.features)
        state = top_state._replace(mass=mass.memory[..., 0], nonpositive=state.nonpositive + bad)
        return y.to(v.dtype), state


class LinearEverywhere(Mixer):
    """Linear attention in which every token sees every valid token."""

    spec: Linear

    def __init__(self, spec: Linear, width: int) -> None:
        super().__init__(spec, width)
        self.heads = LinearHeads(spec, width)

    def whole(
        self, x: Float[Tensor, "b t d"], valid: Bool[Tensor, "b t"] | None = None, *, form: Form | None = None
    ) -> Float[Tensor, "b t d"]:
        form = self._asked(x, valid, form)
        x = cleared(x, valid)
        start = torch.zeros(len(x), dtype=torch.long, device=x.device)
        at = positions(start, x.shape[1], valid)
        q, k, v = self.heads.entering(x, at)
        if not self.heads.turns_features:
            y, bad = self._read(q, k, v, self.spec.features, self.spec.normalised, valid, form)
        else:
            y, bad = self._turned(q, k, v, at, valid, form)
        report(self.spec, torch.zeros_like(bad), bad)
        return cleared(self.heads.joined(y), valid)

    def path(self, x: Float[Tensor, "b t d"], *, masked: bool = False) -> str:
        return "torch; not native: when every token sees all, two matrix products are the whole work"

    def _read(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        features: FeatureMap,
        normalised: bool,
        valid: Tensor | None,
        form: Form,
    ) -> tuple[Tensor, Tensor]:
        if form is Form.PARALLEL:
            return linear.everywhere(q, k, v, features=features, normalised=normalised, valid=valid)
        state = linear.remember(k, v, features=features, normalised=normalised, valid=valid)
        y, state = linear.recall(q, state, features=features, valid=valid)
        return y, state.nonpositive

    def _turned(
        self, q: Tensor, k: Tensor, v: Tensor, at: Tensor, valid: Tensor | None, form: Form
    ) -> tuple[Tensor, Tensor]:
        """The rule of LinearMixer: features turned in the numerator only."""
        assert self.heads.turn is not None
        wide = accumulator(v.dtype)
        q, k = self.spec.features.phi(q.to(wide)), self.spec.features.phi(k.to(wide))
        turned = self.heads.turn(q, at), self.heads.turn(k, at)
        top, none = self._read(*turned, v.to(wide), Identity(), False, valid, form)
        if not self.spec.normalised:
            return top.to(v.dtype), none
        below, _ = self._read(q, k, torch.ones_like(v[..., :1], dtype=wide), Identity(), False, valid, form)
        y, bad = linear.divided(top, below, valid, self.spec.features)
        return y.to(v.dtype), bad


def build_linear(spec: Linear, width: int) -> Mixer:
    """The module of a Linear spec."""
    return LinearMixer(spec, width) if spec.causal else LinearEverywhere(spec, width)
