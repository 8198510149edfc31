"""The right equations of each subject, for the head of its section: what the statements are measured against."""

from __future__ import annotations

EQUATIONS: dict[str, tuple[str, ...]] = {
    "lstm": (
        "`γ_g = W_g [a_{t−1}; x_t] + b_g`, `Γ_g = σ(γ_g)` for g = u, f, o;  `c̃ = tanh(W_c [a_{t−1}; x_t] + b_c)`",
        "`c_t = Γ_u * c̃ + Γ_f * c_{t−1}`,  `a_t = Γ_o * tanh c_t`,  `ŷ_t = softmax(W_y a_t + b_y)`",
        "`dz = ŷ − y`,  `da = W_y^T dz + da_next`,  `dc = da * Γ_o * (1 − tanh² c_t) + dc_next`",
        "`dγ_o = da * tanh c_t * Γ_o(1−Γ_o)`,  `dγ_u = dc * c̃ * Γ_u(1−Γ_u)`,  `dγ_f = dc * c_{t−1} * Γ_f(1−Γ_f)`,  "
        "`dp = dc * Γ_u * (1 − c̃²)`",
        "`dW_g = Σ_t dγ_g [a_{t−1}; x_t]^T`,  `db_g = Σ_t Σ_batch dγ_g`,  `[da_prev; dx] = Σ_g W_g^T dγ_g`,  "
        "`dc_prev = dc * Γ_f`",
    ),
    "counting": (
        "MHA `4·3(d·d_k + d_k) + 4d_k·d + d = 3,149,056`,  norm `2d = 2,048`,  FFN `2d·d_ff + d + d_ff = 1,050,112`",
        "encoder block 4,203,264 (× 12),  decoder block 7,354,368 (× 8),  core 109,274,112",
    ),
    "attention": (
        "`Y = softmax(QK^T/√d_k) V`,  4L²D FLOPs of matrix products",
        "orthogonal inputs: `a_nn = e^s/(e^s + N − 1)`, `a_nm = 1/(e^s + N − 1)`, s = ‖x_n‖²",
        "`E(a·b) = 0`, `E(a·b)² = D`, `E(a·b)⁴ = 3D² + 6D`, kurtosis `3 + 6/D`",
    ),
    "positions": (
        "`θ_i = 10000^{−2(i−1)/d}`;  sinusoidal `x_p + [sin pθ_1, cos pθ_1, …]`;  RoPE `R_p q`, `R_m^T R_n = R_{n−m}`",
        "ALiBi: score `q_i·k_j/√d − m_h(i − j)`, `m_h = 2^{−8h/H}`",
    ),
    "linear_map": (
        "`vec(Y) = (A(X) ⊗ W_v^T) vec(X)`, row by row: an N × N grid of blocks `a_nm W_v^T`",
        "`vec(XW) = (I_N ⊗ W^T) vec(X)`;  scores `X A X^T` with `A = W_q W_k^T/√D`",
    ),
    "features": (
        "`φ_α(x) = x^α/√(α!)`, |α| ≤ K  ⇒  `φ(q)·φ(k) = Σ_{n≤K} (q·k)^n/n!`;  dimension C(D+K, K)",
        "error of each exp: `ε = R^{K+1} e^R/(K+1)!`, R = max|q·k|;  total variation of a row `≤ ε/(1−ε)`",
    ),
    "cnn": ("conv1 80 · conv2 1,168 · fc1 `320F + 320` · fc2 38,520 · fc3 484;  F = 576: 224,892;  F = 400: 168,572",),
    "metrics": (
        "I = Σ_c min(A_c, B_c):  Jaccard `I/(|a| + |b| − I)`,  cosine `I/√(|a||b|)`,  "
        "Damerau–Levenshtein `1 − d/max(|a|, |b|)`",
    ),
    "rnn_comparator": ("`H_t = X_t − H_{t−1}`  ⇒  `H_T = Σ_t (−1)^{T−t} X_t + (−1)^T H_0`;  `Y = σ(1000 H_T)`",),
    "copying": ("scores `[[2B, 0, B], [0, B, 0], [B, 0, 2B]]`, B = β²;  `w_11 = e^{2B}/(e^{2B} + e^B + 1)`",),
    "experiments": (
        "at least five seeds, paired; supported if the 95 % bootstrap interval of the paired difference lies on the "
        "claimed side, refuted if on the other, undecided otherwise",
    ),
}
