// One token of a recurrent cell: rows of the weights as they lie meet the token and the state; then come the gates.
//
// A step reads every weight once, so nothing is packed. A task owns some of the hidden units: it forms what enters all
// their gates, for every row of the batch, and finishes them. Only a reset before the product wants all of Gamma_r * h
// first, and takes a second round. Each thread owns the same units at every step: their weights wait in its own cache.
#pragma once
#include "recurrent_core.h"

// One call. Every field is 8 bytes.
struct RecurrentStep {
    long kind, B, D, N, threads, x_b;  // x_b: the distance of the rows of x
    const void *x, *wx, *wh;           // (B, D), (G N, D), (G N, N)
    const void *bias, *inner;          // (G N) or null, (N) or null
    const void *h0, *c0;               // (B, N), (B, N) or null
    const unsigned char* valid;        // (B) or null
    void *h, *c;                       // (B, N), the same or null
    void* kept;                        // (B, K N), or null where no gradient will be asked for
};

namespace {

template <class R> TF_INLINE R total(Lane<R> x) {
    R part[LANES<R>];
    memcpy(part, &x, sizeof x);
#pragma GCC unroll 4
    for (int half = LANES<R> / 2; half; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; ++i) part[i] += part[i + half];
    return part[0];
}

// sum[r][u] += row a + r a_row times row w + u depth, register by register. The rows of w that come next are fetched.
template <class R, int ROWS, int UNITS>
TF_INLINE void meet(Lane<R> (&sum)[ROWS][UNITS], const R* a, long a_row, const R* w, long depth) {
    constexpr long L = LANES<R>;
    long k = 0;
    for (; k + L <= depth; k += L) {
        Lane<R> given[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r) given[r] = load<R>(a + r * a_row + k, L);
#pragma GCC unroll 8
        for (int u = 0; u < UNITS; ++u) {
            const Lane<R> weight = load<R>(w + u * depth + k, L);
            __builtin_prefetch(w + (UNITS + u) * depth + k);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) sum[r][u] += given[r] * weight;
        }
    }
    if (k == depth) return;
    for (int u = 0; u < UNITS; ++u)
        for (int r = 0; r < ROWS; ++r) sum[r][u] += load<R>(a + r * a_row + k, depth - k) * load<R>(w + u * depth + k, depth - k);
}

