"""Statements that only runs can decide, and the experiments that decide them."""

from threefold.claims.claim import claims_in
from threefold.claims.experiments import rows

CLAIMS = claims_in(vars(rows))
