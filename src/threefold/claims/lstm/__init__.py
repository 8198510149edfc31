"""The LSTM and the GRU: equations, gradients, sizes."""

from threefold.claims.claim import claims_in
from threefold.claims.lstm import backward, forward, gru, sums

CLAIMS = (*claims_in(vars(forward)), *claims_in(vars(backward)), *claims_in(vars(sums)), *claims_in(vars(gru)))
