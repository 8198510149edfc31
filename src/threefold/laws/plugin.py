"""The pytest plugin: `pytest --laws=pkg.mod:Layer`, and tests made by `@laws`. Without them it imports nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from threefold.errors import InputError
from threefold.laws import IDS
from threefold.laws.declare import MARK, Declared

if TYPE_CHECKING:
    from threefold.laws.law import Verdict
    from threefold.laws.subject import Subject

ARGUMENT = "law"
TOLD = pytest.StashKey[dict[str, None]]()
SUBJECTS = pytest.StashKey[dict[Any, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("threefold", "laws of sequence layers")
    group.addoption(
        "--laws",
        action="append",
        default=[],
        metavar="WHERE",
        help="judge pkg.mod:Layer or path/to/file.py:Layer, one test a law; alone, without paths, nothing else is run",
    )
    group.addoption("--laws-with", default="{}", metavar="JSON", help="constructor arguments of the layers of --laws")
    group.addoption(
        "--laws-claims", default="{}", metavar="JSON", help="what they are meant to be, as '{\"causal\": true}'"
    )
    group.addoption("--laws-case", default="", metavar="CASE", help="replay one case, as a failure printed it")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD], config.stash[SUBJECTS] = {}, {}
    if config.getoption("--laws") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


class Layer(pytest.Collector):
    """A layer named on the command line."""

    where: str
    declared: Declared

    def collect(self) -> Iterator[LawItem]:
        try:
            self.subject()
        except InputError as error:
            raise self.CollectError(str(error)) from error
        for law in self.declared.names:
            yield LawItem.from_parent(self, name=law)

    def subject(self) -> Subject:
        """Built once for all its laws."""
        held = self.config.stash[SUBJECTS]
        if self.where not in held:
            from threefold.laws.target import load

            given = _object(self.config, "--laws-with")
            held[self.where] = _adapted(load(self.where), self.where.rpartition(":")[2], self.declared, given)
        return held[self.where]


class LawItem(pytest.Item):
    """One law of one layer."""

    def runtest(self) -> None:
        assert isinstance(self.parent, Layer)
        layer = self.parent
        options = [f"--with={given}"] if (given := self.config.getoption("--laws-with")) != "{}" else []
        for name, value in _object(self.config, "--laws-claims").items():
            options += [f"--{name}={value}"] if isinstance(value, int) and not isinstance(value, bool) else []
            options += [f"--{'' if value else 'not-'}{name}"] if isinstance(value, bool) else []
        again = shlex.join(["threefold", "laws", layer.where, *options, "--law", self.name])
        decide(self, layer.subject(), self.name, f"{again} --case ")

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.nodeid


def _object(config: pytest.Config, option: str) -> dict[str, Any]:
    text = config.getoption(option)
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise pytest.UsageError(f"{option} {text!r} is no JSON object: write {option} '{{\"causal\": true}}'.")
    return value


def _declared(config: pytest.Config) -> Declared:
    claims = _object(config, "--laws-claims")
    known = [name for name in Declared.__dataclass_fields__ if name != "names"]
    if stray := [name for name in claims if name not in known]:
        raise pytest.UsageError(f"--laws-claims: {stray[0]!r} is none of {', '.join(known)}.")
    return replace(Declared(), **claims)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for where in config.getoption("--laws"):
        _object(config, "--laws-with")
        layer = Layer.from_parent(session, name=where, nodeid=where)
        layer.where, layer.declared = where, _declared(config)
        items.extend(session.genitems(layer))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    declared = getattr(metafunc.function, MARK, None)
    if declared is not None:
        metafunc.fixturenames.append(ARGUMENT)
        metafunc.parametrize(ARGUMENT, declared.names)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the factory with its fixtures, and judge what it made."""
    declared = getattr(pyfuncitem.obj, MARK, None)
    if declared is None:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    law = str(pyfuncitem.callspec.params[ARGUMENT])
    held = pyfuncitem.config.stash[SUBJECTS]
    subject = held.get(pyfuncitem.obj) if not names else None
    if subject is None:
        from threefold.laws.guard import untouched

        with untouched():
            made = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
        subject = _adapted(made, pyfuncitem.originalname, declared, {})
        if not names:
            held[pyfuncitem.obj] = subject
    decide(pyfuncitem, subject, law, f"pytest {shlex.quote(pyfuncitem.nodeid)} --laws-case ")
    return True


def _adapted(thing: Any, name: str, declared: Declared, options: dict[str, Any]) -> Subject:
    from threefold.laws.target import subject_of

    return subject_of(
        thing, name, options=options, claims=declared.claims, width=declared.width, vocabulary=declared.ids
    )


def decide(item: pytest.Item, subject: Subject, law: str, again: str) -> None:
    """Pass, fail with the smallest case, or skip with the reason."""
    from threefold.laws.all import LAWS
    from threefold.laws.case import Case
    from threefold.laws.describe import lines
    from threefold.laws.settings import allowances

    asked = next(each for each in LAWS if each.name == law)
    text = item.config.getoption("--laws-case")
    allow = allowances(item.config.rootpath).get(law)
    verdict = asked.check(subject, Case.parse(text) if text else None, allow)
    tell(item.config, subject, verdict, allow is not None)
    if verdict.broken:
        case = verdict.where.case if verdict.where else "T=1,B=2"
        pytest.fail("\n".join(lines(verdict, asked.says, again + shlex.quote(str(case)))), pytrace=False)
    if not verdict.ok:
        pytest.skip(f"{verdict.status.value}: {verdict.reason}")


def tell(config: pytest.Config, subject: Subject, verdict: Verdict, allowed: bool) -> None:
    """Keep for the summary what was inferred and which limits were raised, and why."""
    told = config.stash[TOLD]
    told |= {f"{subject.name}: {note}": None for note in subject.notes}
    if allowed:
        told |= {f"{subject.name}: {verdict.law}: {note}": None for note in verdict.notes if "limit raised" in note}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = config.stash.get(TOLD, {})
    if told:
        terminalreporter.section("laws")
        for line in told:
            terminalreporter.line(line)


__all__ = ["IDS", "LawItem", "Layer", "decide"]
