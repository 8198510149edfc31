"""Attention as one large matrix."""

from threefold.claims.claim import claims_in
from threefold.claims.linear_map import blocks, full_map

CLAIMS = (*claims_in(vars(full_map)), *claims_in(vars(blocks)))
