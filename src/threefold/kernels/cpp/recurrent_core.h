// What the forward and the backward of a recurrent sequence share. The equations are those of ops/{rnn,lstm,gru}.py.
#pragma once
#include "activation.h"
#include "rows.h"
#include "runtime.h"

#define TF_METHOD inline __attribute__((always_inline))

enum Kind { TANH, IDENTITY, LSTM, RESET_BEFORE, RESET_AFTER };

// One call. Everything is time first and dense, (T, B, ...), but for the gradients that come from outside.
struct RecurrentCall {
    long kind, T, B, N, threads;
    const void *wh, *bias, *inner;        // (G N, N), (G N) or null, (N) or null
    const void *h0, *c0;                  // (B, N), (B, N) or null
    const unsigned char* valid;           // (T, B) or null
    void* kept;                           // (T, B, K N): the drive in its first G N numbers, then the gates; an RNN has h
    void *h, *c;                          // (T, B, N), the same or null
    const void *dh, *dc;                  // gradients from outside, or null
    long dh_t, dh_b, dc_t, dc_b;          // their strides
    void *drive;                          // (T, B, G N): dL/d(W_x x + b)
    void *extra;                          // (T, B, N): dm (reset after) or Gamma_r * h_{t-1} (reset before)
    void *dbias, *dinner;                 // (G N), (N) or null
    void *dh0, *dc0;                      // (B, N), the same or null
};

namespace {

constexpr int gates_of(int kind) { return kind == LSTM ? 4 : kind >= RESET_BEFORE ? 3 : 1; }
constexpr int kept_of(int kind) { return kind == LSTM || kind == RESET_AFTER ? 4 : kind == RESET_BEFORE ? 3 : 0; }

template <class R> TF_INLINE Lane<R> load(const R* p, long n) {
    Lane<R> x{};
    if (n >= LANES<R>)
        memcpy(&x, p, sizeof x);
    else
        memcpy(&x, p, n * sizeof(R));
    return x;
}
template <class R> TF_INLINE void store(R* p, Lane<R> x, long n) {
    if (n >= LANES<R>)
        memcpy(p, &x, sizeof x);
    else
        memcpy(p, &x, n * sizeof(R));
}

// Typed views of one call's numbers.
template <class R, int KIND> struct View {
    static constexpr int G = gates_of(KIND), K = kept_of(KIND);
    explicit View(const RecurrentCall& call) : call(call), T(call.T), B(call.B), N(call.N), P(padded(call.N, LANES<R>)) {}

    bool valid(long t, long b) const { return !call.valid || call.valid[t * B + b]; }
    const R* wh() const { return static_cast<const R*>(call.wh); }
    R* kept(long t, long b) const { return K ? static_cast<R*>(call.kept) + (t * B + b) * K * N : h(t, b); }
    R* h(long t, long b) const { return static_cast<R*>(call.h) + (t * B + b) * N; }
    R* c(long t, long b) const { return static_cast<R*>(call.c) + (t * B + b) * N; }
    const R* h_before(long t, long b) const { return t ? h(t - 1, b) : static_cast<const R*>(call.h0) + b * N; }
    const R* c_before(long t, long b) const { return t ? c(t - 1, b) : static_cast<const R*>(call.c0) + b * N; }

    const RecurrentCall& call;
    const long T, B, N, P;  // P: N rounded up to whole registers
};

// W_h for the forward: column (g, j) of the packed matrix is row g N + j. Gates [from, to).
template <class R> void pack_forward(Packed<R>& w, const R* wh, long N, long P, long from, long to) {
    for (long g = from; g < to; ++g)
        for (long j = 0; j < N; ++j)
            for (long k = 0; k < N; ++k) w.set(k, (g - from) * P + j, wh[(g * N + j) * N + k]);
}

// W_h for the backward: row (g, j) of the packed matrix is row g N + j; the rows between N and P are zero.
template <class R> void pack_backward(Packed<R>& w, const R* wh, long N, long P, long from, long to) {
    for (long g = from; g < to; ++g)
        for (long j = 0; j < N; ++j)
            for (long k = 0; k < N; ++k) w.set((g - from) * P + j, k, wh[(g * N + j) * N + k]);
}

// A stacked vector with each gate's part padded to P; zeros where there is none.
template <class R> void pad_gates(R* to, const void* from, long gates, long N, long P) {
    for (long g = 0; from && g < gates; ++g) memcpy(to + g * P, static_cast<const R*>(from) + g * N, N * sizeof(R));
}

// Rows are dealt out in blocks that fit the registers, evenly, and a multiple of the threads where there are enough.
template <class Body> void in_blocks(long B, long threads, const Body& body) {
    long blocks = (B + MOST_ROWS - 1) / MOST_ROWS;
    if (blocks % threads) blocks += threads - blocks % threads;
    if (blocks > B) blocks = B;
    parallel_for(blocks, int(threads), [&](long i) { body(i, i * B / blocks, (i + 1) * B / blocks); });
}

TF_INLINE long blocks_at_most(long B, long threads) { return (B + MOST_ROWS - 1) / MOST_ROWS + threads; }

}  // namespace
