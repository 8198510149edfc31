"""Parameters of the documents' transformer, line by line, and the convention under which each total is right."""

from __future__ import annotations

from threefold.claims.claim import Claim, Evidence, Outcome, claim, equals, stated
from threefold.claims.counting import model
from threefold.specs.nets import Tying, transformer

DIFFERENCE = 61_472_048


def line(id: str, says: str, item: str, value: int, by_hand: int, corrected: str = "") -> Claim:
    """One line item: the printed arithmetic and the library's module give the same number."""

    def collect(e: Evidence) -> None:
        e.said(f"{item}: parameters of the library's module", model.items()[item], equals(value))
        e.said(f"{item}: the printed arithmetic", by_hand, equals(value))

    return claim(id, says, corrected, recorded=Outcome.TRUE, subject="counting")(collect)


definition = stated(
    "000-2.1-hp",
    "V = 30000, 12 encoder and 8 decoder blocks, d = 1024, T = 2048, d_h = 768, d_ff = 512, B = 32, h = 4",
    "d_h = 768 is the sum over heads, 192 each; read per head it is another model",
    Outcome.DEFINITION,
    "counting",
)

_d, _h, _f = 1024, 768, 512
_MHA = _d * (_h // 4) * 3 * 4 + 3 * _h + _h * _d + _d
_FFN = 2 * _d * _f + _d + _f

LINES = (
    line("000-2.2-mha", "MHA: `d·(d_h/h)·3·h + 3d_h + d_h·d + d = 3,149,056`", "MHA", 3_149_056, _MHA),
    line("000-2.2-norm", "norm: `2d = 2,048`", "norm", 2_048, 2 * _d, "gain and bias"),
    line("000-2.2-ffn", "FFN: `2·d·d_ff + d + d_ff = 1,050,112`", "FFN", 1_050_112, _FFN),
    line(
        "000-2.2-enc",
        "encoder: `12(MHA + 2 Norm + FFN) = 50,439,168`",
        "encoder",
        50_439_168,
        12 * (_MHA + 4 * _d + _FFN),
        "12 × 4,203,264",
    ),
    line(
        "000-2.2-dec",
        "decoder: `8(2 MHA + 3 Norm + FFN) = 58,834,944`",
        "decoder",
        58_834_944,
        8 * (2 * _MHA + 6 * _d + _FFN),
        "8 × 7,354,368",
    ),
    line(
        "003-2.2-mha",
        "MHA: `4·3(1024·192+192) + 768·1024+1024 = 3,149,056`",
        "MHA",
        3_149_056,
        12 * (1024 * 192 + 192) + 768 * 1024 + 1024,
    ),
    line("003-2.2-enc", "4,203,264 per encoder block, × 12", "encoder block", 4_203_264, _MHA + 4 * _d + _FFN),
    line(
        "003-2.2-dec",
        "7,354,368 per decoder block, × 8",
        "decoder block",
        7_354_368,
        2 * _MHA + 3 * 2048 + _FFN,
        "no slip: 2×3,149,056 + 3×2,048 + 1,050,112",
    ),
)


@claim("000-2.2-emb", "embedding: `V·d = 30,720,000`", "a table has no bias", recorded=Outcome.TRUE)
def embedding_000(e: Evidence) -> None:
    tied, second = (model.total(model.spec(tying)) for tying in (Tying.THREE, Tying.OUTPUT))
    e.said("parameters that a second table adds to the model", second - tied, equals(30_720_000))
    e.said("V·d", 30_000 * 1_024, equals(30_720_000))


@claim(
    "003-2.2-emb",
    "embedding: 30000 × 1024 + 1024, twice",
    "30,721,024 if realised as a linear layer with bias on one-hot input; a table has no bias (30,720,000)",
    recorded=Outcome.CONDITIONAL,
)
def embedding_003(e: Evidence) -> None:
    plain = model.total(model.spec(Tying.NONE, output_bias=True))
    biased = model.total(model.spec(Tying.NONE, output_bias=True, embedding_bias=True))
    without = model.total(model.spec(Tying.OUTPUT, output_bias=True))
    e.when("linear layers with bias: one embedding", plain - without + (biased - plain) // 2, equals(30_721_024))
    e.otherwise("embedding tables: one embedding", plain - without, equals(30_721_024))
    e.truth("embedding tables: one embedding", plain - without, equals(30_720_000))


@claim("003-2.2-fc", "output layer: 1024·30000 + 30000 = 30,750,000", recorded=Outcome.TRUE)
def output_layer(e: Evidence) -> None:
    tied = model.total(model.spec(Tying.OUTPUT))
    e.said(
        "parameters that an own output layer with bias adds",
        model.total(model.spec(Tying.NONE, output_bias=True)) - tied,
        equals(30_750_000),
    )


CONVENTIONS: dict[str, tuple[int, tuple[Tying, bool, bool]]] = {
    "tied3": (139_994_112, (Tying.THREE, False, False)),
    "tied3+b": (140_024_112, (Tying.THREE, True, False)),
    "tied-out": (170_714_112, (Tying.OUTPUT, False, False)),
    "tied-out+b": (170_744_112, (Tying.OUTPUT, True, False)),
    "untied": (201_434_112, (Tying.NONE, False, False)),
    "untied+b": (201_464_112, (Tying.NONE, True, False)),
    "untied+b+embbias": (201_466_160, (Tying.NONE, True, True)),
}


def convention(name: str) -> int:
    """Parameters of the whole model under a named convention."""
    tying, output_bias, embedding_bias = CONVENTIONS[name][1]
    return model.total(model.spec(tying, output_bias=output_bias, embedding_bias=embedding_bias))


@claim(
    "000-2.2-total",
    "total 139,994,112",
    "the sum is right; complete only with source = target = output matrix, no output bias, no final "
    "norms, and positions without parameters",
    recorded=Outcome.CONDITIONAL,
)
def total_000(e: Evidence) -> None:
    e.when("tied3: the three matrices are one, no output bias", convention("tied3"), equals(139_994_112))
    e.otherwise("untied+b: two tables, output layer with bias", convention("untied+b"), equals(139_994_112))
    tied = model.spec(Tying.THREE)
    for name in ("tied3+b", "tied-out", "tied-out+b"):
        e.truth(f"{name}: parameters", convention(name), equals(CONVENTIONS[name][0]))
    e.truth("final norms add", model.total(model.normed(tied)) - 139_994_112, equals(4_096))
    e.truth("learned positions add", model.total(model.learned(tied)) - 139_994_112, equals(4_194_304))
    e.truth("no biases in attention", model.total(model.unbiased(tied, ffn=True)), equals(139_900_928))
    e.truth("no biases but the norms'", model.total(model.unbiased(tied, ffn=False)), equals(139_870_208))
    e.truth("768 read per head", model.total(transformer(head_dim=768)), equals(404_428_800))
    e.counter_example("An untied model with these sizes has 201,464,112 parameters.")


@claim(
    "003-2.2-total",
    "total 201,466,160",
    "untied, embeddings with bias, output bias; with ordinary embedding tables 201,464,112",
    recorded=Outcome.CONDITIONAL,
)
def total_003(e: Evidence) -> None:
    e.when("untied+b+embbias", convention("untied+b+embbias"), equals(201_466_160))
    e.otherwise("untied+b: embedding tables", convention("untied+b"), equals(201_466_160))
    e.truth("untied+b: parameters", convention("untied+b"), equals(201_464_112))
    e.truth("untied: parameters", convention("untied"), equals(201_434_112))
    e.truth(
        "61,442,048 + 50,439,168 + 58,834,944 + 30,750,000",
        61_442_048 + 50_439_168 + 58_834_944 + 30_750_000,
        equals(201_466_160),
    )
    e.counter_example("An embedding table has no bias: 2 × 1,024 parameters fewer.")


@claim(
    "C5",
    "transformer parameters: 139,994,112 (000), 201,466,160 (003). Adjudicated: both sums are right, "
    "under different conventions",
    "003 − 000 = 61,472,048 = 30,720,000 (second embedding) + 2·1,024 (embedding biases) + 30,750,000 (output layer)",
    sources=("000", "003"),
    recorded=Outcome.TRUE,
)
def both_right(e: Evidence) -> None:
    mine = {name: convention(name) for name in CONVENTIONS}
    e.said("000: tied3", mine["tied3"], equals(139_994_112))
    e.said("003: untied+b+embbias", mine["untied+b+embbias"], equals(201_466_160))
    e.said("the difference", mine["untied+b+embbias"] - mine["tied3"], equals(DIFFERENCE))
    e.said("second embedding table", mine["tied-out"] - mine["tied3"], equals(30_720_000))
    e.said("output layer with bias", mine["untied+b"] - mine["tied-out"], equals(30_750_000))
    e.said("biases of two embeddings", mine["untied+b+embbias"] - mine["untied+b"], equals(2 * 1_024))
    items = model.items()
    e.said("the same encoder block in both", items["encoder block"], equals(4_203_264))
    e.said("the same decoder block in both", items["decoder block"], equals(7_354_368))
    e.said("core: encoder and decoder", items["encoder"] + items["decoder"], equals(109_274_112))
