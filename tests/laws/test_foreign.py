"""Modules that nobody here wrote, judged without adapter code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from threefold.errors import InputError
from threefold.laws import IDS, LAWS, Claims, Status, Subject, Verdict, judge
from threefold.laws.target import subject_of

LAWFUL, BROKEN, OUTSIDE, UNRUN = Status.LAWFUL, Status.BROKEN, Status.OUTSIDE, Status.UNRUN


def verdicts(subject: Subject, *names: str) -> dict[str, Verdict]:
    laws = tuple(law for law in LAWS if not names or law.name in names)
    return {verdict.law: verdict for verdict in judge(subject, laws)}


def statuses(found: dict[str, Verdict]) -> dict[Status, set[str]]:
    return {status: {name for name, v in found.items() if v.status is status} for status in Status}


def test_multihead_attention_survives_padding_except_nan() -> None:
    subject = subject_of(lambda: nn.MultiheadAttention(8, 2, batch_first=True), "attention")
    assert "key_padding_mask: True is a padded token" in subject.notes
    assert subject.notes[1:] == (
        "sees the future: judged as not causal",
        "outputs follow a reordering of the tokens: judged as permuting",
    )
    found = verdicts(subject)
    assert statuses(found) == {
        LAWFUL: {"gradient", "batch", "permutation", "stability", "determinism"},
        BROKEN: {"padding"},
        OUTSIDE: {"streaming", "causal", "shift", "features", "accounting", "growth"},
        UNRUN: {"forms"},
    }
    assert "broken for right nan, left nan, scattered nan; holds for" in found["padding"].notes[-1]
    assert all(v.reason for v in found.values() if v.status in (OUTSIDE, UNRUN))
    assert "T^2" in found["growth"].reason


def test_declared_causal_it_is_given_the_mask_and_time_may_come_first() -> None:
    subject = subject_of(lambda: nn.MultiheadAttention(8, 2), "attention", claims=Claims(causal=True))
    assert "batch_first is False: time is the first axis" in subject.notes
    assert "declared causal: attn_mask is given the causal mask" in subject.notes
    found = verdicts(subject, "causal", "batch", "growth")
    assert found["causal"].ok and found["batch"].ok
    assert "counted: FLOPs as T^2" in found["growth"].reason


def test_an_encoder_layer_that_is_said_to_be_linear_is_not() -> None:
    claims = Claims(causal=False, growth=1)
    subject = subject_of(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), "encoder", claims=claims)
    found = verdicts(subject, "gradient", "batch", "permutation", "growth", "determinism")
    assert statuses(found)[LAWFUL] == {"gradient", "batch", "permutation", "determinism"}
    assert found["growth"].broken
    assert found["growth"].where is not None and found["growth"].where.finding.got == 2


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_stream(kind: Callable[..., nn.Module]) -> None:
    subject = subject_of(lambda: kind(5, 5, batch_first=True), kind.__name__, claims=Claims(bounded=True, growth=1))
    assert subject.notes == ("looks causal: judged as causal",)
    found = verdicts(subject)
    assert statuses(found) == {
        LAWFUL: {"gradient", "forms", "streaming", "causal", "batch", "growth", "stability", "determinism"},
        BROKEN: set(),
        OUTSIDE: {"permutation", "features", "accounting"},
        UNRUN: {"padding", "shift"},
    }
    assert "must not be padded" in found["padding"].reason


def test_a_bidirectional_layer_is_not_asked_to_stream() -> None:
    subject = subject_of(lambda: nn.LSTM(4, 4, batch_first=True, bidirectional=True), "both")
    assert "sees the future: judged as not causal" in subject.notes
    found = verdicts(subject, "streaming", "causal", "permutation")
    assert statuses(found) == {LAWFUL: {"permutation"}, BROKEN: set(), OUTSIDE: {"streaming", "causal"}, UNRUN: set()}


@pytest.fixture(scope="module")
def x_transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it scripts functions when imported
        return pytest.importorskip("x_transformers", reason="x-transformers is not installed (the extra dev has it)")


def test_an_attention_of_another_library(x_transformers: Any) -> None:
    attention = x_transformers.x_transformers.Attention
    subject = subject_of(attention, "Attention", options={"dim": 8, "heads": 2, "dim_head": 4, "causal": True})
    assert "mask: True is a real token" in subject.notes
    assert "computes partly in float32: judged by its rounding" in subject.notes
    assert "looks causal: judged as causal" in subject.notes
    found = verdicts(subject)
    assert statuses(found)[LAWFUL] == {"gradient", "causal", "batch", "stability", "determinism"}
    assert statuses(found)[BROKEN] == {"padding"}
    assert all(v.reason for v in found.values() if v.status in (OUTSIDE, UNRUN))
    assert set(found) == set(IDS)


def test_a_language_model_of_another_library_takes_ids(x_transformers: Any) -> None:
    wrapper, decoder = x_transformers.TransformerWrapper, x_transformers.Decoder
    layers = decoder(dim=8, depth=1, heads=1, attn_dim_head=8)
    model = wrapper(num_tokens=11, max_seq_len=600, attn_layers=layers)
    subject = subject_of(model, "model", claims=Claims(causal=True))
    assert subject.vocabulary == 11
    found = verdicts(subject, "causal", "batch")
    assert found["causal"].ok and found["batch"].ok


def pairwise(x: Tensor) -> Tensor:
    return x + x.flip(1)


def test_a_function_of_a_sequence_is_a_layer() -> None:
    found = verdicts(subject_of(pairwise), "causal", "gradient", "batch")
    assert statuses(found)[LAWFUL] == {"batch", "gradient"}
    assert found["causal"].status is OUTSIDE


class Leaky(nn.Module):
    """A running sum, but for one peek in a block of 32."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x).cumsum(1)
        return torch.cat([y[:, :31] + (x[:, 31:32] if x.shape[1] > 31 else 0), y[:, 31:]], 1)


def test_what_is_inferred_is_said() -> None:
    subject = subject_of(Leaky)
    assert subject.claims.causal
    assert subject.notes[0].startswith("looks causal except that it sees some later tokens (T=129: token 31 moves")
    verdict = verdicts(subject, "causal")["causal"]
    assert verdict.broken and verdict.where is not None
    assert (verdict.where.case.T, verdict.where.case.at) == (32, 31)


def test_a_layer_that_cannot_be_called_is_one_sentence() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, other: Tensor) -> Tensor:
            return x + other

    with pytest.raises(InputError, match="needs other as well as x"):
        subject_of(Two)
    with pytest.raises(InputError, match="needs embed_dim, num_heads: add --with"):
        subject_of(nn.MultiheadAttention)
    with pytest.raises(InputError, match="takes no 'embd_dim'; did you mean 'embed_dim'"):
        subject_of(nn.MultiheadAttention, options={"embd_dim": 8, "num_heads": 2})
    with pytest.raises(InputError, match="took neither"):
        subject_of(nn.Conv2d(3, 3, 3))
    with pytest.raises(InputError, match="is a int"):
        subject_of(3)
