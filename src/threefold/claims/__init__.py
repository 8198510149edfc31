"""The source documents as executable statements: each computes its numbers, and its verdict follows from them.

`CLAIMS` holds every row of the documents, in order of subject; `find("C5").evidence()` runs one. For statements of your
own, decorate an evidence function with `@claim(...)` and run the file by `threefold claims my_claims.py`.
"""

from threefold.claims import (
    attention,
    cnn,
    copying,
    counting,
    experiments,
    features,
    linear_map,
    lstm,
    metrics,
    positions,
    rnn_comparator,
)
from threefold.claims.claim import (
    Claim,
    Evidence,
    Need,
    Number,
    Outcome,
    Side,
    Verdict,
    above,
    at_most,
    below,
    claim,
    claims_in,
    equals,
    near,
    printed,
)
from threefold.claims.claim import find as find_among

SUBJECTS: dict[str, tuple[str, tuple[Claim, ...]]] = {
    "lstm": ("LSTM and GRU", lstm.CLAIMS),
    "counting": ("Sizes of the transformer", counting.CLAIMS),
    "attention": ("Softmax attention", attention.CLAIMS),
    "positions": ("Position encodings", positions.CLAIMS),
    "linear_map": ("Attention as one matrix", linear_map.CLAIMS),
    "features": ("Attention by a series", features.CLAIMS),
    "cnn": ("Convolutional nets", cnn.CLAIMS),
    "metrics": ("Measures", metrics.CLAIMS),
    "rnn_comparator": ("The alternating sum", rnn_comparator.CLAIMS),
    "copying": ("Copying by attention", copying.CLAIMS),
    "experiments": ("What only runs can decide", experiments.CLAIMS),
}
CLAIMS: tuple[Claim, ...] = tuple(each for _, claims in SUBJECTS.values() for each in claims)


def find(id: str) -> Claim:
    """The claim with this id (`000-1.4-dpc`, `C5`), in any case."""
    return find_among(id, CLAIMS)


__all__ = [
    "CLAIMS",
    "SUBJECTS",
    "Claim",
    "Evidence",
    "Need",
    "Number",
    "Outcome",
    "Side",
    "Verdict",
    "above",
    "at_most",
    "below",
    "claim",
    "claims_in",
    "equals",
    "find",
    "near",
    "printed",
]
