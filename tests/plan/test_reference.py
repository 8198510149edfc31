"""The documents' transformer: every line, every total, its law in the length, and what it keeps."""

import subprocess
import sys

import pytest

from threefold.cost import Plan
from threefold.errors import InputError
from threefold.plan.conventions import Conventions, Dtype
from threefold.plan.difference import difference
from threefold.plan.model import model
from threefold.plan.presets import PRESETS, convention
from threefold.plan.show import rows, times
from threefold.specs.attention import Linear
from threefold.specs.cross import CrossAttention
from threefold.specs.features import Elu1
from threefold.specs.nets import Seq2SeqSpec, transformer

SIZES = {"B": 32, "T": 2048, "S": 2048}
NET = transformer()
PLAN = NET.plan()
LAW = PLAN.mapped(lambda poly: poly.renamed("S", "T")).at(B=32)

TOTALS = {
    "tied3": 139_994_112,
    "tied3+b": 140_024_112,
    "tied-out": 170_714_112,
    "tied-out+b": 170_744_112,
    "untied": 201_434_112,
    "untied+b": 201_464_112,
    "untied+b+embbias": 201_466_160,
    "tied3+norms": 139_994_112 + 4_096,
    "untied+b+norms": 201_464_112 + 4_096,
    "tied3+learned": 139_994_112 + 4_194_304,
    "tied3+unbiased-attention": 139_900_928,
    "tied3+unbiased": 139_870_208,
    "tied-out+unbiased": 170_590_208,
    "tied3+wide-heads": 404_428_800,
}
SIGNALS = {
    "tokens, as one-hot": "32×2048×30000",
    "embedding": "32×2048×1024",
    "positions": "32×2048×1024",
    "q": "32×4×2048×192",
    "k": "32×4×2048×192",
    "v": "32×4×2048×192",
    "scores": "32×4×2048×2048",
    "weighted values": "32×4×2048×192",
    "heads side by side": "32×2048×768",
    "W_O": "32×2048×1024",
    "norm": "32×2048×1024",
    "hidden": "32×2048×512",
    "second": "32×2048×1024",
    "encoder": "32×2048×1024",
    "decoder": "32×2048×1024",
    "cross-attention": "32×2048×1024",
    "logits": "32×2048×30000",
}


def part(plan: Plan, path: str) -> Plan:
    return dict(plan.walk())[path]


@pytest.mark.parametrize("words", TOTALS)
def test_totals_under_every_convention(words: str) -> None:
    assert convention(words, NET).plan().total.params == TOTALS[words]


def test_building_blocks() -> None:
    layer = part(PLAN, "Seq2Seq.encoder.layer 1")
    attention = part(PLAN, "Seq2Seq.encoder.layer 1.softmax").total.params - 2_048
    assert attention == 3_149_056 and layer.total.params == 4_203_264
    assert part(PLAN, "Seq2Seq.encoder.layer 1.feed-forward").total.params - 2_048 == 1_050_112
    assert part(PLAN, "Seq2Seq.encoder").total.params - 30_720_000 == 50_439_168
    reading = part(PLAN, "Seq2Seq.memory, k and v of each layer").total.params
    assert part(PLAN, "Seq2Seq.decoder").total.params + reading == 58_834_944
    bare = convention("tied3+unbiased", NET).plan()
    assert part(bare, "Seq2Seq.encoder.layer 1").total.params == 4_198_400


def test_every_signal() -> None:
    placed = PLAN.placed(SIZES)
    shown = {(row.name, times(row.part.shape)) for row in rows(placed)}
    for name, shape in SIGNALS.items():
        assert (name, shape) in shown, name
        assert {signal for each, signal in shown if each == name} == {shape}


def test_the_difference_line_by_line() -> None:
    found = difference(*(convention(words, NET).plan() for words in ("tied3", "untied+b+embbias")))
    assert {line.name: line.more for line in found} == {
        "equal in both": 0,
        "source table": 30_720_000,
        "source table bias": 1_024,
        "target table bias": 1_024,
        "output": 30_720_000,
        "output bias": 30_000,
    }
    assert sum(line.more for line in found) == 61_472_048 and found[0].one == 139_994_112


