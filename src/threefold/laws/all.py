"""The laws, in the order in which they are judged. To add one: a file, its line here, its id in IDS, its mutants and page."""

from threefold.laws import (
    accounting,
    batch,
    causality,
    determinism,
    features,
    forms,
    gradient,
    growth,
    padding,
    permutation,
    shift,
    stability,
    streaming,
)
from threefold.laws.law import Law

LAWS: tuple[Law, ...] = (
    gradient.LAW,
    forms.LAW,
    streaming.LAW,
    causality.LAW,
    padding.LAW,
    batch.LAW,
    permutation.LAW,
    shift.LAW,
    features.LAW,
    accounting.LAW,
    growth.LAW,
    stability.LAW,
    determinism.LAW,
)
