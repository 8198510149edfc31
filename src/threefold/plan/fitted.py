"""The plan of a mixer that derives none: the polynomials through its counts at small sizes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch

from threefold.cost import ZERO, B, Cost, Most, Plan, Poly, T
from threefold.errors import require
from threefold.mixers.base import CausalMixer, Mixer
from threefold.plan.check import Formed
from threefold.plan.conventions import Conventions
from threefold.plan.count import state_bytes
from threefold.plan.interpolate import laws
from threefold.plan.own import Input, Own, planned
from threefold.specs.base import Form, MixerSpec

HELD = {"B": 3, "T": 16}  # sizes at which the polynomials must foretell the counts once more


def fitted(spec: MixerSpec, width: int, form: Form | None = None, conventions: Conventions | None = None) -> Plan:
    """What the module of `spec` was counted to cost in one form, for every B and T.

    A spec that derives its own `plan` has two witnesses, the derivation and the count; this plan has the count alone.
    """
    form = form or spec.traits.forms[0]
    name = type(spec).__name__
    conventions = conventions or Conventions()
    dtype = getattr(torch, conventions.dtype.value)
    module = spec.build(width).to(dtype)
    counted = Own(name, Formed(copy.deepcopy(module).to("meta"), form), (Input(("B", "T", width)),), conventions)
    found = planned(counted, HELD)
    peaked = "temporary" in found.lost  # the largest of several tensors, in turns
    lost = ", ".join(each for each in found.unknown or found.lost if each != "temporary")
    require(
        not lost and found.laws.every == 1,
        f"{spec!r} cannot be planned from counts in its {form.value} form: {lost or 'its cost'} follows no polynomial "
        "in B and T. Give the spec a `plan` of its own.",
    )
    (inside,) = found.plan.parts
    own = found.plan.own + inside.own + Cost(state=_state(module, dtype))
    if peaked:
        own = replace(own, temporary=Most())
    note = "counted, without the largest tensor made on the way" if peaked else "counted"
    return replace(inside, name=name, own=own, shape=(B, T, width), note=note)


def _state(module: Mixer, dtype: torch.dtype) -> Poly:
    """Bytes of the state after T tokens; a mixer that reads everything keeps none."""
    if not isinstance(module, CausalMixer):
        return ZERO

    def counts(sizes: Mapping[str, int]) -> dict[str, int]:
        x = torch.zeros(sizes["B"], sizes["T"], module.width, dtype=dtype)
        with torch.no_grad():
            return {"state": state_bytes(module.scan(x, module.init_state(len(x)))[1])}

    return laws(counts, ("B", "T")).of["state"]
