"""Attention as one matrix on vec(X), row by row: an N x N grid of D x D blocks.

vec(X W) = (I_N kron W^T) vec(X);  vec(Y) = (A(X) kron W_v^T) vec(X);  heads: sum_h A^h kron (W_v^h W_o^h)^T.
A depends on X, so this is not a linear function of X, and its matrix is not the Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from threefold.claims import attend


@dataclass(frozen=True)
class Attention:
    """Y = softmax(X W_q W_k^T X^T / sqrt(D)) X W_v, one head."""

    W_q: Float[Tensor, "d d"]
    W_k: Float[Tensor, "d d"]
    W_v: Float[Tensor, "d d"]
    causal: bool = False

    @staticmethod
    def drawn(D: int, *, causal: bool = False, seed: int = 0) -> Attention:
        """With random weights."""
        W_q, W_k, W_v = (attend.random(D, D, seed=seed + i) for i in range(3))
        return Attention(W_q, W_k, W_v, causal)

    @property
    def parameters(self) -> int:
        """3 D^2, whatever the length."""
        return self.W_q.numel() + self.W_k.numel() + self.W_v.numel()

    @property
    def form(self) -> Float[Tensor, "d d"]:
        """A = W_q W_k^T / sqrt(D), so that the scores are X A X^T."""
        return self.W_q @ self.W_k.T / self.W_q.shape[1] ** 0.5

    def scores(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
        """Q K^T / sqrt(D)."""
        return (x @ self.W_q) @ (x @ self.W_k).T / self.W_q.shape[1] ** 0.5

    def weights(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
        """A(X)."""
        return attend.weights(x @ self.W_q / self.W_q.shape[1] ** 0.5, x @ self.W_k, causal=self.causal)

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return attend.attend(x @ self.W_q / self.W_q.shape[1] ** 0.5, x @ self.W_k, x @ self.W_v, causal=self.causal)


def mixing(attention: Attention, x: Float[Tensor, "n d"]) -> Float[Tensor, "nd nd"]:
    """A(X) kron W_v^T: block (n, m) is a_nm W_v^T."""
    return torch.kron(attention.weights(x), attention.W_v.T.contiguous())


def projection(W: Float[Tensor, "d e"], N: int) -> Float[Tensor, "ne nd"]:
    """I_N kron W^T: the same block N times, and zero blocks elsewhere."""
    return torch.kron(torch.eye(N, dtype=W.dtype), W.T.contiguous())


def blocks(matrix: Float[Tensor, "ne nd"], N: int) -> Float[Tensor, "n n e d"]:
    """The matrix as its N x N grid."""
    return matrix.unflatten(0, (N, -1)).unflatten(2, (N, -1)).transpose(1, 2)


def zero_blocks(matrix: Float[Tensor, "ne nd"], N: int) -> int:
    """How many of the N^2 blocks are entirely zero."""
    return int((blocks(matrix, N) == 0).all(-1).all(-1).sum())


def score_tensor(form: Float[Tensor, "d d"], N: int) -> Float[Tensor, "nd nd n n"]:
    """M[(n,i), (m,j), n, m] = A_ij, else 0: the scores as a contraction with vec(X) vec(X)^T."""
    D = len(form)
    M = torch.zeros(N, D, N, D, N, N, dtype=form.dtype)
    for n in range(N):
        for m in range(N):
            M[n, :, m, :, n, m] = form
    return M.reshape(N * D, N * D, N, N)


def sketch(N: int = 4, D: int = 3) -> str:
    """The three matrices as a picture: projection, mixing, and mixing under a causal mask."""
    from threefold.claims.picture import grid

    x, full, masked = attend.random(N, D, seed=5), Attention.drawn(D), Attention.drawn(D, causal=True)
    pictures = (
        ("projection: I ⊗ Wᵀ", projection(full.W_v, N)),
        ("mixing: A(X) ⊗ Wᵥᵀ", mixing(full, x)),
        ("mixing, causal mask", mixing(masked, x)),
    )
    return grid([(title, matrix.tolist()) for title, matrix in pictures], N)
