// A recurrent sequence, closed-form backward through time: gradients of the pre-activations, of the first state, and of
// the biases. The products with the inputs and the weight gradients are large and made by the caller.
#pragma once
#include "recurrent_core.h"

namespace {

template <class R, int KIND> struct BackwardBlock {
    using V = View<R, KIND>;
    static constexpr int L = LANES<R>, G = V::G;
    static constexpr int PULLED = KIND == RESET_BEFORE ? 2 : G;  // gates whose product is with h_{t-1} itself

    struct Shared {
        explicit Shared(const V& v)
            : w(PULLED * v.P, v.P), candidate(KIND == RESET_BEFORE ? v.P : 0, v.P) {
            pack_backward(w, v.wh(), v.N, v.P, 0, PULLED);
            if (KIND == RESET_BEFORE) pack_backward(candidate, v.wh(), v.N, v.P, 2, 3);
        }
        Packed<R> w, candidate;
    };

    // `sums`: where this block leaves its part of the bias gradients, (G + 1) P numbers.
    BackwardBlock(const V& v, const Shared& shared, const long* row, int rows, R* sums)
        : v(v), s(shared), row(row), rows(rows), sums(sums), recent((G + 1) * v.P), carry(rows * v.P),
          carry_c(KIND == LSTM ? rows * v.P : 0), pull(rows * PULLED * v.P), back(rows * s.w.columns),
          dp(KIND == RESET_BEFORE ? rows * v.P : 0), through(KIND == RESET_BEFORE ? rows * s.candidate.columns : 0) {}

    void run() {
        for (int r = 0; r < rows; ++r) {
            memcpy(carry.at(r * v.P), outside(v.call.dh0, r), v.N * sizeof(R));
            if (KIND == LSTM) memcpy(carry_c.at(r * v.P), outside(v.call.dc0, r), v.N * sizeof(R));
        }
        for (long t = v.call.to - 1; t >= v.call.from; --t) {
            for (int r = 0; r < rows; ++r) receive(t, r);
            if (v.any_valid(t, row, rows))
                step(t);
            else
                for (int r = 0; r < rows; ++r) pass(t, r);
            if (t % 32 == 0 || t == v.call.from) gather();
        }
        for (int r = 0; r < rows; ++r) {
            memcpy(outside(v.call.dh0, r), carry.at(r * v.P), v.N * sizeof(R));
            if (KIND == LSTM) memcpy(outside(v.call.dc0, r), carry_c.at(r * v.P), v.N * sizeof(R));
        }
    }

    R* outside(void* state, int r) const { return static_cast<R*>(state) + row[r] * v.N; }

    void step(long t) {
        if (KIND == RESET_BEFORE) {
            for (int r = 0; r < rows; ++r) candidate_only(t, r);
            product(rows, dp.data, v.P, s.candidate, through.data, s.candidate.columns);
        }
        for (int r = 0; r < rows; ++r) {
            if (v.valid(t, row[r]))
                retreat(t, r);
            else
                pass(t, r);
        }
        product(rows, pull.data, PULLED * v.P, s.w, back.data, s.w.columns);
        for (int r = 0; r < rows; ++r)
            for (long j = 0; j < v.P; j += L) lane(carry.at(r * v.P + j)) += lane(back.at(r * s.w.columns + j));
    }

    // Long sums in two levels: float32 loses little that way.
    void gather() {
        for (long j = 0; j < (G + 1) * v.P; ++j) sums[j] += recent.data[j];
        memset(static_cast<void*>(recent.data), 0, recent.count * sizeof(R));
    }

    // What comes from outside at t joins what came through later steps.
    void receive(long t, int r) {
        const long b = row[r];
        const R* dh = static_cast<const R*>(v.call.dh) + t * v.call.dh_t + b * v.call.dh_b;
        for (long j = 0; j < v.N; j += L) lane(carry.at(r * v.P + j)) += load<R>(dh + j, v.N - j);
        if (KIND != LSTM || !v.call.dc) return;
        const R* dc = static_cast<const R*>(v.call.dc) + t * v.call.dc_t + b * v.call.dc_b;
        for (long j = 0; j < v.N; j += L) lane(carry_c.at(r * v.P + j)) += load<R>(dc + j, v.N - j);
    }

    R* drive_of(long t, int r) const { return static_cast<R*>(v.call.drive) + ((t - v.call.from) * v.B + row[r]) * G * v.N; }
    R* extra_of(long t, int r) const { return static_cast<R*>(v.call.extra) + ((t - v.call.from) * v.B + row[r]) * v.N; }

    // An invalid token: the gradient passes, and none reaches its gates.
    void pass(long t, int r) {
        memset(drive_of(t, r), 0, G * v.N * sizeof(R));
        if (KIND >= RESET_BEFORE) memset(extra_of(t, r), 0, v.N * sizeof(R));
        memset(static_cast<void*>(pull.at(r * PULLED * v.P)), 0, PULLED * v.P * sizeof(R));
    }

    void candidate_only(long t, int r) {
        const R* kept = v.kept(t, row[r]);
        for (long j = 0; j < v.N; j += L) {
            const Lane<R> u = load<R>(kept + v.N + j, v.N - j), candidate = load<R>(kept + 2 * v.N + j, v.N - j);
            lane(dp.at(r * v.P + j)) = lane(carry.at(r * v.P + j)) * u * (R(1) - candidate * candidate);
        }
        if (!v.valid(t, row[r])) memset(static_cast<void*>(dp.at(r * v.P)), 0, v.P * sizeof(R));
    }

    // One gate's gradient: to the caller, into the bias's sum, and (where it is pulled) into the next product.
    TF_METHOD void give(R* drive, int r, int g, long j, Lane<R> gradient, bool pulled = true) {
        store<R>(drive + g * v.N + j, gradient, v.N - j);
        lane(recent.at(g * v.P + j)) += gradient;
        if (pulled) lane(pull.at((r * PULLED + g) * v.P + j)) = gradient;
    }

    void retreat(long t, int r) {
        const long b = row[r];
        const R *kept = v.kept(t, b), *h_before = v.h_before(t, b);
        R *drive = drive_of(t, r), *extra = extra_of(t, r);
        for (long j = 0; j < v.N; j += L) {
            const long n = v.N - j;
            Lane<R>& held = lane(carry.at(r * v.P + j));
            const Lane<R> dh = held;
            if (KIND == TANH || KIND == IDENTITY) {
                const Lane<R> h = load<R>(v.h(t, b) + j, n);
                give(drive, r, 0, j, KIND == TANH ? dh * (R(1) - h * h) : dh);
                held = Lane<R>{};
            } else if (KIND == LSTM) {
                const Lane<R> u = load<R>(kept + j, n), f = load<R>(kept + v.N + j, n);
                const Lane<R> candidate = load<R>(kept + 2 * v.N + j, n), o = load<R>(kept + 3 * v.N + j, n);
                const Lane<R> tanh_c = hyperbolic_tangent<R>(load<R>(v.c(t, b) + j, n));
                Lane<R>& held_c = lane(carry_c.at(r * v.P + j));
                const Lane<R> dc = dh * o * (R(1) - tanh_c * tanh_c) + held_c;
                give(drive, r, 0, j, dc * candidate * u * (R(1) - u));
                give(drive, r, 1, j, dc * load<R>(v.c_before(t, b) + j, n) * f * (R(1) - f));
                give(drive, r, 2, j, dc * u * (R(1) - candidate * candidate));
                give(drive, r, 3, j, dh * tanh_c * o * (R(1) - o));
                held = Lane<R>{};
                held_c = dc * f;
            } else {
                const Lane<R> reset = load<R>(kept + j, n), u = load<R>(kept + v.N + j, n);
                const Lane<R> candidate = load<R>(kept + 2 * v.N + j, n), before = load<R>(h_before + j, n);
                const Lane<R> slope = reset * (R(1) - reset);
                give(drive, r, 1, j, dh * (candidate - before) * u * (R(1) - u));
                held = dh * (R(1) - u);
                if (KIND == RESET_BEFORE) {
                    const Lane<R> back_through = lane(through.at(r * s.candidate.columns + j));
                    give(drive, r, 0, j, back_through * before * slope);
                    give(drive, r, 2, j, lane(dp.at(r * v.P + j)), false);
                    held += back_through * reset;
                    store<R>(extra + j, reset * before, n);
                } else {
                    const Lane<R> dcandidate = dh * u * (R(1) - candidate * candidate), dm = dcandidate * reset;
                    give(drive, r, 0, j, dcandidate * load<R>(kept + 3 * v.N + j, n) * slope);
                    give(drive, r, 2, j, dcandidate, false);
                    lane(pull.at((r * PULLED + 2) * v.P + j)) = dm;
                    lane(recent.at(3 * v.P + j)) += dm;
                    store<R>(extra + j, dm, n);
                }
            }
        }
    }

    const V& v;
    const Shared& s;
    const long* row;  // which rows of the batch
    const int rows;
    R* sums;
    Buffer<R> recent, carry, carry_c, pull, back, dp, through;
};

template <class R, int KIND> void recurrent_backward(const RecurrentCall& call) {
    using Block = BackwardBlock<R, KIND>;
    const View<R, KIND> v(call);
    const auto& shared = *static_cast<typename Block::Shared*>(call.shared);
    const long most = blocks_at_most(v.B, call.threads), each = (Block::G + 1) * v.P;
    Buffer<R> sums(most * each);
    in_blocks(call, [&](long i, const long* row, int rows) { Block(v, shared, row, rows, sums.at(i * each)).run(); });
    for (long i = 0; i < most; ++i) {
        const R* part = sums.at(i * each);
        for (int g = 0; g < Block::G; ++g)
            for (long j = 0; j < v.N; ++j) static_cast<R*>(call.dbias)[g * v.N + j] += part[g * v.P + j];
        for (long j = 0; KIND == RESET_AFTER && j < v.N; ++j) static_cast<R*>(call.dinner)[j] += part[3 * v.P + j];
    }
}

}  // namespace
