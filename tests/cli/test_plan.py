"""`threefold plan`: what it prints, what it answers to wrong input, and that theory stays light."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from threefold.cli.main import run

OWN = str(Path(__file__).parents[1] / "plan" / "own_modules.py")


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run(["plan", *argv]) == code
    seen = capsys.readouterr()
    return seen.out if code != 2 else seen.err


def test_the_documents_transformer(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "encdec-12-8", "--fit", "24GiB")
    lines = page.splitlines()
    assert lines[0] == "encdec-12-8 · B=32 T=2,048 S=2,048 (S = T)"
    assert "FLOP = 2 per multiply-add" in lines[1] and "attention = fused" in lines[1]
    assert "139,994,112  100.0  29,865,055,092,736" in page and "32×4×2048×192" in page
    assert "8,945,401,856·T + 2,752,512·T²; exponent 1.39 at T = 2,048; T² leads from 3,250" in page
    assert "training in 24GiB, largest T at B=32 S=T: T = 810" in page
    each = next(line.split() for line in lines if "layer 1 to 12, each" in line)
    assert each[6:10] == ["4,203,264", "36.0", "962,072,674,304", "38.7"]  # of one, and the share of all twelve
    assert lines[-1].endswith("--check counts them.")


def test_counted_beside_planned(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "taylor2", "--width", "32", "--T", "70", "--check", "--depth", "0")
    assert page.splitlines()[-1].startswith("✓ counted 4,096 parameters, ")
    assert page.splitlines()[-1].endswith("= planned; uncounted ops: none")
    data = json.loads(said(capsys, "gru", "--width", "8", "--T", "9", "--form", "step", "--check", "--json"))
    assert data["check"]["gru"]["holds"] and data["check"]["gru"]["uncounted"] == []
    assert data["total"]["params"] == data["check"]["gru"]["planned_counted"]["params"][1] == 3 * 8 * 17 + 8


def test_conventions_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "encdec-12-8", "--compare", "tied3", "untied+b+embbias")
    assert "+61,472,048" in page and "untied+b+embbias has 61,472,048 parameters more." in page
    assert [line.split()[-1] for line in page.splitlines()[4:9]] == [
        "+30,720,000",
        "+1,024",
        "+1,024",
        "+30,720,000",
        "+30,000",
    ]
    other = said(capsys, "lstm", "--compare", "lstm", "gru", "--width", "16")
    assert "gru has 512 parameters fewer." in other
    assert "201,466,160" in said(capsys, "encdec-12-8", "--convention", "untied+b+embbias", "--depth", "0")


def test_the_two_convolutional_nets(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "cnn-octmnist")
    assert page.count("224,892  100.0") == 3 and page.count("168,572  100.0") == 1
    assert "16 × 5 × 5" in page and "−56,320" in page


def test_against_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    page = said(capsys, "softmax", "--against", "elu1", "lstm", "--depth", "0", "--plot", str(picture))
    assert "elu1, state or cache: elu1 needs less from T = 33" in page
    assert "lstm, FLOPs forward: lstm needs less from T = 1,025" in page
    drawn = picture.read_text()
    assert all(word in drawn for word in ("softmax", "elu1", "T = 1,025", "state or cache"))


def test_a_module_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, f"{OWN}:Tagger", "--input", "B,T:int", "B,T:data", "--B", "2", "--T", "64", "--fit", "1MiB")
    assert "uncounted ops: none" in page and "forward FLOPs: 29,824·T" in page
    assert "table" in page and "rnn" in page and "largest T at B=2" in page
    odd = json.loads(said(capsys, f"{OWN}:Odd", "--input", "B,T,8", "--json"))
    assert odd["uncounted"] == ["linalg_inv_ex"]
    assert "at least" in said(capsys, f"{OWN}:Odd", "--input", "B,T,8")
    still = json.loads(said(capsys, f"{OWN}:Twice", "--input", "B,T,8", "--no-grad", "--json"))
    assert still["total"]["backward"] == still["total"]["saved"] == 0 < still["total"]["forward"]


def test_a_module_that_looks_at_its_numbers_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, f"{OWN}:Looks", "--input", "B,T,8", "--T", "32")
    assert "run on the CPU, with zeros" in page and "forward FLOPs: 128·T" in page


def test_nothing_is_foretold_without_a_law(capsys: pytest.CaptureFixture[str]) -> None:
    ragged = (f"{OWN}:Wide", "--input", "B,T,8", "--T", "1000")
    page = said(capsys, *ragged)
    assert "forward FLOPs: no polynomial was found" in page and "between multiples of 64" in page
    assert json.loads(said(capsys, *ragged, "--json"))["laws"]["forward"] is None
    assert "has no law of saved" in said(capsys, *ragged, "--fit", "1GiB", code=2)


def test_advice_on_taylor(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "taylor", "--key", "16", "--range", "0.5", "--tolerance", "0.05")
    assert page.splitlines()[-1].startswith("Degree 2 keeps every row within 0.031") and "T = 158" in page
    honest = said(capsys, "taylor", "--key", "64", "--range", "0.5", "--T", "2048")
    assert "softmax attention is cheaper (heads of at most 62 would pay there)" in honest
    hopeless = said(capsys, "taylor", "--range", "20", "--tolerance", "1e-6")
    assert "softmax" in hopeless.splitlines()[-1]
    assert json.loads(said(capsys, "taylor", "--json"))["advice"]["features"] == 2145


WRONG = {
    ("encdec-12",): "no model 'encdec-12'; did you mean 'encdec-12-8'?",
    ("softmax", "--T", "-3"): "--T -3: give at least 1.",
    ("softmax", "--width", "100"): "width 100 does not divide among 8 heads",
    ("softmax", "--fit", "much"): "'much' is no amount of memory",
    ("lstm", "--form", "parallel"): "lstm has no parallel form; it has chunked, step.",
    ("encdec-12-8", "--convention", "tied"): "did you mean 'tied3'?",
    ("encdec-12-8", "--compare", "tied3"): "--compare takes two",
    ("cnn-octmnist", "--against", "lstm"): "--against compares growth with length",
    ("softmax", "--causal", "half", "--check"): "every pair: use causal full",
    ("softmax", "--plot", "x.doc"): "give a file that ends in .svg",
    ("softmax", "--input", "B,T"): "--input and --with are for a module of your own",
    (): "give a model",
    (f"{OWN}:Tager", "--input", "B,T"): "has no 'Tager'; did you mean 'Tagger'?",
    (f"{OWN}:Tagger",): "say what",
    (f"{OWN}:Tagger", "--input", "B,T:int"): "give what its forward takes",
    (f"{OWN}:Tagger", "--input", "B,T:int", "--with", '{"vocabulary": 3}'): "takes no 'vocabulary'",
    (f"{OWN}:Twice", "--input", "B,N,8"): "axis N has no size",
    (f"{OWN}:broken", "--input", "B,T,8", "B,T,8", "--with", '{"width": 3}'): "no layer of width 3",
    ("taylor", "--range", "-1"): "--range -1.0",
}


@pytest.mark.parametrize("argv", WRONG, ids=" ".join)
def test_wrong_input_gets_one_sentence(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    sentence = said(capsys, *argv, code=2)
    assert WRONG[argv] in sentence and sentence.count("\n") == 1


def test_theory_needs_no_torch() -> None:
    code = (
        "import sys; from threefold.cli.main import run\n"
        "assert run(['plan', 'encdec-12-8', '--against', 'encdec-pre', '--fit', '1TiB']) == 0\n"
        "assert run(['plan', 'taylor']) == 0\n"
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
