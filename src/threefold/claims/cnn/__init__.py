"""The convolutional nets."""

from threefold.claims.claim import claims_in
from threefold.claims.cnn import sizes

CLAIMS = (*claims_in(vars(sizes)),)
