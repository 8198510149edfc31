// Large matrix products in the shapes that a recurrent sequence has: many rows times weights, and the weights' gradient.
#pragma once
#include "rows.h"
#include "runtime.h"

// One product. Every row is dense; lda, ldb, ldo are the rows' distances. Every field is 8 bytes.
struct Product {
    long M, K, N, lda, ldb, ldo, turned, threads;
    const void *a, *b;
    void* out;
};

namespace {

// out (M x N) = a (M x K) b, or a b^T where b is `turned` (N x K). N must fill whole panels.
template <class R> void rows_times(const Product& p) {
    const R* b = static_cast<const R*>(p.b);
    Packed<R> w(p.K, p.N);
    const long panel = w.wide * LANES<R>;
    parallel_for(p.N / panel, int(p.threads), [&](long i) {
        R* to = w.numbers.at(i * panel * p.K);
        for (long k = 0; k < p.K && !p.turned; ++k)
            memcpy(to + k * panel, b + k * p.ldb + i * panel, panel * sizeof(R));
        for (long j = 0; j < panel && p.turned; ++j)
            for (long k = 0; k < p.K; ++k) to[k * panel + j] = b[(i * panel + j) * p.ldb + k];
    });
    constexpr long together = 64;  // rows a task takes
    parallel_for((p.M + together - 1) / together, int(p.threads), [&](long i) {
        const long stop = (i + 1) * together < p.M ? (i + 1) * together : p.M;
        for (long m = i * together; m < stop; m += MOST_ROWS) {
            const int rows = int(stop - m < MOST_ROWS ? stop - m : MOST_ROWS);
            product<R>(rows, static_cast<const R*>(p.a) + m * p.lda, p.lda, w, static_cast<R*>(p.out) + m * p.ldo, p.ldo);
        }
    });
}

// ROWS rows and WIDE registers of out += a^T b over `depth` rows of a and b.
template <class R, int ROWS, int WIDE>
TF_INLINE void outer_tile(const R* a, long lda, const R* b, long ldb, long depth, R* out, long ldo) {
    constexpr int L = LANES<R>;
    Lane<R> sum[ROWS][WIDE];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < WIDE; ++i) memcpy(&sum[r][i], out + r * ldo + i * L, sizeof sum[r][i]);
    for (long k = 0; k < depth; ++k) {
        Lane<R> row[WIDE];
#pragma GCC unroll 4
        for (int i = 0; i < WIDE; ++i) memcpy(&row[i], b + k * ldb + i * L, sizeof row[i]);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < WIDE; ++i) sum[r][i] += a[k * lda + r] * row[i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < WIDE; ++i) memcpy(out + r * ldo + i * L, &sum[r][i], sizeof sum[r][i]);
}

template <class R, int WIDE> void outer_columns(const Product& p, long column) {
    constexpr long depth = 128;  // rows of b that the first-level cache holds while rows of out pass
    const R *a = static_cast<const R*>(p.a), *b = static_cast<const R*>(p.b) + column;
    R* out = static_cast<R*>(p.out) + column;
    for (long m = 0; m < p.M; m += depth) {
        const long count = p.M - m < depth ? p.M - m : depth;
        for (long k = 0; k < p.K; k += MOST_ROWS)
            outer_tile<R, MOST_ROWS, WIDE>(a + m * p.lda + k, p.lda, b + m * p.ldb, p.ldb, count, out + k * p.ldo, p.ldo);
    }
}

// out (K x N) += a^T b, with a (M x K) and b (M x N). K must be whole MOST_ROWS, N whole registers.
template <class R> void outer(const Product& p) {
    const long registers = p.N / LANES<R>, tasks = (registers + 2) / 3;
    parallel_for(tasks, int(p.threads), [&](long i) {
        const long from = registers * i / tasks, to = registers * (i + 1) / tasks;  // one to three registers
        const long column = from * LANES<R>;
        if (to - from == 3)
            outer_columns<R, 3>(p, column);
        else if (to - from == 2)
            outer_columns<R, 2>(p, column);
        else
            outer_columns<R, 1>(p, column);
    });
}

}  // namespace
