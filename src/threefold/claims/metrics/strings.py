"""String similarities: what they count, when they agree, and when they cannot."""

from __future__ import annotations

import random as chance
from collections import Counter
from math import sqrt

from threefold.claims.claim import Evidence, Outcome, above, at_most, claim, equals, near, printed, stated
from threefold.train import metrics

EQUAL = at_most(1e-12)
TABLE: tuple[tuple[str | list[int], str | list[int], str, str, str], ...] = (
    ("test", "text", "0.6", "0.75", "0.75"),
    ("nelson", "neilsen", "0.625", "0.7715167498104595", "0.7142857142857143"),
    ("abcdefgh", "hgfedcba", "1", "1", "0.125"),
    ("ab", "ba", "1", "1", "0.5"),
    ("ca", "abc", "0.6666666666666666", "0.8164965809277261", "0"),
    ("aaaa", "aaab", "0.6", "0.75", "0.75"),
    ("aaab", "abbb", "0.3333333333333333", "0.5", "0.5"),
    ("the cat sat", "the cat sat on", "0.7857142857142857", "0.8864052604279183", "0.7857142857142857"),
    ("<hello world>", "<helo wrold>", "0.9230769230769231", "0.9607689228305227", "0.8461538461538461"),
    ([0, 4, 5, 1], [0, 5, 4, 1], "1", "1", "0.75"),
    ("", "", "1", "1", "1"),
    ("abc", "", "0", "0", "0"),
)
REPORTED = {  # Jaccard, cosine, Damerau-Levenshtein, loss
    "LSTM decoder": (0.503583607220501, 0.669388120203678, 0.2736332793584701, 1.6690384796479854),
    "attention decoder": (0.7636617752753647, 0.8647155264952522, 0.6314035820582284, 1.160844937330339),
}


def drawn(pairs: int, *, equal: bool, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Random pairs of short lists over four elements."""
    source = chance.Random(seed)
    found = []
    for _ in range(pairs):
        n = source.randint(1, 9)
        m = n if equal else source.randint(1, 9)
        found.append(([source.randrange(4) for _ in range(n)], [source.randrange(4) for _ in range(m)]))
    return found


def bag(a: list[int], b: list[int]) -> int:
    """The size of the multisets' intersection."""
    return sum(min(Counter(a)[c], Counter(b)[c]) for c in set(a))


def restricted(a: str, b: str) -> int:
    """Optimal string alignment by its recurrence: no place is edited twice."""
    rows = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            same = a[i - 1] == b[j - 1]
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (not same))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@claim(
    "001-3.4-jac",
    "Jaccard is the percentage of common elements",
    "of the multisets of characters (or token ids): Σmin / Σmax",
    recorded=Outcome.CONDITIONAL,
)
def jaccard(e: Evidence) -> None:
    e.when(
        "'ab', 'bc': Jaccard against the share |A∩B| / |A∪B| of sets", metrics.jaccard("ab", "bc"), near(1 / 3, 1e-12)
    )
    e.otherwise(
        "'aaaa', 'aaab': Jaccard against the share of sets, ½", metrics.jaccard("aaaa", "aaab"), near(0.5, 1e-12)
    )
    for a, b, digits, _, _ in TABLE:
        e.truth(f"{a!r}, {b!r}: Jaccard", metrics.jaccard(a, b), printed(digits))
    worst = max(
        abs(metrics.jaccard(a, b) - bag(a, b) / (len(a) + len(b) - bag(a, b))) for a, b in drawn(2000, equal=False)
    )
    e.truth("2,000 random pairs: largest |J − Σmin/Σmax|", worst, EQUAL)
    e.counter_example("'aaaa' and 'aaab' share one of the two letters a, b (½); as multisets 3 of 5.")


@claim("001-3.4-like", "Jaccard is like Damerau–Levenshtein", "Jaccard ignores order", recorded=Outcome.FALSE)
def alike(e: Evidence) -> None:
    a, b = "abcdefgh", "hgfedcba"
    e.said(
        f"{a!r}, {b!r}: |Jaccard − DL|", abs(metrics.jaccard(a, b) - metrics.damerau_levenshtein(a, b)), at_most(0.1)
    )
    e.truth("Jaccard", metrics.jaccard(a, b), equals(1.0))
    e.truth("DL", metrics.damerau_levenshtein(a, b), near(0.125, 1e-12))
    signs = {(metrics.jaccard(a, b) > metrics.damerau_levenshtein(a, b) + 1e-12) for a, b in drawn(2000, equal=False)}
    below = any(metrics.jaccard(a, b) < metrics.damerau_levenshtein(a, b) - 1e-12 for a, b in drawn(2000, equal=False))
    e.truth("both orders of J and DL occur among 2,000 random pairs", len(signs) == 2 and below, equals(True))
    e.counter_example("'ab', 'ba': Jaccard 1, DL 0.5.")


