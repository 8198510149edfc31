"""The mixer that the guide adds is lawful, and a wrong plan or a wrong form of it is not."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from threefold.cost import B, T
from threefold.laws import LAWS, judge
from threefold.laws.law import Status
from threefold.laws.ours import MixerSubject

FILE = Path(__file__).parents[2] / "examples" / "add_a_mixer.py"
QUICK = ("forms", "streaming", "padding", "causal", "accounting", "growth", "determinism")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("add_a_mixer", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def broken(subject: MixerSubject, names: tuple[str, ...] = QUICK) -> set[str]:
    laws = [law for law in LAWS if law.name in names]
    return {verdict.law for verdict in judge(subject, laws) if verdict.status is Status.BROKEN}


def test_the_guides_mixer_is_lawful(example: ModuleType) -> None:
    assert broken(MixerSubject(example.Leaky())) == set()


def test_a_plan_that_forgets_bytes_is_seen(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = example.Leaky.plan

    def forgetful(self: object, width: int, form: object = None, conventions: object = None) -> object:
        plan = whole(self, width, form)
        return replace(plan, own=replace(plan.own, saved=plan.own.saved - B * T))

    monkeypatch.setattr(example.Leaky, "plan", forgetful)
    assert broken(MixerSubject(example.Leaky()), ("accounting", "forms")) == {"accounting"}


def test_a_mask_that_is_not_asked_is_seen(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    mix = example.LeakyMixer.mix
    monkeypatch.setattr(example.LeakyMixer, "mix", lambda self, x, state, valid, form: mix(self, x, state, None, form))
    assert broken(MixerSubject(example.Leaky()), ("padding", "determinism")) == {"padding"}
