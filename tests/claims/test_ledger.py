"""Every row of the source documents is here, with the verdict that it was given when it was settled by hand."""

from __future__ import annotations

from typing import Any

import pytest

from threefold.claims import CLAIMS, SUBJECTS, find
from threefold.claims.claim import Claim, Outcome, Side
from threefold.claims.judge import reproduce

LEDGER = {
    "TRUE": """
        000-1.2-serial 000-1.3-c 000-1.3-a 000-1.3-y 000-1.4-dLda 000-1.4-dGo 000-1.4-dgo 000-1.4-dc
        000-1.4-dct 000-1.4-dGu 000-1.4-dgu 000-1.4-dGf 000-1.4-dgf 000-2.2-emb 000-2.2-mha 000-2.2-norm
        000-2.2-ffn 000-2.2-enc 000-2.2-dec 000-3.2-E 000-3.2-step 000-3.3 000-4.1-abs 000-4.1-rel 000-4.2-cat
        000-4.4-sin 000-4.4-rot 000-4.4-cmp 000-4.5-where 000-4.5-mat 000-4.5-m 000-4.5-pen 000-5.1-A
        000-5.1-11,22 000-5.1-outer 003-1.1-heavy 003-1.3-γ 003-1.3-c/a/z 003-1.3-L 003-1.3-da 003-1.3-dc
        003-1.3-tanh 003-1.3-dct 003-1.3-dpc 003-1.3-dgu 003-1.3-dgo 003-1.3-dcprev 003-1.3-daprev 003-1.3-dx
        003-2.1-* 003-2.2-mha 003-2.2-enc 003-2.2-dec 003-2.2-fc 003-3.1-w 003-3.2-var 003-3.3 003-4.1-fix-any
        003-4.1-rel-complex 003-4.3-norm 003-4.5-q 003-4.5-bias 003-4.5-m 003-5.1-f 003-5.2-shape 003-5.3-elt
        003-5.3-share 003-5.3-same 003-5.4-eq 001-1.1-O 001-1.2-tr 001-1.2-tab 001-1.3 001-1.4-O 001-2.3-nomp
        004-1.1-mm 004-1.1-P 004-1.1-prob 004-1.2-mac 004-1.2-φ 004-1.2-M2 004-1.2-mult 004-1.2-cnt 004-1.3-Φ
        004-1.3-Z 004-2.3-n 002-1-fin 002-2a-v 002-3-T2
    """,
    "CONDITIONAL": """
        000-1.1-prf 000-1.1-eff 000-1.2-tr 000-1.4-dWy 000-1.4-dbc 000-1.4-dWu 000-1.4-dWf 000-1.4-dbf
        000-2.2-total 000-4.1-learn 000-4.1-d1 000-4.1-d3 000-4.2-const 000-4.2-speed 000-5.4-why 003-1.1-fast
        003-1.2 003-1.3-dz 003-1.3-dW 003-2.2-emb 003-2.2-total 003-3.1-cond 003-4.1-fix-notrain
        003-4.1-lrn-cost 003-4.1-abs-ctx 003-4.1-rel-cost 003-4.2-lin 003-4.2-flex 003-5.1-map 003-5.4-noPE
        001-3.3 001-3.4-jac 001-3.4-dl 004-1.2-MK 004-1.3-inv 004-2.3-feat 002-1-nest 002-2b-W 002-2b-y
        002-2c-copy 002-3-OT 002-3-norm 002-3-f2
    """,
    "FALSE": """
        000-1.4-dLda-loc 000-1.4-dby 000-1.4-dpc 000-1.4-dWc 000-1.4-dbu 000-2.1-dim 000-3.1-den 000-3.1-zero
        000-3.1-id 000-4.1-d4 000-4.2-once 000-4.3-polar 000-5.1-12 000-5.1-21 000-5.1-goal 000-5.2 000-5.4-eq
        003-1.3-dgu-chain 003-1.3-dgf 003-1.3-db 003-3.2-prod 003-4.1-abs-long 003-4.2-unique 003-4.2-decay
        003-4.3-θ 003-5.2-soft 003-5.2-n 003-5.3-zero 001-1.1-exp 001-1.2-φ 001-1.2-dim 001-2.3-mp
        001-3.4-close 001-3.4-like 001-3.4-cos 004-1.2-sq 004-1.3-D 002-1-drop 002-2a-x1 002-2b-dot
        002-2b-self 002-3-drop 002-3-f1 002-3-nonlin 002-3-eff
    """,
    "BLANK": """
        000-1.4-dWo 000-1.4-dbo 000-1.4-miss 000-5.3 003-4.4 001-1.2-list 001-2.2 004-1.4 004-3.* 002-1-mean
    """,
    "DEFINITION": """
        000-2.1-hp 003-4.1-fix-def 003-4.1-abs-def 003-4.1-rel-def 004-1.1-Z 002-1-rec
    """,
    "EXPERIMENT": """
        000-1.1-acc 000-1.1-neg 000-1.2-gpu 000-4.1-d2 003-1.1-long 003-1.1-small 003-1.1-same
        003-4.1-fix-extra 003-4.1-fix-flex 003-4.1-lrn-adapt/perf 003-4.1-lrn-over 003-4.1-abs-simple
        003-4.1-rel-ctx 003-4.1-rel-long 003-5.4-bad 001-2.1 001-2.3-cap 001-3.1 001-3.2 004-2.1 004-2.2
        004-2.3-over 004-2.3-acc
    """,
}
CONFLICTS = tuple(f"C{n}" for n in range(1, 19))
LISTED = {Outcome.DEFINITION, Outcome.BLANK}


def settled() -> dict[str, Outcome | None]:
    """Row by row; what only runs can decide has no verdict on record."""
    return {id: None if word == "EXPERIMENT" else Outcome[word] for word, ids in LEDGER.items() for id in ids.split()}


def test_every_row_is_a_claim_with_its_verdict() -> None:
    recorded = {claim.id: claim.recorded for claim in CLAIMS}
    assert len(settled()) == 216
    assert {id: recorded.get(id, "missing") for id in settled()} == settled()


def test_every_conflict_is_adjudicated() -> None:
    for id in CONFLICTS:
        assert find(id).sources, id
        assert find(id).recorded is (None if id == "C17" else Outcome.TRUE), id


def test_ids_are_unique_and_subjects_known() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids)
    assert {claim.subject for claim in CLAIMS} == set(SUBJECTS)


def test_only_definitions_and_blanks_stand_without_evidence() -> None:
    assert {claim.recorded for claim in CLAIMS if not claim.computes} <= LISTED
    assert all(claim.corrected for claim in CLAIMS if claim.recorded in (Outcome.FALSE, Outcome.CONDITIONAL))


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.computes and c.recorded], ids=lambda c: c.id)
def test_the_lines_shown_to_reproduce_it_give_the_recorded_verdict(
    claim: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    exec("\n".join(reproduce(claim)), names)
    verdict = names["verdict"]
    wrong = [str(n) for n in verdict.numbers if not n.holds]
    assert not claim.moved(verdict), (verdict.outcome, wrong, verdict.limits)
    assert capsys.readouterr().out.splitlines()[0] == verdict.outcome.value
    assert bool(verdict.counter_example) == (claim.recorded in (Outcome.FALSE, Outcome.CONDITIONAL))
    if claim.recorded is Outcome.CONDITIONAL:
        held = {number.side for number in verdict.numbers if number.holds}
        failed = {number.side for number in verdict.numbers if not number.holds}
        assert Side.WHEN in held and Side.OTHERWISE in failed, "a case on each side of the condition"
