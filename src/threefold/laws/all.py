"""The laws, in the order in which they are judged. To add one: a file, a line here, an id in IDS, mutants, a page."""

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
