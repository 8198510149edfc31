"""Position encodings."""

from threefold.claims.claim import claims_in
from threefold.claims.positions import absolute, alibi, rotary, tables

CLAIMS = (*claims_in(vars(tables)), *claims_in(vars(absolute)), *claims_in(vars(rotary)), *claims_in(vars(alibi)))
