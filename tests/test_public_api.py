"""The public names are these, each importable, and nothing else happens on import."""

import subprocess
import sys

import pytest

import threefold

NAMES = {
    *("RNN", "LSTM", "GRU", "Softmax", "Linear", "CrossAttention", "Bidirectional"),
    *("Elu1", "Relu", "Identity", "Taylor"),
    *("Sinusoidal", "Learned", "Rotary", "Alibi", "Relative", "Shaw", "Decay"),
    *("CATALOG", "LAWS", "judge", "Form", "InputError", "load"),
}


def test_the_names_are_these() -> None:
    mixers = {type(spec).__name__ for spec in threefold.CATALOG}
    assert set(threefold.__all__) == NAMES | mixers
    assert len(set(threefold.__all__)) == len(threefold.__all__)
    for name in threefold.__all__:
        assert getattr(threefold, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Lstm'"):
        _ = threefold.Lstm


def test_a_declaration_needs_no_torch() -> None:
    code = (
        "import sys; from threefold import Linear, Rotary, Taylor;"
        "print(Linear(heads=8, key_dim=16, value_dim=64, features=Taylor(2), position=Rotary()));"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_published_example() -> None:
    from threefold import Linear, Rotary, Taylor

    mixer = Linear(heads=8, key_dim=16, value_dim=64, features=Taylor(2), position=Rotary()).build(512)
    assert (mixer.width, sum(p.numel() for p in mixer.parameters())) == (512, 2 * 512 * 128 + 2 * 512 * 512)
