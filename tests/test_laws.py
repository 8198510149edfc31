"""Every mixer of the catalogue under every law: the backbone of the tests.

All of it takes more than a minute of one core. So by default the mixers without variants meet every law, and the
others, which differ from them by their position, meet those that a position can break. `make test-all` runs them all.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from threefold.laws import IDS, LAWS, MixerSubject, Status
from threefold.laws.describe import brief
from threefold.laws.law import Law
from threefold.mixers.catalog import CATALOG, MIXERS, WIDTH

OF_POSITIONS = ("forms", "streaming", "causal", "batch", "permutation", "shift")
SILENT = {  # what a mixer's traits exempt it from, by law
    "forms": lambda spec: len(spec.traits.forms) < 2,
    "streaming": lambda spec: not spec.traits.causal,
    "causal": lambda spec: not spec.traits.causal,
    "permutation": lambda spec: False,
    "shift": lambda spec: getattr(spec, "position", None) is None or not spec.position.relative,
    "features": lambda spec: not hasattr(spec, "features"),
}


@cache
def subject(index: int) -> MixerSubject:
    return MixerSubject(CATALOG[index], WIDTH, name=brief(CATALOG[index]))


def pairs() -> list:
    found = []
    for index, spec in enumerate(CATALOG):
        for law in LAWS:
            fast = index < len(MIXERS) or law.name in OF_POSITIONS
            marks = () if fast else (pytest.mark.slow,)
            found.append(pytest.param(index, law, id=f"{law.name}-{index}-{brief(spec)}", marks=marks))
    return found


@pytest.mark.parametrize(("index", "law"), pairs())
def test_the_catalogue_is_lawful(index: int, law: Law) -> None:
    verdict = law.check(subject(index))
    assert not verdict.broken, verdict
    assert verdict.status is not Status.UNRUN, verdict.reason
    assert verdict.ok or verdict.reason
    if verdict.ok:
        assert verdict.cases > 0 and verdict.witness


def test_no_law_is_silent_about_the_whole_catalogue() -> None:
    """Every law speaks of some mixer, and is silent only where the traits say so."""
    spoken = {law.name: [] for law in LAWS}
    for index, spec in enumerate(CATALOG):
        for law in LAWS:
            absent = law.applies(subject(index))
            if absent is None:
                spoken[law.name].append(spec)
            elif law.name in SILENT and law.name not in ("shift", "permutation"):
                assert SILENT[law.name](spec), f"{law.name} is silent about {brief(spec)}: {absent.reason}"
    assert all(spoken[name] for name in IDS), spoken


def test_the_laws_stand_in_their_order() -> None:
    assert tuple(law.name for law in LAWS) == IDS
    assert all(law.says and not law.says.endswith(".") for law in LAWS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_every_law_has_a_page_that_says_what_it_says(law: Law) -> None:
    page = (Path(__file__).parents[1] / "docs" / "laws" / f"{law.name}.md").read_text(encoding="utf-8")
    assert f"The law: {law.says}." in page
    titles = ("## What is checked", "## Why it matters", "## A bug that it would have caught", "## How to mend it")
    assert all(page.count(f"{title}\n") == 1 for title in titles)
    bug = page.split(titles[2])[1].split(titles[3])[0]
    assert "](https://github.com/" in bug, "a bug that shipped, with its link"
