"""The checks behind the statements have names, T-...: each is a test that says so, or the evidence of claims.

A test names its check first in its docstring. What only statements need is computed by their evidence, and the ledger
of verdicts judges it on every run.
"""

import ast
import re
from pathlib import Path

import pytest

from threefold.claims import find

TESTS = Path(__file__).parents[1]
SERIES = {"LSTM": 7, "GRU": 3, "ROPE": 6, "ALIBI": 3, "CNT": 3, "VEC": 4, "FEAT": 4, "LIN": 5, "CNN": 2, "MET": 4}
SERIES |= {"ALT": 2, "COPY": 3}
SINGLE = "T-SHIFT T-KV T-MH T-PERM T-DEPTH T-AVG T-DIM T-ORTH T-DOT T-PE-1 T-PE-3 T-PE-4 T-PE-5 T-PE-6"
CHECKS = {f"T-{name}-{n + 1}" for name, count in SERIES.items() for n in range(count)} | set(SINGLE.split())
BY_CLAIMS = {
    "T-AVG": "000-1.1-prf",
    "T-CNT-1": "000-2.2-emb 000-2.2-mha 000-2.2-norm 000-2.2-ffn 000-2.2-enc 000-2.2-dec 003-2.2-fc",
    "T-CNT-2": "C5 000-2.2-total 003-2.2-total",
    "T-CNT-3": "000-4.1-d1 003-4.1-lrn-cost",
    "T-DIM": "003-2.1-* 000-2.1-dim",
    "T-ORTH": "C7 000-3.1-id 003-3.1-w 003-3.1-cond",
    "T-DOT": "C8 000-3.2-E 003-3.2-prod 003-3.2-var",
    "T-VEC-1": "003-5.1-map 003-5.3-share 003-5.3-zero C10",
    "T-VEC-2": "C9 003-5.2-n",
    "T-VEC-3": "000-5.1-A 000-5.1-outer 000-5.2",
    "T-VEC-4": "000-5.1-11,22 000-5.1-12 000-5.1-21",
    "T-ROPE-6": "003-4.2-decay",
    "T-LIN-2": "001-1.3 004-1.3-Z",
    "T-CNN-1": "C16 001-2.3-mp 004-2.3-n",
    "T-CNN-2": "004-2.3-feat",
    "T-MET-1": "001-3.4-jac 001-3.4-cos",
    "T-MET-2": "001-3.4-dl",
    "T-MET-3": "001-3.4-close 001-3.4-like",
    "T-MET-4": "001-3-tie 001-3.4-close",
    "T-COPY-1": "002-2a-x1 002-2a-v 002-2b-dot 002-2b-self",
    "T-COPY-2": "002-2b-W 002-2b-y C18",
    "T-COPY-3": "002-2c-copy",
}


def named() -> set[str]:
    """The checks that docstrings of tests begin with."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            found |= set(re.findall(r"^T-[A-Z]+(?:-\d)?", text or ""))
    return found


def test_every_check_is_made_and_none_is_unknown() -> None:
    assert named() | set(BY_CLAIMS) == CHECKS


@pytest.mark.parametrize("check", BY_CLAIMS)
def test_checks_by_claims_are_computed_and_on_record(check: str) -> None:
    for id in BY_CLAIMS[check].split():
        assert find(id).computes and find(id).recorded, id
