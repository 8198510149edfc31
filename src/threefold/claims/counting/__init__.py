"""What the documents' transformer counts."""

from threefold.claims.claim import claims_in
from threefold.claims.counting import dimensions, parameters

CLAIMS = (*claims_in(vars(parameters)), *claims_in(vars(dimensions)))
