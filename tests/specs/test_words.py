"""One place where a typed word becomes a spec: everything a spec prints can be read back."""

import pytest

from threefold.errors import InputError
from threefold.specs.attention import Linear, Softmax
from threefold.specs.base import MixerSpec
from threefold.specs.cross import Bidirectional
from threefold.specs.features import Elu1, FeatureMap, Taylor
from threefold.specs.positions import Alibi, Layout, Learned, Position, Rotary
from threefold.specs.recurrent import GRU, LSTM, RNN, Activation, Reset
from threefold.specs.words import read, say, words

MEANS = {
    "lstm": LSTM(),
    "GRU": GRU(),
    "softmax": Softmax(),
    "linear": Linear(),
    "elu1": Linear(features=Elu1()),
    "taylor2": Linear(features=Taylor(2)),
    "taylor3": Linear(features=Taylor(3, odd=True)),
    "bilstm": Bidirectional(LSTM()),
    "bitaylor4": Bidirectional(Linear(features=Taylor(4))),
    "LSTM(hidden=64)": LSTM(hidden=64),
    "LSTM(64)": LSTM(hidden=64),
    "Softmax(heads=2, position=rotary)": Softmax(heads=2, position=Rotary()),
    "Softmax(heads=2, position=Rotary(base=100.0, layout='halves'))": Softmax(
        heads=2, position=Rotary(base=100.0, layout=Layout.HALVES)
    ),
    "RNN(activation=Activation.IDENTITY)": RNN(activation=Activation.IDENTITY),
    "Linear(features=taylor2, causal=False)": Linear(features=Taylor(2), causal=False),
    "Bidirectional(mixer=gru)": Bidirectional(GRU()),
}


@pytest.mark.parametrize("text", MEANS)
def test_words_and_expressions(text: str) -> None:
    assert read(text, MixerSpec) == MEANS[text]


@pytest.mark.parametrize("spec", [*MEANS.values(), GRU(reset=Reset.BEFORE), Softmax(position=Alibi())], ids=repr)
def test_what_a_spec_prints_is_read_back(spec: MixerSpec) -> None:
    assert read(repr(spec), MixerSpec) == spec
    assert read(spec.to_json(), MixerSpec) == spec
    assert read(say(spec), MixerSpec) == spec


def test_the_shortest_words_are_said() -> None:
    assert [say(spec) for spec in (LSTM(), Linear(features=Taylor(2)), Bidirectional(GRU()))] == [
        "lstm",
        "taylor2",
        "bigru",
    ]
    assert say(Softmax(heads=2, position=Rotary())) == "Softmax(heads=2, position=rotary)"
    assert say(Taylor(4)) == "Taylor(degree=4)"


def test_other_kinds() -> None:
    assert read("alibi", Position) == Alibi()
    assert read("Learned(length=9)", Position) == Learned(9)
    assert read("taylor2", FeatureMap) == Taylor(2)
    assert all(isinstance(read(word, MixerSpec), MixerSpec) for word in words(MixerSpec))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("grru", "did you mean 'gru'"),
        ("alibi", "no mixer 'alibi'. Known: "),
        ("Alibi()", "not a MixerSpec"),
        ("Rotari()", "Known:"),
        ("LSTM(hiden=3)", "did you mean 'hidden'"),
        ("LSTM(hidden=", "as Python prints it"),
        ("LSTM(hidden=open('x'))", "is not a Spec"),
        ("LSTM(hidden=1+1)", "neither a number"),
        ("RNN(activation='tan')", "'tanh', 'identity'"),
        ("Bidirectional()", "needs mixer"),
        ("bidirectional", "write Bidirectional(mixer=...)"),
        ("LSTM(1, True, 2, 3, 4, 5)", "at most"),
        ("{bad", "is not JSON"),
        ("Taylor(2)", "not a MixerSpec"),
    ],
)
def test_wrong_words_get_a_sentence(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, MixerSpec)
    assert says in str(caught.value)
