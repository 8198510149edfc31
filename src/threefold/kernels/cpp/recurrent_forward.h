// A recurrent sequence, forward: each block of rows runs through all of time on its own, W_h staying in the cache.
#pragma once
#include "recurrent_core.h"

namespace {

template <class R, int KIND> struct ForwardBlock {
    using V = View<R, KIND>;
    static constexpr int L = LANES<R>, G = V::G;

    struct Shared {  // made once, read by all blocks
        explicit Shared(const V& v)
            : w(v.N, (KIND == RESET_BEFORE ? 2 : G) * v.P), candidate(KIND == RESET_BEFORE ? v.N : 0, v.P), bias(G * v.P), inner(v.P) {
            pack_forward(w, v.wh(), v.N, v.P, 0, KIND == RESET_BEFORE ? 2 : G);
            if (KIND == RESET_BEFORE) pack_forward(candidate, v.wh(), v.N, v.P, 2, 3);
            pad_gates(bias.data, v.call.bias, G, v.N, v.P);
            pad_gates(inner.data, v.call.inner, 1, v.N, v.P);
        }
        Packed<R> w, candidate;
        Buffer<R> bias, inner;
    };

    ForwardBlock(const V& v, const Shared& shared, const long* row, int rows)
        : v(v), s(shared), row(row), rows(rows), state(rows * v.P), pull(rows * s.w.columns),
          reset(KIND == RESET_BEFORE ? rows * v.P : 0), through(KIND == RESET_BEFORE ? rows * s.candidate.columns : 0) {}

    void run() {
        for (int r = 0; r < rows; ++r) memcpy(state.at(r * v.P), v.h_before(v.call.from, row[r]), v.N * sizeof(R));
        for (long t = v.call.from; t < v.call.to; ++t) {
            if (!v.any_valid(t, row, rows)) {
                for (int r = 0; r < rows; ++r) stay(t, r);
                continue;
            }
            product(rows, state.data, v.P, s.w, pull.data, s.w.columns);
            if (KIND == RESET_BEFORE) {
                for (int r = 0; r < rows; ++r) gates_before_reset(t, r);
                product(rows, reset.data, v.P, s.candidate, through.data, s.candidate.columns);
            }
            for (int r = 0; r < rows; ++r) {
                if (v.valid(t, row[r]))
                    advance(t, r);
                else
                    stay(t, r);
            }
        }
    }

    // Gamma_r, Gamma_u, and Gamma_r * h for the second product.
    void gates_before_reset(long t, int r) {
        R* kept = v.kept(t, row[r]);
        for (long j = 0; j < v.N; j += L) {
            const long n = v.N - j;
            for (int g = 0; g < 2; ++g) store<R>(kept + g * v.N + j, sigmoid<R>(sum(kept, r, g, j)), n);
            lane(reset.at(r * v.P + j)) = load<R>(kept + j, n) * lane(state.at(r * v.P + j));
        }
    }

    TF_METHOD Lane<R> given(const R* kept, int g, long j) const {
        return load<R>(kept + g * v.N + j, v.N - j) + lane(s.bias.at(g * v.P + j));
    }
    TF_METHOD Lane<R> pulled(int r, int g, long j) const { return lane(pull.at(r * s.w.columns + g * v.P + j)); }
    TF_METHOD Lane<R> sum(const R* kept, int r, int g, long j) const { return given(kept, g, j) + pulled(r, g, j); }

    void advance(long t, int r) {
        const long b = row[r];
        R *kept = v.kept(t, b), *h = v.h(t, b), *hidden = state.at(r * v.P);
        for (long j = 0; j < v.N; j += L) {
            const long n = v.N - j;
            Lane<R> next;
            if (KIND == TANH || KIND == IDENTITY) {
                const Lane<R> p = sum(kept, r, 0, j);
                next = KIND == TANH ? hyperbolic_tangent<R>(p) : p;
            } else if (KIND == LSTM) {
                const Lane<R> u = sigmoid<R>(sum(kept, r, 0, j)), f = sigmoid<R>(sum(kept, r, 1, j));
                const Lane<R> candidate = hyperbolic_tangent<R>(sum(kept, r, 2, j)), o = sigmoid<R>(sum(kept, r, 3, j));
                const Lane<R> c = u * candidate + f * load<R>(v.c_before(t, b) + j, n);
                next = o * hyperbolic_tangent<R>(c);
                store<R>(v.c(t, b) + j, c, n);
                keep(kept, j, u, f, candidate, o);
            } else if (KIND == RESET_BEFORE) {
                const Lane<R> u = load<R>(kept + v.N + j, n);
                const Lane<R> candidate =
                    hyperbolic_tangent<R>(given(kept, 2, j) + lane(through.at(r * s.candidate.columns + j)));
                next = u * candidate + (R(1) - u) * lane(hidden + j);
                store<R>(kept + 2 * v.N + j, candidate, n);
            } else {
                const Lane<R> reset_gate = sigmoid<R>(sum(kept, r, 0, j)), u = sigmoid<R>(sum(kept, r, 1, j));
                const Lane<R> m = pulled(r, 2, j) + lane(s.inner.at(j));
                const Lane<R> candidate = hyperbolic_tangent<R>(given(kept, 2, j) + reset_gate * m);
                next = u * candidate + (R(1) - u) * lane(hidden + j);
                keep(kept, j, reset_gate, u, candidate, m);
            }
            store<R>(h + j, next, n);
            store<R>(hidden + j, next, n);
        }
    }

    TF_METHOD void keep(R* kept, long j, Lane<R> first, Lane<R> second, Lane<R> third, Lane<R> fourth) const {
        const long n = v.N - j;
        store<R>(kept + j, first, n);
        store<R>(kept + v.N + j, second, n);
        store<R>(kept + 2 * v.N + j, third, n);
        store<R>(kept + 3 * v.N + j, fourth, n);
    }

    // An invalid token: the state stays, to the bit; nothing of its gates is kept.
    void stay(long t, int r) {
        const long b = row[r];
        if (V::K) memset(v.kept(t, b), 0, V::K * v.N * sizeof(R));
        memcpy(v.h(t, b), state.at(r * v.P), v.N * sizeof(R));
        if (KIND == LSTM) memcpy(v.c(t, b), v.c_before(t, b), v.N * sizeof(R));
    }

    const V& v;
    const Shared& s;
    const long* row;  // which rows of the batch
    const int rows;
    Buffer<R> state, pull, reset, through;
};

template <class R, int KIND> void recurrent_forward(const RecurrentCall& call) {
    const View<R, KIND> v(call);
    const auto& shared = *static_cast<typename ForwardBlock<R, KIND>::Shared*>(call.shared);
    in_blocks(call, [&](long, const long* row, int rows) { ForwardBlock<R, KIND>(v, shared, row, rows).run(); });
}

}  // namespace
