"""What a typed word names: a preset, a mixer or a net, with the sizes at which it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from threefold.cost import Plan
from threefold.errors import InputError, nearest, require
from threefold.plan.conventions import Conventions
from threefold.plan.presets import PRESETS, convention
from threefold.specs.base import Form, MixerSpec
from threefold.specs.nets import NetSpec, Seq2SeqSpec
from threefold.specs.speech import SpeechSpec
from threefold.specs.vision import CNNSpec
from threefold.specs.words import read, words

DEFAULT = {"B": 1, "T": 1024}


@dataclass(frozen=True)
class Model:
    """A spec under a name. `variants` are the other nets of a preset that has several."""

    name: str
    spec: MixerSpec | NetSpec
    sizes: Mapping[str, int]
    width: int = 0
    variants: Mapping[str, NetSpec] | None = None

    def plan(self, form: Form | None, conventions: Conventions) -> Plan:
        """Its plan."""
        if isinstance(self.spec, MixerSpec):
            require(
                form is None or form in self.spec.traits.forms,
                f"{self.name} has no {form and form.value} form; it has {self._forms}.",
            )
            return self.spec.plan(self.width, form, conventions)
        return self.spec.plan(form, conventions)

    @property
    def every(self) -> tuple[Model, ...]:
        """This one, and the preset's other nets."""
        nets = self.variants or {}
        return tuple(replace(self, name=name, spec=spec, variants=None) for name, spec in nets.items()) or (self,)

    @property
    def _forms(self) -> str:
        assert isinstance(self.spec, MixerSpec)
        return ", ".join(form.value for form in self.spec.traits.forms)


def model(text: str, width: int, under: str = "") -> Model:
    """The model that a word names; `under` is a counting convention of an encoder-decoder."""
    found = _named(text, width)
    if not under:
        return found
    require(
        isinstance(found.spec, Seq2SeqSpec), f"{under!r} is a convention of encoder-decoder models; plan encdec-12-8."
    )
    assert isinstance(found.spec, Seq2SeqSpec)
    return Model(f"{found.name} {under}", convention(under, found.spec), found.sizes)


def _named(text: str, width: int) -> Model:
    if text in PRESETS:
        preset = PRESETS[text]
        return Model(text, preset.main, preset.sizes, variants=preset.nets)
    head = text.partition("(")[0].strip()
    if text.startswith("{") or "(" in text:
        nets = _nets()
        if head in nets or (text.startswith("{") and any(f'"{name}"' in text.split(",")[0] for name in nets)):
            spec = read(text, NetSpec)
            return Model(head if "(" in text else type(spec).__name__, spec, _sizes(spec))
        return Model(text, read(text, MixerSpec), DEFAULT, width)
    try:
        return Model(text, read(text, MixerSpec), DEFAULT, width)
    except InputError:
        known = (*PRESETS, *words(MixerSpec))
        raise InputError(
            f"no model {text!r}{nearest(text.lower(), known) or '.'} Presets: {', '.join(PRESETS)}; "
            f"mixers: {', '.join(words(MixerSpec))}; or path/to/file.py:Module."
        ) from None


def _nets() -> dict[str, type]:
    from threefold.specs.base import descendants

    return {kind.__name__: kind for kind in descendants(NetSpec)}


def _sizes(spec: NetSpec) -> Mapping[str, int]:
    match spec:
        case CNNSpec():
            return {"B": 1}
        case Seq2SeqSpec() | SpeechSpec():
            return {**DEFAULT, "S": DEFAULT["T"]}
    return DEFAULT
