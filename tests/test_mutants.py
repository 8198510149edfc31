"""Every law rejects each of its mutants and accepts the healthy twin. A check never seen to fail proves nothing."""

from collections import Counter
from functools import cache

import pytest

from tests.laws.mutants import TWELVE, Mutant, Sound, subject
from tests.laws.mutants_forms import FORMS
from tests.laws.mutants_native import BLOCK, NATIVE
from tests.laws.mutants_numbers import NUMBERS
from tests.laws.mutants_order import ORDER
from threefold.laws import IDS, LAWS, Verdict

MUTANTS: tuple[Mutant, ...] = (*TWELVE, *ORDER, *FORMS, *NUMBERS, *NATIVE)
BY_NAME = {law.name: law for law in LAWS}


@cache
def accepted(law: str, sound: object) -> Verdict:
    return BY_NAME[law].check(sound())  # type: ignore[operator]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_law_rejects_its_mutant_and_accepts_the_twin(mutant: Mutant) -> None:
    broken = mutant.broken()
    verdict = BY_NAME[mutant.law].check(broken)
    assert verdict.broken, f"{mutant.law} let {mutant.name} pass: {verdict}"
    assert verdict.where is not None, verdict.reason
    assert verdict.where.finding.error > verdict.where.finding.limit
    twin = accepted(mutant.law, mutant.sound)
    assert twin.ok, f"{mutant.law} rejects the twin of {mutant.name}: {twin}"


def test_there_are_enough_of_them() -> None:
    counts = Counter(mutant.law for mutant in MUTANTS)
    assert sum(counts.values()) >= 40
    assert all(counts[law] >= 2 for law in IDS), counts
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_sound_subject_passes_every_law() -> None:
    sound = subject(Sound)()
    for law in LAWS:
        verdict = law.check(sound)
        assert not verdict.broken, verdict
        assert verdict.ok or verdict.reason


def test_a_counterexample_is_the_smallest() -> None:
    """Where the smallest case is known: one leaked token needs two; a leak in blocks of 64 needs 64."""
    found = {mutant.name: BY_NAME[mutant.law].check(mutant.broken()) for mutant in TWELVE[:3]}
    cases = {name: verdict.where.case for name, verdict in found.items() if verdict.where}
    assert (cases["sees one token ahead"].T, cases["sees one token ahead"].at) == (2, 1)
    assert (cases["block leak"].T, cases["block leak"].at) == (64, 1)
    edge = BY_NAME["forms"].check(NATIVE[0].broken())
    assert edge.where is not None and edge.where.case.T == BLOCK + 1
    assert (cases["leak with weights +1 and -1"].T, cases["leak with weights +1 and -1"].feature) == (2, 0)