def test_flops_and_their_law() -> None:
    law = LAW.total.forward
    assert repr(law) == "8,945,401,856·T + 2,752,512·T²"
    assert law(T=2048) == 29_865_055_092_736
    assert [round(law.exponent("T", T=t), 2) for t in (128, 512, 2048, 8192, 32768)] == [1.04, 1.14, 1.39, 1.72, 1.91]
    assert round(law.balance("T") or 0) == 3250
    assert round(100 * float(2_752_512 * 2048**2 / law(T=2048)), 1) == 38.7


def test_flops_of_the_parts() -> None:
    placed = PLAN.placed(SIZES)
    attention = part(placed, "Seq2Seq.encoder.layer 1.softmax")
    pairs = sum(int(p.total.forward) for p in attention.parts if p.name in ("scores", "weighted values"))
    assert pairs == 412_316_860_416 and int(attention.total.forward) == 2 * pairs
    assert part(placed, "Seq2Seq.encoder.layer 1.feed-forward").total.forward == 137_438_953_472
    assert part(placed, "Seq2Seq.logits").total.forward == 4_026_531_840_000
    assert part(placed, "Seq2Seq.encoder").total.forward == 11_544_872_091_648
    assert part(placed, "Seq2Seq.encoder.layer 1").total.forward == 962_072_674_304


def test_caches() -> None:
    plan = NET.plan(conventions=Conventions(dtype=Dtype.BFLOAT16)).placed(SIZES)
    gib = 3 * 2**29
    assert part(plan, "Seq2Seq.memory, k and v of each layer").total.state == gib
    counters = 8 * 32 * 8 + 32 * 8  # a token count for each row, in each layer and before them
    assert part(plan, "Seq2Seq.decoder").total.state + part(plan, "Seq2Seq").own.state == gib + counters


def test_a_linear_state_does_not_grow() -> None:
    spec = Linear(heads=4, key_dim=192, value_dim=192, features=Elu1())
    state = spec.plan(1024, conventions=Conventions(dtype=Dtype.BFLOAT16)).total.state
    assert state.degree("T") == 0
    per_row = 4 * 192 * (192 + 1) * 4 + 16  # S and z in float32, two counts
    assert state(B=32) == 32 * per_row
    over = CrossAttention(Linear(heads=4, key_dim=192, value_dim=192, causal=False)).plan(1024)
    assert over.total.state.degree("S") == 0 and over.total.state(B=1) == per_row


def test_the_convolutional_nets() -> None:
    nets = {name: spec.plan() for name, spec in PRESETS["cnn-octmnist"].nets.items()}
    assert [int(plan.total.params) for plan in nets.values()] == [224_892, 224_892, 168_572, 224_892]
    found = difference(nets["max-pool"], nets["max-pool, conv1 without padding"])
    assert {line.name: line.more for line in found[1:]} == {"fc1": -(576 - 400) * 320}
    first = [plan.at(B=1) for plan in nets.values()][:2]
    macs = [sum(int(p.total.forward) for p in plan.parts if p.name.startswith("conv")) // 2 for plan in first]
    assert macs == [222_336, 55_584]


def test_unknown_words_are_answered() -> None:
    with pytest.raises(InputError, match="did you mean 'encdec-12-8'"):
        model("encdec-12-9", 512)
    with pytest.raises(InputError, match=r"no convention '\+norm'; did you mean 'norms'"):
        convention("tied3+norm", NET)
    with pytest.raises(InputError, match="encoder-decoder"):
        model("cnn-octmnist", 512, "tied3")
    assert isinstance(model("encdec-12-8", 512, "untied").spec, Seq2SeqSpec)


def test_theory_needs_no_torch_and_no_time() -> None:
    code = (
        "import sys; from threefold.plan.model import model; from threefold.plan.conventions import Conventions\n"
        "from threefold.plan import difference, memory, presets, show, solve, taylor, tree\n"
        "assert model('encdec-12-8', 1).plan(None, Conventions()).total.params == 139994112\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
