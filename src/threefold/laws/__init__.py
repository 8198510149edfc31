"""Executable laws of sequence layers. Names load when they are asked for, so that the pytest plugin needs no torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

IDS = (
    "gradient",
    "forms",
    "streaming",
    "causal",
    "padding",
    "batch",
    "permutation",
    "shift",
    "features",
    "accounting",
    "growth",
    "stability",
    "determinism",
)
"""Every law, in the order in which they are judged."""

_HOMES = {
    "Law": "law",
    "Verdict": "law",
    "Status": "law",
    "Allowance": "law",
    "judge": "law",
    "judging": "law",
    "Case": "case",
    "Subject": "subject",
    "Claims": "subject",
    "MixerSubject": "ours",
    "ModuleSubject": "foreign",
    "subject_of": "target",
    "laws": "declare",
    "LAWS": "all",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'threefold.laws' has no attribute {name!r}")
    return getattr(import_module(f"threefold.laws.{_HOMES[name]}"), name)


__all__ = ["IDS", *sorted(_HOMES)]