template <class R, int KIND> struct StepUnits {
    static constexpr int L = LANES<R>, G = gates_of(KIND), K = kept_of(KIND);
    static constexpr bool GRU = KIND == RESET_BEFORE || KIND == RESET_AFTER;
    static constexpr int SUMS = KIND == RESET_AFTER ? 4 : G;  // one for each gate; W_ch h stands apart from W_cx x
    static constexpr int ROWS = REGISTERS == 32 ? 4 : 2;      // rows of the batch that meet a weight together
    static constexpr int UNITS = L < 4 ? L : 4, MORE = REGISTERS == 32 && L >= 8 ? 8 : UNITS;

    // `later` (B, 3 N) carries Gamma_r * h, Gamma_u and W_cx x + b from the first round to the second.
    StepUnits(const RecurrentStep& call, R* later) : c(call), N(call.N), later(later), sums(call.B * SUMS * L) {}

    // The units [from, to): whole registers of them, but for the last.
    void first(long from, long to) {
        const R* state = static_cast<const R*>(c.h0);
        for (long j = from; j < to; j += L) {
            for (int g = 0; g < (GRU ? 2 : G); ++g) dots(g, g, j, true, state);
            if (GRU) dots(2, 2, j, true, nullptr);
            if (KIND == RESET_AFTER) dots(3, 2, j, false, state);
            for (long b = 0; b < c.B; ++b) KIND == RESET_BEFORE ? before_reset(b, j) : advance(b, j);
        }
    }
    void second(long from, long to) {
        for (long j = from; j < to; j += L) {
            dots(0, 2, j, false, later, 3 * N);
            for (long b = 0; b < c.B; ++b) after_reset(b, j);
        }
    }

  private:
    // Sum s of the units [j, j + L): gate g's rows by the token where it goes `inward`, and by a state where there is one.
    void dots(int s, int g, long j, bool inward, const R* state, long state_row = 0) {
        const long count = N - j < L ? N - j : L;
        if (!state_row) state_row = N;
        for (long b = 0, u; b < c.B; b += together(b))
            for (u = 0; u < count; u += u + MORE <= count && together(b) == 1 ? MORE : u + UNITS <= count ? UNITS : 1) {
                if (u + UNITS > count)
                    together(b) == 1 ? dot<1, 1>(b, s, g, j, u, inward, state, state_row)
                                     : dot<ROWS, 1>(b, s, g, j, u, inward, state, state_row);
                else if (together(b) == ROWS)
                    dot<ROWS, UNITS>(b, s, g, j, u, inward, state, state_row);
                else if (u + MORE <= count)
                    dot<1, MORE>(b, s, g, j, u, inward, state, state_row);
                else
                    dot<1, UNITS>(b, s, g, j, u, inward, state, state_row);
            }
    }
    long together(long b) const { return b + ROWS <= c.B ? ROWS : 1; }

    template <int M, int W> void dot(long b, int s, int g, long j, long u, bool inward, const R* state, long state_row) {
        Lane<R> found[M][W] = {};
        const long row = g * N + j + u;
        if (inward) meet(found, static_cast<const R*>(c.x) + b * c.x_b, c.x_b, static_cast<const R*>(c.wx) + row * c.D, c.D);
        if (state) meet(found, state + b * state_row, state_row, static_cast<const R*>(c.wh) + row * N, N);
#pragma GCC unroll 4
        for (int r = 0; r < M; ++r)
#pragma GCC unroll 8
            for (int i = 0; i < W; ++i) sums.at(((b + r) * SUMS + s) * L)[u + i] = total<R>(found[r][i]);
    }

    TF_METHOD Lane<R> sum(long b, int s) const { return lane(sums.at((b * SUMS + s) * L)); }
    TF_METHOD Lane<R> given(long b, int g, long j) const { return sum(b, g) + entry(c.bias, g * N + j, N - j); }
    static TF_METHOD Lane<R> entry(const void* p, long i, long n) {
        return p ? load<R>(static_cast<const R*>(p) + i, n) : Lane<R>{};
    }
    TF_METHOD void set(void* p, long i, Lane<R> value, long n) const { store<R>(static_cast<R*>(p) + i, value, n); }
    TF_METHOD bool valid(long b) const { return !c.valid || c.valid[b]; }

    // An invalid token: the state stays, to the bit; nothing of its gates is kept.
    TF_METHOD bool stays(long b, long j) const {
        if (valid(b)) return false;
        const long n = N - j, i = b * N + j;
        set(c.h, i, entry(c.h0, i, n), n);
        if (KIND == LSTM) set(c.c, i, entry(c.c0, i, n), n);
        for (int k = 0; c.kept && k < K; ++k) set(c.kept, (b * K + k) * N + j, Lane<R>{}, n);
        return true;
    }
    TF_METHOD void keep(long b, long j, int k, Lane<R> value) const {
        if (c.kept) set(c.kept, (b * K + k) * N + j, value, N - j);
    }

    void advance(long b, long j) {
        if (stays(b, j)) return;
        const long n = N - j, i = b * N + j;
        if (KIND == TANH || KIND == IDENTITY) {
            const Lane<R> p = given(b, 0, j);
            set(c.h, i, KIND == TANH ? hyperbolic_tangent<R>(p) : p, n);
        } else if (KIND == LSTM) {
            const Lane<R> u = sigmoid<R>(given(b, 0, j)), f = sigmoid<R>(given(b, 1, j));
            const Lane<R> candidate = hyperbolic_tangent<R>(given(b, 2, j)), o = sigmoid<R>(given(b, 3, j));
            const Lane<R> now = u * candidate + f * entry(c.c0, i, n);
            set(c.c, i, now, n);
            set(c.h, i, o * hyperbolic_tangent<R>(now), n);
            keep(b, j, 0, u), keep(b, j, 1, f), keep(b, j, 2, candidate), keep(b, j, 3, o);
        } else {
            const Lane<R> r = sigmoid<R>(given(b, 0, j)), u = sigmoid<R>(given(b, 1, j));
            const Lane<R> m = sum(b, 3) + entry(c.inner, j, n);
            const Lane<R> candidate = hyperbolic_tangent<R>(given(b, 2, j) + r * m);
            set(c.h, i, u * candidate + (R(1) - u) * entry(c.h0, i, n), n);
            keep(b, j, 0, r), keep(b, j, 1, u), keep(b, j, 2, candidate), keep(b, j, 3, m);
        }
    }
    void before_reset(long b, long j) {
        const long n = N - j, i = b * 3 * N + j;
        const Lane<R> r = sigmoid<R>(given(b, 0, j)), u = sigmoid<R>(given(b, 1, j));
        set(later, i, r * entry(c.h0, b * N + j, n), n);
        set(later, i + N, u, n);
        set(later, i + 2 * N, given(b, 2, j), n);
        keep(b, j, 0, r);
    }
    void after_reset(long b, long j) {
        if (stays(b, j)) return;
        const long n = N - j, i = b * N + j;
        const Lane<R> u = entry(later, b * 3 * N + N + j, n);
        const Lane<R> candidate = hyperbolic_tangent<R>(entry(later, b * 3 * N + 2 * N + j, n) + sum(b, 0));
        set(c.h, i, u * candidate + (R(1) - u) * entry(c.h0, i, n), n);
        keep(b, j, 1, u), keep(b, j, 2, candidate);
    }

    const RecurrentStep& c;
    const long N;
    R* later;
    Buffer<R> sums;
};

template <class R, int KIND> void recurrent_step(const RecurrentStep& c) {
    constexpr int L = LANES<R>;
    const long blocks = padded(c.N, L) / L, tasks = blocks < c.threads ? blocks : c.threads;
    Buffer<R> later(KIND == RESET_BEFORE ? c.B * 3 * c.N : 0);
    const auto share = [&](long i) { return std::min(blocks * i / tasks * L, c.N); };
    parallel_for(tasks, int(c.threads), [&](long i) { StepUnits<R, KIND>(c, later.data).first(share(i), share(i + 1)); });
    if (KIND == RESET_BEFORE)
        parallel_for(tasks, int(c.threads), [&](long i) { StepUnits<R, KIND>(c, later.data).second(share(i), share(i + 1)); });
}

}  // namespace
