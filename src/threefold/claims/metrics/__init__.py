"""Measures of strings and classes."""

from threefold.claims.claim import claims_in
from threefold.claims.metrics import averages, strings

CLAIMS = (*claims_in(vars(strings)), *claims_in(vars(averages)))
