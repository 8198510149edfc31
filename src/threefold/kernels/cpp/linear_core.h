// The loop where the time goes.
//
// For each row r of a state S (rows x lanes), held in registers while 8 tokens pass over it:
//   Y_t += read[r][t] * S_r   for the 8 tokens, then   S_r = fade * S_r + sum_t write[r][t] * U_t.
// `read` and `write` have rows of PAIR numbers: usually they are the two halves of the same rows.
// Forward: rows are features, lanes are values. Backward uses the same loop with other actors (see linear_backward.h).
#pragma once
#include "vec.h"

namespace {

// Columns in steps of NV registers; with 16 registers only half of the tokens' sums fit at once.
constexpr int NV = 2;
constexpr int TOGETHER = 2;
constexpr int SUMS = REGISTERS >= 32 ? BLOCK : BLOCK / 2;

// ROWS rows pass together, so that their sums over the 8 tokens do not wait for one another.
template <class R, int N, int ROWS, int TOKENS, bool WRITE, bool FADE>
TF_INLINE void some_rows(Lane<R> (&y)[TOKENS][N], const R* __restrict read, const R* __restrict write,
                         const R* __restrict U, long ldu, R* __restrict S, long lds, R fade) {
    constexpr int W = LANES<R>;
    Lane<R> s[ROWS][N];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) s[r][n] = lane(S + r * lds + n * W);
#pragma GCC unroll 8
    for (int t = 0; t < TOKENS; ++t)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) y[t][n] += read[r * PAIR + BLOCK - TOKENS + t] * s[r][n];
    if (!WRITE) return;
#pragma GCC unroll 8
    for (int t = 0; t < BLOCK; ++t)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
            const Lane<R> u = lane(U + t * ldu + n * W);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) {
                if (FADE && t == 0) s[r][n] *= fade;
                s[r][n] += write[r * PAIR + t] * u;
            }
        }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) lane(S + r * lds + n * W) = s[r][n];
}

// The last TOKENS tokens of the block; only the pass that writes S sees all of them.
template <class R, int N, int TOKENS, bool WRITE, bool FADE>
TF_INLINE void rows_pass(long rows, const R* read, const R* write, const R* U, long ldu, R* Y, long ldy, R* S, long lds,
                         R fade) {
    constexpr int W = LANES<R>;
    Lane<R> y[TOKENS][N];
#pragma GCC unroll 8
    for (int t = 0; t < TOKENS; ++t)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) y[t][n] = lane(Y + t * ldy + n * W);
    long r = 0;
    for (; r + TOGETHER <= rows; r += TOGETHER)
        some_rows<R, N, TOGETHER, TOKENS, WRITE, FADE>(y, read + r * PAIR, write + r * PAIR, U, ldu, S + r * lds, lds, fade);
    for (; r < rows; ++r)
        some_rows<R, N, 1, TOKENS, WRITE, FADE>(y, read + r * PAIR, write + r * PAIR, U, ldu, S + r * lds, lds, fade);
#pragma GCC unroll 8
    for (int t = 0; t < TOKENS; ++t)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) lane(Y + t * ldy + n * W) = y[t][n];
}

template <class R, int N, bool FADE>
TF_INLINE void column(long rows, const R* read, const R* write, const R* U, long ldu, R* Y, long ldy, R* S, long lds,
                      R fade) {
    if (SUMS < BLOCK)  // reads S as it was before the block, like the pass after it
        rows_pass<R, N, SUMS, false, FADE>(rows, read - (BLOCK - SUMS), write, U, ldu, Y, ldy, S, lds, fade);
    rows_pass<R, N, SUMS, true, FADE>(rows, read, write, U, ldu, Y + (BLOCK - SUMS) * ldy, ldy, S, lds, fade);
}

// `lanes` is a multiple of LANES<R>.
template <class R, bool FADE>
__attribute__((noinline)) void pass(long rows, long lanes, const R* read, const R* write, const R* U, long ldu, R* Y,
                                    long ldy, R* S, long lds, R fade) {
    constexpr int W = LANES<R>;
    long j = 0;
    for (; j + NV * W <= lanes; j += NV * W)
        column<R, NV, FADE>(rows, read, write, U + j, ldu, Y + j, ldy, S + j, lds, fade);
    for (; j < lanes; j += W) column<R, 1, FADE>(rows, read, write, U + j, ldu, Y + j, ldy, S + j, lds, fade);
}

// Y_t = sum over u <= t of g[u][t] U_u; reversed: over u >= t. Other pairs are not touched, so that what is not finite
// in one token cannot reach a token that may not see it.
template <class R, bool REVERSED>
__attribute__((noinline)) void triangle(long lanes, const R* g, const R* U, long ldu, R* Y, long ldy) {
    constexpr int W = LANES<R>;
    for (long j = 0; j < lanes; j += W) {
        Lane<R> y[BLOCK];
#pragma GCC unroll 8
        for (int t = 0; t < BLOCK; ++t) y[t] = Lane<R>{};
#pragma GCC unroll 8
        for (int u = 0; u < BLOCK; ++u) {
            const Lane<R> x = lane(U + u * ldu + j);
#pragma GCC unroll 8
            for (int t = REVERSED ? 0 : u; t < (REVERSED ? u + 1 : BLOCK); ++t) y[t] += g[u * BLOCK + t] * x;
        }
#pragma GCC unroll 8
        for (int t = 0; t < BLOCK; ++t) lane(Y + t * ldy + j) = y[t];
    }
}

}  // namespace
