"""Facts about softmax attention, and what it costs."""

from threefold.claims.attention import complexity, dropped_exp, heads, orthogonal
from threefold.claims.claim import claims_in

CLAIMS = (
    *claims_in(vars(orthogonal)),
    *claims_in(vars(heads)),
    *claims_in(vars(complexity)),
    *claims_in(vars(dropped_exp)),
)