@claim(
    "001-3.4-dl",
    "Damerau–Levenshtein counts the edits to equality",
    "the restricted distance (no place edited twice), normalised: 1 − d / max(|a|, |b|)",
    recorded=Outcome.CONDITIONAL,
)
def edits(e: Evidence) -> None:
    e.when("'test' → 'text': edits", metrics.edits("test", "text"), equals(1))
    e.when("'ab' → 'ba': edits", metrics.edits("ab", "ba"), equals(1))
    e.otherwise("'ca' → 'abc': edits (swap, then insert between: 2)", metrics.edits("ca", "abc"), equals(2))
    e.truth("'ca' → 'abc': by the recurrence of the restricted distance", restricted("ca", "abc"), equals(3))
    for a, b, _, _, digits in TABLE:
        e.truth(f"{a!r}, {b!r}: DL", metrics.damerau_levenshtein(a, b), printed(digits))
    words = [("".join(map(str, a)), "".join(map(str, b))) for a, b in drawn(500, equal=False)]
    e.truth(
        "500 random pairs: edits that differ from the recurrence",
        sum(metrics.edits(a, b) != restricted(a, b) for a, b in words),
        equals(0),
    )
    e.counter_example("'ca' → 'ac' → 'abc' takes 2 edits, but edits one place twice; the measure says 3.")


@claim(
    "001-3.4-cos",
    "cosine of the word-frequency vectors",
    "Otsuka–Ochiai on characters: Σmin / √(|a||b|)",
    recorded=Outcome.FALSE,
)
def cosine(e: Evidence) -> None:
    frequency = 4 * 3 / (4 * sqrt(9 + 1))
    e.truth("'aaaa', 'aaab': cosine of the frequency vectors", frequency, printed("0.9487"))
    e.said("'aaaa', 'aaab': the measure", metrics.cosine("aaaa", "aaab"), near(frequency, 1e-12))
    for a, b, _, digits, _ in TABLE:
        e.truth(f"{a!r}, {b!r}: cosine", metrics.cosine(a, b), printed(digits))
    worst = max(abs(metrics.cosine(a, b) - bag(a, b) / sqrt(len(a) * len(b))) for a, b in drawn(2000, equal=False))
    e.truth("2,000 random pairs: largest |cosine − Σmin/√(|a||b|)|", worst, EQUAL)
    e.counter_example("'aaaa', 'aaab': the measure is 0.75, the cosine of frequencies 0.9487.")


@claim(
    "001-3.4-close",
    "the three measures hardly differ; maximising one nearly maximises the others",
    "DL = 1 gives J = cos = 1, but J = cos = 1 does not bound DL; J and cos are tied: J = cos/(2−cos) at equal lengths",
    recorded=Outcome.FALSE,
)
def nearly_equal(e: Evidence) -> None:
    a, b = "abcdefgh", "hgfedcba"
    e.said(
        f"{a!r}, {b!r}: J − DL, where J is at its maximum",
        metrics.jaccard(a, b) - metrics.damerau_levenshtein(a, b),
        at_most(0.1),
    )
    tied = max(
        abs(metrics.jaccard(a, b) - metrics.cosine(a, b) / (2 - metrics.cosine(a, b)))
        for a, b in drawn(2000, equal=True)
    )
    e.truth("equal lengths: largest |J − cos/(2−cos)|", tied, EQUAL)
    for name, (left, right) in _orders().items():
        e.truth(
            f"2,000 random pairs: largest violation of {name}",
            max(a - b for a, b in zip(left, right, strict=True)),
            EQUAL,
        )
    e.counter_example("'abcdefgh', 'hgfedcba': J = cos = 1, DL = 0.125; 'ab', 'ba': 1, 1 and 0.5.")
    e.limit("How they correlate on the output of models is experiment E11.")


def _orders() -> dict[str, tuple[list[float], list[float]]]:
    """Inequalities that hold for every pair."""
    pairs = drawn(2000, equal=False)
    J, cos, DL = ([f(a, b) for a, b in pairs] for f in (metrics.jaccard, metrics.cosine, metrics.damerau_levenshtein))
    shared = [bag(a, b) / max(len(a), len(b)) for a, b in pairs]
    return {"J ≤ I/max": (J, shared), "I/max ≤ cos": (shared, cos), "DL ≤ I/max": (DL, shared)}


blank_speech = stated("004-3.*", "question 3 is left empty", "the measures of 001-3.4-*", Outcome.BLANK, "metrics")


@claim(
    "001-3-tie",
    "the reported pairs of Jaccard and cosine agree with each other (001-3.1 and 001-3.2)",
    "J ≥ cos/(2−cos), as Jensen requires of means over pairs; they differ by 5.2e-4 and 2.0e-3",
    recorded=Outcome.TRUE,
)
def consistent(e: Evidence) -> None:
    for (name, (J, cos, _, _)), digits in zip(REPORTED.items(), ("5.2e-4", "2.0e-3"), strict=True):
        e.said(f"{name}: reported J − cos/(2−cos)", J - cos / (2 - cos), above(0.0))
        e.said(f"{name}: the same", J - cos / (2 - cos), printed(digits))
    pairs = drawn(400, equal=True)
    mean_cos = sum(metrics.cosine(a, b) for a, b in pairs) / 400
    e.said(
        "400 random pairs: mean J − mean cos/(2 − mean cos)",
        sum(metrics.jaccard(a, b) for a, b in pairs) / 400 - mean_cos / (2 - mean_cos),
        above(0.0),
    )
