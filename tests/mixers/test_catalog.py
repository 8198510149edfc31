"""The catalogue is complete, its pairs follow from traits, and its entries print and return from JSON."""

from collections.abc import Callable

import pytest

from threefold.errors import InputError
from threefold.mixers.catalog import CATALOG, MIXERS, PAIRED, POSITIONS, WIDTH, paired
from threefold.specs.attention import Attention, Linear, Softmax
from threefold.specs.base import MixerSpec, Site
from threefold.specs.cross import Bidirectional
from threefold.specs.features import FeatureMap
from threefold.specs.positions import Learned, Position, Relative, Rotary, Shaw, Sinusoidal
from threefold.specs.recurrent import GRU, LSTM


def descendants(kind: type) -> set[type]:
    """The library's own concrete classes below this one, other tests' subclasses left out."""
    ours = [sub for sub in kind.__subclasses__() if sub.__module__.startswith("threefold.")]
    below = {each for sub in ours for each in descendants(sub)}
    return below or (set() if getattr(kind, "__abstractmethods__", None) else {kind})


def test_every_spec_has_an_entry() -> None:
    specs = {type(spec) for spec in CATALOG}
    assert specs == descendants(MixerSpec)
    assert {type(s.features) for s in CATALOG if isinstance(s, Linear)} == descendants(FeatureMap)
    assert {type(p) for p in POSITIONS} == descendants(Position)


def test_no_entry_twice_and_each_returns_from_json() -> None:
    assert len(set(CATALOG)) == len(CATALOG)
    for spec in CATALOG:
        assert MixerSpec.from_json(spec.to_json()) == spec
        assert eval(repr(spec).split("(")[0], {}, {type(spec).__name__: type(spec)}) is type(spec)


@pytest.mark.parametrize("spec", PAIRED, ids=repr)
def test_pairs_are_those_that_the_constructor_accepts(spec: Attention) -> None:
    accepted = []
    for position in POSITIONS:
        try:
            accepted.append(type(spec)(**{**_fields(spec), "position": position}))
        except InputError as refusal:
            assert "position" in str(refusal) or "score" in str(refusal)
            assert position.site not in spec.traits.accepts
    assert paired(spec) == (spec, *accepted)
    assert Site.INPUT not in spec.traits.accepts, "input positions belong to the net"


def _fields(spec: Attention) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


def test_the_width_suits_every_entry() -> None:
    for spec in (*MIXERS, *PAIRED):
        mixer = spec.build(WIDTH)
        assert mixer.spec == spec and repr(spec) in repr(mixer)
    assert any(isinstance(s, Bidirectional) for s in CATALOG) and any(isinstance(s, Softmax) for s in CATALOG)


@pytest.mark.parametrize(
    ("smallest", "below"),
    [
        (lambda: Shaw(1), lambda: Shaw(0)),
        (lambda: Learned(1), lambda: Learned(0)),
        (lambda: Rotary(base=1e-9), lambda: Rotary(base=0)),
        (lambda: Sinusoidal(base=1e-9), lambda: Sinusoidal(base=-1)),
        (lambda: LSTM(hidden=1), lambda: LSTM(hidden=0)),
        (lambda: Softmax(heads=1), lambda: Softmax(heads=0)),
        (lambda: Softmax(heads=1, chunk=1), lambda: Softmax(heads=1, chunk=0)),
        (lambda: Linear(heads=1, key_dim=1), lambda: Linear(heads=1, key_dim=0)),
        (lambda: Softmax(heads=2, kv_heads=1), lambda: Softmax(heads=2, kv_heads=0)),
        (lambda: Relative(buckets=4, max_distance=3), lambda: Relative(buckets=4, max_distance=1)),
        (lambda: GRU().build(1), lambda: GRU().build(0)),
    ],
)
def test_the_smallest_is_accepted_and_less_is_refused(smallest: Callable, below: Callable) -> None:
    assert smallest() is not None
    with pytest.raises(InputError):
        below()
