"""Break the library on purpose: the claims that stand on the broken formula must move."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from threefold.claims import SUBJECTS, find
from threefold.claims.claim import Outcome
from threefold.claims.judge import judge

Broken = Callable[..., Any]


def scaled(original: Broken, factor: float) -> Broken:
    """The same function, its tensor result a little too large."""
    return lambda *args, **kwargs: original(*args, **kwargs) * factor


def moved(id: str) -> Outcome:
    """The verdict of a claim, which must not be the recorded one."""
    (judged,) = judge([find(id)])
    assert judged.moved, f"{id} did not notice"
    return judged.verdict.outcome


def test_lstm_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops.lstm import LSTMCell

    original = LSTMCell.local
    monkeypatch.setattr(LSTMCell, "local", lambda *a: (s := original(*a)) | {"dgamma_f": s["dc"] * s["dGamma_f"]})
    for id in ("C1", "000-1.4-dgf", "003-1.3-dx", "003-1.3-dcprev", "000-1.4-miss", "003-1.3-dgf"):
        moved(id)


def test_lstm_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import recurrence

    original = recurrence.sequence

    def no_forgetting(cell: Any, x: Any, state: Any, *rest: Any) -> Any:
        states, last = original(cell, x, state, *rest)
        return tuple(part * 0.9 for part in states), last

    monkeypatch.setattr(recurrence, "sequence", no_forgetting)
    for id in ("000-1.3-c", "003-1.3-c/a/z", "002-1-fin"):
        moved(id)


def test_gru_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops.gru import ResetBefore

    monkeypatch.setattr(ResetBefore, "gates", ("r", "u", "c", "extra"))
    assert moved("000-1.1-eff") is not Outcome.CONDITIONAL


def test_comparator(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import recurrence

    original = recurrence.sequence

    def bent(*args: Any) -> Any:
        states, last = original(*args)
        return tuple(torch.tanh(part) for part in states), last

    monkeypatch.setattr(recurrence, "sequence", bent)
    moved("002-1-fin")


def test_softmax_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import softmax

    original = softmax.everywhere
    monkeypatch.setattr(softmax, "everywhere", lambda *a, **k: (y := original(*a, **k)) + 0.01 * y * y)
    for id in (
        "000-3.1-id",
        "003-3.1-w",
        "003-3.3",
        "002-2b-W",
        "002-2b-y",
        "C18",
        "003-5.1-map",
        "003-5.3-share",
        "C9",
    ):
        moved(id)


def test_softmax_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import softmax

    original = softmax.everywhere
    monkeypatch.setattr(softmax, "everywhere", lambda q, *rest, **named: original(q * 1.1, *rest, **named))
    for id in ("003-3.1-w", "002-2b-W", "000-5.1-A"):
        moved(id)


def test_causal_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import softmax

    def leaking(q: Any, k: Any, v: Any, state: Any, **named: Any) -> Any:
        memory = softmax.Memory(k.transpose(1, 2), v.transpose(1, 2), None)
        return softmax.everywhere(q, memory), state

    monkeypatch.setattr(softmax, "parallel", leaking)
    for id in ("C10", "003-5.4-noPE", "003-4.5-q"):
        moved(id)


def test_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    import threefold.positions as positions

    original = positions.rotate
    monkeypatch.setattr(positions, "rotate", lambda x, at, base, layout: original(x, at * at, base, layout))
    for id in ("000-4.2-cat", "000-4.4-rot", "000-4.1-rel", "003-4.2-flex"):
        moved(id)


def test_sinusoids(monkeypatch: pytest.MonkeyPatch) -> None:
    import threefold.positions as positions

    original = positions.sinusoids
    monkeypatch.setattr(positions, "sinusoids", lambda at, width, base: original(at, width, 1000.0))
    assert moved("000-4.4-sin") is not Outcome.TRUE
    moved("003-4.1-abs-long")


def test_alibi(monkeypatch: pytest.MonkeyPatch) -> None:
    import threefold.positions as positions

    monkeypatch.setattr(positions, "alibi", scaled(positions.alibi, 0.5))
    for id in ("003-4.5-bias", "000-4.5-pen", "000-4.5-mat"):
        moved(id)


def test_taylor_features(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import features

    monkeypatch.setattr(features, "weights", lambda key_dim, degree: (1.0,) * _count(key_dim, degree))
    for id in ("004-1.2-φ", "C13", "004-1.2-mult", "004-1.2-MK", "004-1.3-Φ"):
        moved(id)


def _count(key_dim: int, degree: int) -> int:
    from math import comb

    return comb(key_dim + degree - 1, degree)


def test_series(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import features

    monkeypatch.setattr(features, "exp_series", lambda s, degree: 1 + s + s**degree)
    for id in ("004-1.2-mac", "004-1.3-inv", "001-1.3"):
        moved(id)


def test_taylor_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.specs.features import Taylor

    monkeypatch.setattr(Taylor, "dim", lambda self, key_dim: key_dim**self.degree)
    for id in ("C14", "004-1.2-M2", "001-1.2-dim"):
        moved(id)


def test_linear_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import linear

    original = linear.recall
    monkeypatch.setattr(linear, "recall", lambda *a, **k: ((y := original(*a, **k))[0] * 1.01, y[1]))
    for id in ("002-3-drop", "004-1.3-Φ"):
        moved(id)


def test_transformer_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import nn

    from threefold.mixers import attention

    class Biasless(nn.Linear):
        def __init__(self, width: int, rows: int, bias: bool = True) -> None:
            super().__init__(width, rows, False)

    monkeypatch.setattr(attention.nn, "Linear", Biasless)
    for id in ("C5", "000-2.2-mha", "003-2.2-enc"):
        moved(id)


def test_transformer_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.claims.counting import model

    whole = model.transformer
    monkeypatch.setattr(model, "transformer", lambda depth: whole(head_dim=64, depth=depth))
    for id in ("003-2.1-*", "C6"):
        moved(id)


def test_cnn(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.specs.vision import CNNSpec

    monkeypatch.setattr(CNNSpec, "flat", property(lambda self: 400))
    for id in ("C16", "001-2.3-mp", "004-2.3-n"):
        moved(id)


def test_pooling(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.nets import cnn

    monkeypatch.setattr(cnn.functional, "max_pool2d", lambda x, size: x[..., ::size, ::size])
    assert moved("004-2.3-feat") is Outcome.FALSE


def test_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.train import metrics

    monkeypatch.setattr(metrics, "_common", lambda a, b: len(set(a) & set(b)))
    for id in ("001-3.4-jac", "001-3.4-cos", "001-3.4-close"):
        moved(id)


def test_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    from rapidfuzz.distance import Levenshtein

    from threefold.train import metrics

    monkeypatch.setattr(metrics, "edits", lambda a, b: Levenshtein.distance(a, b))
    assert moved("001-3.4-dl") is not Outcome.CONDITIONAL


def test_classification(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.train.metrics import Classification

    monkeypatch.setattr(Classification, "accuracy", property(lambda self: 0.5))
    assert moved("000-1.1-prf") is Outcome.UNDECIDED


def test_evidence_that_stops_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from threefold.ops import softmax

    def stop(*args: Any, **named: Any) -> Any:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(softmax, "everywhere", stop)
    (judged,) = judge([find("C18")])
    assert judged.moved
    assert judged.verdict.outcome is Outcome.UNDECIDED
    assert "RuntimeError: broken on purpose" in judged.verdict.limits


def test_each_subject_was_broken_somewhere_above() -> None:
    """Experiments read records, not formulas: other records change their verdicts in tests of their own."""
    ids = re.findall(r'"((?:\d{3}-|C\d)[^"\s]*)"', Path(__file__).read_text(encoding="utf-8"))
    assert {find(id).subject for id in ids} == set(SUBJECTS) - {"experiments"}
