// Causal linear attention, 8 tokens at a time: what forward and backward share.
//
// With base(x) the activation of a query or key and P the kernel's polynomial, phi(q).phi(k) = P(base(q).base(k)):
//   identity, relu, elu+1:  P(s) = s                    phi = base
//   Taylor 1:               P(s) = 1 + s                phi = [1, x]
//   Taylor 2:               P(s) = 1 + s + s^2 / 2      phi = [1, x_i, x_i x_j (i < j) or x_i^2 / sqrt 2]
// Pairs inside a block use P of the dot product; pairs across blocks go through the state.
#pragma once
#include "vec.h"

namespace {

enum Activation { IDENTITY = 0, RELU = 1, ELU1 = 2 };

// Sizes, strides (in elements) and addresses of one call. Every field is 8 bytes: Python packs it in this order.
struct Call {
    int64_t B, T, H, K, V, F;
    int64_t activation, degree;  // degree 0: an inner-product map
    int64_t normalised, threads, slices, heads;  // heads: how many a task takes
    int64_t streams;       // results go past the caches
    double scale;          // on q, before the activation
    const double* rates;   // (H): the state fades by exp(-rate) a token; null: it does not
    const uint8_t* valid;  // (B, T); null: all
    const void *q, *k, *v;
    int64_t q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h;
    const void *S0, *z0;  // (B, H, F, V), (B, H, F); null: zero
    void *y, *n, *S, *z;  // (B, T, H, V), (B, H, T), as S0 and z0
    int64_t* bad;         // (B): normalisers that were not positive are counted here
    // backward only
    const void *dy, *dS, *dz;                     // gradients of y (B, T, H, V), S, z; null: zero
    void *dq, *dk, *dv, *dS0, *dz0;               // gradients out; with several slices dq and dk are (slices, B, T, H, K)
};

constexpr int GROUP = 160;  // features made at a time: enough for Taylor 2 of 16 numbers, little beside its state

template <class R> struct Kernel {  // P and P'
    R p0, p1, p2;
    explicit Kernel(long degree) : p0(degree > 0), p1(1), p2(degree == 2 ? R(0.5) : R(0)) {}
    Wide<R> value(Wide<R> s) const { return (p2 * s + p1) * s + p0; }
    Wide<R> slope(Wide<R> s) const { return 2 * p2 * s + p1; }
};

// Which of a block's tokens count, and how the state fades across them.
template <class R> struct Fade {
    Wide<R> real;          // 1 where the token is real, else 0
    Wide<R> since_start;   // product of the factors up to and including t
    Wide<R> until_end;     // product of the factors after t
    Wide<R> between[BLOCK];  // [u] lane t: product after u up to t, 0 where t < u or u is not real
    Pair<R> on_rows;       // since_start beside until_end, 0 where a token is not real
    R whole;               // product of all the factors
    bool full, fades;
    double exact, carried = 1;

    // Rounded anew for each block so that the product over many blocks does not drift away from the true one.
    void next_block() {
        const double wanted = exact * carried;
        whole = R(wanted);
        carried = whole != 0 ? wanted / double(whole) : 1;
    }

    void set(const uint8_t* valid, long count, double factor) {
        double g[BLOCK], m[BLOCK];
        full = count == BLOCK;
        for (int t = 0; t < BLOCK; ++t) {
            m[t] = t < count && (!valid || valid[t]);
            g[t] = m[t] != 0 ? factor : 1;
            full = full && m[t] != 0;
        }
        fades = factor != 1;
        exact = 1;
        for (int t = 0; t < BLOCK; ++t) since_start[t] = R(exact *= g[t]), real[t] = R(m[t]);
        double after = 1;
        for (int t = BLOCK - 1; t >= 0; --t) until_end[t] = R(after), after *= g[t];
        for (int t = 0; t < BLOCK; ++t) on_rows[t] = since_start[t], on_rows[BLOCK + t] = until_end[t] * real[t];
        for (int u = 0; u < BLOCK; ++u) {
            double product = m[u];
            for (int t = 0; t < BLOCK; ++t) {
                if (t > u) product *= g[t];
                between[u][t] = t < u ? R(0) : R(product);
            }
        }
    }
};

// Rows of 8 tokens, each `n` numbers, times `by`, into Wide columns PAIR apart; the rows of tokens that are not real are
// never read.
template <class R, class In>
TF_INLINE void load_wide(R* to, const In* from, long stride, long n, const Fade<R>& fade, R by) {
    for (long i = 0; i < n; i += BLOCK) {
        Wide<R> x[BLOCK];
        const long left = n - i < BLOCK ? n - i : BLOCK;
        if (fade.full && left == BLOCK) {
#pragma GCC unroll 8
            for (int t = 0; t < BLOCK; ++t) x[t] = load8(from + t * stride + i);
        } else {
            for (int t = 0; t < BLOCK; ++t) {
                R row[BLOCK] = {};
                for (long j = 0; fade.real[t] != 0 && j < left; ++j) row[j] = widen(from[t * stride + i + j]);
                x[t] = load8(row);
            }
        }
        transpose<R>(x);
        for (long j = 0; j < left; ++j) at(to + (i + j) * PAIR) = x[j] * by;
    }
}

// The cache lines that the next block will want.
template <class In> TF_INLINE void prefetch_rows(const In* from, long stride, long n) {
    for (int t = 0; t < BLOCK; ++t)
        for (long j = 0; j < n; j += 64 / long(sizeof(In))) __builtin_prefetch(from + t * stride + j);
}
template <class Out> TF_INLINE void prefetch_rows_to_write(Out* to, long stride, long n) {
    for (int t = 0; t < BLOCK; ++t)
        for (long j = 0; j < n; j += 64 / long(sizeof(Out))) __builtin_prefetch(to + t * stride + j, 1);
}

// n Wide columns, `apart`, into token-major rows of length ld (a multiple of 8, at least n).
template <class R> TF_INLINE void to_rows(R* to, long ld, const R* from, long apart, long n) {
    for (long i = 0; i < n; i += BLOCK) {
        Wide<R> x[BLOCK];
        for (int j = 0; j < BLOCK; ++j) x[j] = i + j < n ? at(from + (i + j) * apart) : wide<R>(0);
        transpose<R>(x);
        for (int t = 0; t < BLOCK; ++t) at(to + t * ld + i) = x[t];
    }
}

// Token-major rows into n Wide columns, `apart`.
template <class R> TF_INLINE void to_wide(R* to, long apart, const R* from, long ld, long n) {
    for (long i = 0; i < n; i += BLOCK) {
        Wide<R> x[BLOCK];
        for (int t = 0; t < BLOCK; ++t) x[t] = at(from + t * ld + i);
        transpose<R>(x);
        for (int j = 0; j < BLOCK && i + j < n; ++j) at(to + (i + j) * apart) = x[j];
    }
}

// Rows of 8 tokens into token-major rows of length ld, as they are.
template <class R, class In>
TF_INLINE void load_rows(R* to, long ld, const In* from, long stride, long n, const Fade<R>& fade) {
    for (int t = 0; t < BLOCK; ++t) {
        R* row = to + t * ld;
        const In* p = from + t * stride;
        if (!fade.full && fade.real[t] == 0) {
            memset(static_cast<void*>(row), 0, n * sizeof(R));
            continue;
        }
        long j = 0;
        for (; j + BLOCK <= n; j += BLOCK) at(row + j) = load8(p + j);
        for (; j < n; ++j) row[j] = widen(p[j]);
    }
}

template <class Out, class R> TF_INLINE void store_row(Out* to, const R* from, long n, R by) {
    long j = 0;
    for (; j + BLOCK <= n; j += BLOCK) store8(to + j, at(from + j) * by);
    for (; j < n; ++j) narrow(from[j] * by, to[j]);
}

// Whether rows of n numbers each, from `to` on, are whole registers of R at aligned addresses.
template <class R, class Out> TF_INLINE bool streamable(const Out* to, long n) {
    return sizeof(Out) == sizeof(R) && n % LANES<R> == 0 && reinterpret_cast<uintptr_t>(to) % REGISTER_BYTES == 0;
}

template <class Out, class R> TF_INLINE void stream_row(Out* to, const R* from, long n, R by) {
    for (long j = 0; j < n; j += LANES<R>) stream(reinterpret_cast<R*>(to + j), lane(from + j) * by);
}

template <class R, bool DEEP> TF_INLINE void elu1(R* x, long n) {
    const Lane<R> zero = Lane<R>{};
    for (long i = 0; i < n; i += LANES<R>) {
        const Lane<R> v = lane(x + i), below = v > zero ? zero : v, above = v > zero ? v : zero;
        lane(x + i) = above + exp_nonpositive<R, DEEP>(below);
    }
}

// base(x), n numbers (a multiple of PAIR), in place.
template <class R> TF_INLINE void activate(R* x, long n, long activation) {
    const Lane<R> zero = Lane<R>{};
    if (activation == RELU) {
        for (long i = 0; i < n; i += LANES<R>) {
            const Lane<R> v = lane(x + i);
            lane(x + i) = v > zero ? v : (v != v ? v : zero);
        }
    }
    if (activation == ELU1) {
        Lane<R> low = zero;
        for (long i = 0; i < n; i += LANES<R>) low = lane(x + i) < low ? lane(x + i) : low;
        R least = 0;
        for (int j = 0; j < LANES<R>; ++j) least = low[j] < least ? low[j] : least;
        if (least > (sizeof(R) == 4 ? R(-87) : R(-708)))
            elu1<R, false>(x, n);
        else
            elu1<R, true>(x, n);
    }
}

// d base / dx, from base itself: elu+1 is exp(x) = base below 1, and x + 1 above.
template <class R> TF_INLINE Wide<R> activation_slope(Wide<R> base, long activation) {
    const Wide<R> zero = wide<R>(0), one = wide<R>(1);
    if (activation == RELU) return base > zero ? one : zero;
    if (activation == ELU1) return base > one ? one : base;
    return one;
}

// The features of 8 queries and 8 keys, made a few at a time, in order: 1, x_i, then x_i^2 / sqrt 2 and x_i x_j for i < j.
template <class R> struct Features {
    const R* x;
    const long K;
    long i = -1, j = -1;  // the next monomial is x_i x_j; i = -1: x_j; j = -1: 1

    inline __attribute__((always_inline)) void make(R* to, long count) {
        while (count > 0) {
            if (i < 0) {
                pair(to) = j < 0 ? Pair<R>{} + R(1) : pair(x + j * PAIR);
                to += PAIR, --count;
            } else {
                const Pair<R> xi = pair(x + i * PAIR);
                if (j == i) {
                    pair(to) = xi * xi * R(0.70710678118654752440);
                    to += PAIR, --count, ++j;
                }
                const long run = K - j < count ? K - j : count;
                for (long r = 0; r < run; ++r) pair(to + r * PAIR) = xi * pair(x + (j + r) * PAIR);
                to += run * PAIR, count -= run, j += run - 1;
            }
            if (++j >= K) ++i, j = i;
        }
    }
};

// dbase += (d phi / d base)^T dphi, where dphi is Wide columns.
template <class R>
TF_INLINE void pull_back(R* dbase, const R* dphi, const R* x, long K, long degree) {
    if (degree == 0) {
        for (long i = 0; i < K; ++i) at(dbase + i * BLOCK) += at(dphi + i * BLOCK);
        return;
    }
    for (long i = 0; i < K; ++i) at(dbase + i * BLOCK) += at(dphi + (1 + i) * BLOCK);
    const R* d = dphi + (1 + K) * BLOCK;
    for (long i = 0; degree == 2 && i < K; ++i) {
        const Wide<R> xi = at(x + i * PAIR);
        Wide<R> sum = at(d) * xi * R(1.41421356237309504880);
        d += BLOCK;
        for (long j = i + 1; j < K; ++j, d += BLOCK) {
            sum += at(d) * at(x + j * PAIR);
            at(dbase + j * BLOCK) += at(d) * xi;
        }
        at(dbase + i * BLOCK) += sum;
    }
}

// g[u] lane t = sum_i a[i] lane t * b[i] lane u, for rows PAIR apart
template <class R> TF_INLINE void pair_dots(Wide<R> (&g)[BLOCK], const R* a, const R* b, long n) {
#pragma GCC unroll 8
    for (int u = 0; u < BLOCK; ++u) g[u] = wide<R>(0);
    for (long i = 0; i < n; ++i) {
        const Wide<R> ai = at(a + i * PAIR);
#pragma GCC unroll 8
        for (int u = 0; u < BLOCK; ++u) g[u] += ai * b[i * PAIR + u];
    }
}

// to[i] lane t += sum_u g[u] lane t * b[i] lane u; b's rows lie PAIR apart
template <class R> TF_INLINE void pair_apply(R* to, const Wide<R> (&g)[BLOCK], const R* b, long n) {
    for (long i = 0; i < n; ++i) {
        Wide<R> sum = at(to + i * BLOCK);
#pragma GCC unroll 8
        for (int u = 0; u < BLOCK; ++u) sum += g[u] * b[i * PAIR + u];
        at(to + i * BLOCK) = sum;
    }
}

}  // namespace
