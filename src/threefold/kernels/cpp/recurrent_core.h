// What the forward and the backward of a recurrent sequence share. The equations are those of ops/{rnn,lstm,gru}.py.
#pragma once
#include "activation.h"
#include "rows.h"
#include "runtime.h"

#include <algorithm>
#include <vector>

#define TF_METHOD inline __attribute__((always_inline))

enum Kind { TANH, IDENTITY, LSTM, RESET_BEFORE, RESET_AFTER };

// One call: steps [from, to) of a sequence. Everything is time first and dense, (T, B, ...), but for the gradients that
// come from outside. A long sequence is run in pieces, so that what the large products write is still in the cache when
// it is read; the packed weights (`shared`) live from tf_recurrent_*_open to tf_recurrent_*_close.
struct RecurrentCall {
    long kind, T, B, N, threads, from, to;
    void* shared;
    const void *wh, *bias, *inner;        // (G N, N), (G N) or null, (N) or null
    const void *h0, *c0;                  // (B, N), (B, N) or null
    const unsigned char* valid;           // (T, B) or null
    void* kept;                           // (T, B, K N): the drive in its first G N numbers, then the gates; an RNN has h
    void *h, *c;                          // (T, B, N), the same or null
    const void *dh, *dc;                  // gradients from outside, or null
    long dh_t, dh_b, dc_t, dc_b;          // their strides
    void* drive;                          // (to - from, B, G N): dL/d(W_x x + b)
    void* extra;                          // (to - from, B, N): dm (reset after) or Gamma_r * h_{t-1} (reset before)
    void *dbias, *dinner;                 // (G N), (N): added to
    void *dh0, *dc0;                      // (B, N), the same or null: what comes through step `to`, then through `from`
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
    bool any_valid(long t, const long* row, int rows) const {
        for (int r = 0; r < rows; ++r)
            if (valid(t, row[r])) return true;
        return false;
    }
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
        for (long j = 0; j < N; ++j) w.set_row((g - from) * P + j, wh + (g * N + j) * N, N);
}

// A stacked vector with each gate's part padded to P; zeros where there is none.
template <class R> void pad_gates(R* to, const void* from, long gates, long N, long P) {
    for (long g = 0; from && g < gates; ++g) memcpy(to + g * P, static_cast<const R*>(from) + g * N, N * sizeof(R));
}

// Rows, those with most valid tokens first: blocks then end together, and long ones are not begun last.
struct Rows {
    explicit Rows(const RecurrentCall& call) : order(call.B) {
        std::vector<long> tokens(call.B, 0);
        for (long t = call.from; call.valid && t < call.to; ++t)
            for (long b = 0; b < call.B; ++b) tokens[b] += call.valid[t * call.B + b];
        for (long b = 0; b < call.B; ++b) order[b] = b;
        if (call.valid) std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return tokens[a] > tokens[b]; });
    }
    std::vector<long> order;
};

// Rows are dealt out in blocks that fit the registers, evenly, and a multiple of the threads where there are enough.
template <class Body> void in_blocks(const RecurrentCall& call, const Body& body) {
    const Rows rows(call);
    long blocks = (call.B + MOST_ROWS - 1) / MOST_ROWS;
    if (blocks % call.threads) blocks += call.threads - blocks % call.threads;
    if (blocks > call.B) blocks = call.B;
    parallel_for(blocks, int(call.threads), [&](long i) {
        const long first = i * call.B / blocks;
        body(i, rows.order.data() + first, int((i + 1) * call.B / blocks - first));
    });
}

TF_INLINE long blocks_at_most(long B, long threads) { return (B + MOST_ROWS - 1) / MOST_ROWS + threads; }

}  // namespace
