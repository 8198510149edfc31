"""A mixer without a derivation is planned from its counts: right at sizes that were never counted, or refused."""

from dataclasses import dataclass

import pytest

from threefold.cost import B, T
from threefold.errors import InputError
from threefold.laws import LAWS, judge
from threefold.laws.law import Status
from threefold.laws.ours import MixerSubject
from threefold.mixers.recurrent import GRUMixer
from threefold.plan.fitted import fitted
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import Form, MixerSpec, Traits
from threefold.specs.cross import Bidirectional
from threefold.specs.nets import LMSpec, StackSpec
from threefold.specs.recurrent import GRU, LSTM, RNN

SIZES = ({"B": 2, "T": 7}, {"B": 5, "T": 33})


@dataclass(frozen=True)
class Mine(MixerSpec):
    """A spec that derives no plan."""

    @property
    def traits(self) -> Traits:
        return GRU().traits

    def build(self, width: int) -> GRUMixer:
        return GRUMixer(GRU(), width)


@pytest.mark.parametrize(
    ("spec", "form"),
    [
        (RNN(), Form.CHUNKED),
        (LSTM(hidden=5), Form.CHUNKED),
        (LSTM(hidden=5), Form.STEP),
        (Softmax(heads=2), Form.PARALLEL),
        (Bidirectional(GRU()), Form.CHUNKED),
    ],
    ids=repr,
)
def test_counts_give_the_derived_plan(spec: MixerSpec, form: Form) -> None:
    found, derived = fitted(spec, 12, form).total, spec.plan(12, form).total
    for name in ("params", "forward", "backward", "saved", "state"):
        for sizes in SIZES:
            assert getattr(found, name).placed(sizes)() == getattr(derived, name).placed(sizes)(), (name, sizes)


def test_a_spec_without_a_plan_is_counted() -> None:
    plan, derived = Mine().plan(6), GRU().plan(6)
    assert plan.name == "Mine"
    assert plan.note.startswith("counted")
    assert plan.shape == (B, T, 6)
    assert plan.total.forward == derived.total.forward
    assert plan.total.state == 4 * 6 * B


def test_and_the_law_of_accounting_holds_it_against_more_sizes() -> None:
    (verdict,) = judge(MixerSubject(Mine()), [law for law in LAWS if law.name == "accounting"])
    assert verdict.status is Status.LAWFUL


def test_work_in_chunks_follows_no_polynomial() -> None:
    with pytest.raises(InputError, match="Give the spec a `plan` of its own"):
        fitted(Linear(heads=2), 12, Form.CHUNKED)


def test_inside_a_net_it_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be planned inside a net"):
        LMSpec(vocab=8, stack=StackSpec(width=12, mixers=(Mine(),))).plan()
