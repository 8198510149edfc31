"""Dimensions of every signal of the documents' transformer, traced at full size without memory."""

from __future__ import annotations

from math import prod

from threefold.claims.claim import Evidence, Outcome, claim, equals
from threefold.claims.counting import model
from threefold.claims.counting.model import times

RESIDUAL = (
    "embedding",
    "after positions",
    "add & norm",
    "attention output",
    "masked attention output",
    "cross attention output",
    "FFN output",
    "encoder output",
    "decoder output",
)
OTHERS = {
    "q, k, v": "32×4×2048×192",
    "scores": "32×4×2048×2048",
    "one head": "32×2048×192",
    "concatenated heads": "32×2048×768",
    "FFN hidden": "32×2048×512",
    "logits": "32×2048×30000",
}


@claim(
    "000-2.1-dim",
    "source and target B×T×vocab; all other signals B×T×d",
    "heads B×h×T×192, joined B×T×768, hidden B×T×512, scores B×h×T×T, logits B×T×V; inputs as ids are B×T",
    recorded=Outcome.FALSE,
)
def all_the_same(e: Evidence) -> None:
    found = model.signals()
    for name, shape in OTHERS.items():
        e.said(f"{name}", times(found[name]), equals("32×2048×1024"))
        e.truth(f"{name}", times(found[name]), equals(shape))
    for name in RESIDUAL:
        e.said(name, times(found[name]), equals("32×2048×1024"))
    e.truth("source, target as ids", times(found["source, target as ids"]), equals("32×2048"))
    e.counter_example("The hidden layer of the feed-forward part is 32×2048×512; the scores are 32×4×2048×2048.")


@claim(
    "003-2.1-*",
    "source/target 32×2048×30000; embedding, PE, add & norm, linear, FFN₂ 32×2048×1024; head 32×2048×192; joined heads "
    "32×2048×768; FFN₁ 32×2048×512 (encoder and decoder, masked and cross attention)",
    "every item is right; missing: q, k, v, the scores (536,870,912 numbers, 2 GiB, in each of 28 "
    "attentions), and the logits",
    recorded=Outcome.TRUE,
)
def itemised(e: Evidence) -> None:
    found = model.signals()
    for name in RESIDUAL:
        e.said(name, times(found[name]), equals("32×2048×1024"))
    for name in ("one head", "concatenated heads", "FFN hidden"):
        e.said(name, times(found[name]), equals(OTHERS[name]))
    e.said("decoder FFN hidden", times(found["decoder FFN hidden"]), equals("32×2048×512"))
    e.said("source, target one-hot", times(found["source, target one-hot"]), equals("32×2048×30000"))
    for name in ("q, k, v", "scores", "logits"):
        e.truth(f"missing: {name}", times(found[name]), equals(OTHERS[name]))
    e.truth("scores of one attention, numbers", prod(found["scores"]), equals(536_870_912))
    e.truth("scores of one attention, GiB in float32", 4 * prod(found["scores"]) // 2**30, equals(2))
    e.truth("attentions", model.ATTENTIONS, equals(28))
    e.truth("logits, numbers", prod(found["logits"]), equals(1_966_080_000))


@claim(
    "C6",
    "signal dimensions: 'source, target B×T×vocab, others B×T×d' (000), an itemised list (003). "
    "Adjudicated: 000 is false; 003's items are right, not complete",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def which_list(e: Evidence) -> None:
    found = model.signals()
    different = [name for name in OTHERS if times(found[name]) != "32×2048×1024"]
    e.said("kinds of signal that are not B×T×d", len(different), equals(6))
    for name in ("one head", "concatenated heads", "FFN hidden"):
        e.said(f"003: {name}", times(found[name]), equals(OTHERS[name]))
    e.said("absent from both: scores", times(found["scores"]), equals("32×4×2048×2048"))
