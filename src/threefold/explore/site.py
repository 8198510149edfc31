"""What explore serves: the page about runs, or about a model that was never built, and what its live panels ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from threefold.cost import Plan
from threefold.errors import InputError, require
from threefold.explore.panels import dimensions, dimensions_section, ear, ear_at_the_end, ear_section
from threefold.explore.server import Hear, Site
from threefold.plan.conventions import Conventions
from threefold.plan.model import model
from threefold.report.build import page
from threefold.report.page import Page, render
from threefold.report.records import find
from threefold.specs.nets import NetSpec

if TYPE_CHECKING:
    from threefold.recipes.saved import Saved

DEMO = Path("runs") / "demo"
SIZES = {"B": 1, "T": 1024, "S": 1024}  # what the fields hold before anybody types


@dataclass(frozen=True)
class Subject:
    """What is explored: its name, what it costs, at which sizes to begin, the folder it lies in, and how it hears."""

    name: str
    plan: Plan | None = None
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    folder: Path | None = None
    hear: Hear | None = None


def site_of(word: str, width: int) -> Site:
    """The site about a run folder, a folder that holds runs, a preset, a mixer or a net.

    Without a word it is about the demonstration where that was run here, else about softmax attention.
    """
    word = word or (str(DEMO) if DEMO.is_dir() else "softmax")
    if (folder := Path(word)).is_dir():
        subject = _of_folder(folder)
    else:
        require(width >= 1, f"--width {width}: give at least 1.")
        found = model(word, width)
        subject = Subject(found.name, found.plan(None, Conventions()), found.sizes)
    about = page((folder,) if subject.folder else (), f"Threefold: {subject.name}")
    return assemble(subject, about)


def assemble(subject: Subject, about: Page) -> Site:
    """The page with the live panels that this subject allows before it, and the answers that they ask for."""
    live, answers = [], {}
    if subject.plan is not None:
        live.append(dimensions_section(subject.name, subject.plan, _sizes(subject.plan, subject.sizes)))
        answers["dimensions"] = dimensions(subject.plan)
    if subject.hear is not None:
        live.append(ear_section())
    whole = replace(about, sections=(*live, *about.sections), live=True)
    script = (files("threefold.explore") / "assets" / "live.js").read_text(encoding="utf-8")
    return Site(render(whole, script), answers, subject.hear, subject.folder)


def _sizes(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """The axes that the plan leaves open."""
    total = plan.total
    polys = (total.params, total.forward, total.backward, total.saved, total.state)
    needed = {axis for poly in polys for axis in poly.axes}
    return {axis: sizes.get(axis, size) for axis, size in SIZES.items() if axis in needed}


def _of_folder(folder: Path) -> Subject:
    """A run, or a folder that holds some: the one that hears, else the first, is what the live panels are about."""
    from threefold.recipes.saved import reopen

    opened = []
    for path in find([folder]):
        try:
            opened.append(reopen(path))
        except InputError:  # nothing was saved in it yet; the page shows its curves all the same
            continue
        if hears := _ear(opened[-1]):
            return Subject(_title(opened[-1]), _plan(opened[-1]), folder=folder, hear=hears)
    if not opened:
        return Subject(folder.name, folder=folder)
    return Subject(_title(opened[0]), _plan(opened[0]), folder=folder)


def _title(saved: Saved) -> str:
    return f"{saved.recipe.name}, {saved.run.folder.name}"


def _plan(saved: Saved) -> Plan | None:
    spec = getattr(saved.model, "spec", None)
    return spec.plan() if isinstance(spec, NetSpec) else None


def _ear(saved: Saved) -> Hear | None:
    """How a speech run hears: as the sound comes where its encoder can follow, else when it has ended."""
    from threefold.recipes.speech_task import SpeechTask

    task, net = saved.task, saved.model
    if not isinstance(task, SpeechTask):
        return None
    if task.spec.streams and task.spec.ctc:
        return ear(lambda: task.listen(net))
    return ear_at_the_end(lambda path: str(saved.predict([str(path)])[0]["text"]), task.spec.front.sample_rate)
