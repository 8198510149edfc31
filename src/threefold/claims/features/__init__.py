"""Attention by the exponential's series."""

from threefold.claims.claim import claims_in
from threefold.claims.features import approximation, maps

CLAIMS = (*claims_in(vars(maps)), *claims_in(vars(approximation)))
