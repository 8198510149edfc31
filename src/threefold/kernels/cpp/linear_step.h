// One token: the recurrence as it is written, reading the old state and writing the new.
#pragma once
#include "linear_forward.h"

namespace {

template <class R> TF_INLINE void one_feature_row(R* to, const R* x, long K, long degree) {
    if (degree == 0) {
        memcpy(to, x, K * sizeof(R));
        return;
    }
    *to++ = 1;
    memcpy(to, x, K * sizeof(R));
    to += K;
    for (long i = 0; degree == 2 && i < K; to += K - i, ++i) {
        for (long j = i; j < K; ++j) to[j - i] = x[i] * x[j];
        to[0] *= R(0.70710678118654752440);
    }
}

template <class R, class In> struct Step {
    const Call& c;
    const long F, K, V;
    Scratch scratch;
    R *x, *fq, *fk, *v, *y;

    explicit Step(const Call& call)
        : c(call), F(call.F), K(round_up(call.K, PAIR)), V(call.V), scratch(sizeof(R) * (2 * K + 2 * F + 2 * V) + 64 * 8) {
        x = scratch.take<R>(2 * K);
        fq = scratch.take<R>(F);
        fk = scratch.take<R>(F);
        v = scratch.take<R>(V);
        y = scratch.take<R>(V);
    }

    void run(long b, long h) {
        const long head = b * c.H + h;
        const R* S0 = static_cast<const R*>(c.S0) + head * F * V;
        const R* z0 = static_cast<const R*>(c.z0) + head * F;
        R *S = static_cast<R*>(c.S) + head * F * V, *z = static_cast<R*>(c.z) + head * F;
        In* out = static_cast<In*>(c.y) + head * V;
        if (c.normalised) static_cast<R*>(c.n)[head] = 1;
        if (c.valid && !c.valid[b]) {
            memcpy(S, S0, F * V * sizeof(R));
            if (c.normalised) memcpy(z, z0, F * sizeof(R));
            memset(static_cast<void*>(out), 0, V * sizeof(In));
            return;
        }
        const In* q = static_cast<const In*>(c.q) + b * c.q_b + h * c.q_h;
        const In* k = static_cast<const In*>(c.k) + b * c.k_b + h * c.k_h;
        const In* value = static_cast<const In*>(c.v) + b * c.v_b + h * c.v_h;
        for (long i = 0; i < c.K; ++i) x[i] = widen(q[i]) * R(c.scale), x[K + i] = widen(k[i]);
        for (long j = 0; j < V; ++j) v[j] = widen(value[j]), y[j] = 0;
        activate<R>(x, 2 * K, c.activation);
        one_feature_row<R>(fq, x, c.K, c.degree);
        one_feature_row<R>(fk, x + K, c.K, c.degree);
        const R fade = R(fade_factor(c, h));
        R n = 0;
        for (long f = 0; f < F; ++f) {
            const R a = fk[f], r = fq[f];
            const R* __restrict old = S0 + f * V;
            R *__restrict now = S + f * V, *__restrict sum = y;
            for (long j = 0; j < V; ++j) {
                const R s = old[j] * fade + a * v[j];
                now[j] = s;
                sum[j] += r * s;
            }
            if (c.normalised) n += r * (z[f] = z0[f] * fade + a);
        }
        if (!c.normalised) n = 1;
        if (n <= 0 && c.bad) __atomic_fetch_add(c.bad + b, 1, __ATOMIC_RELAXED);
        if (c.activation == RELU && n == 0) n = 1;
        if (c.normalised) static_cast<R*>(c.n)[head] = n;
        store_row(out, y, V, R(1) / n);
    }
};

}  // namespace
