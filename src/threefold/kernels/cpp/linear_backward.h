// Backward, by recomputing states instead of keeping them.
//
// With y = num / n, num_t = S_t^T phi(q_t) and n_t = z_t . phi(q_t), the gradients of num and n are
//   dnum = dy / n,   dn = -(dy . y) / n,
// and z is one more column of S, whose values are 1. Then, with dS_t = sum over u >= t of phi(q_u) dnum_u^T,
//   dphi(q_t) = S_t dnum_t       forward sweep, the state held as values x features
//   dv_t = dS_t^T phi(k_t)       reverse sweep, the gradient's state held as features x values
//   dphi(k_t) = dS_t v_t         reverse sweep, the gradient's state held as values x features
// so that all three are the loop of linear_core.h, with other actors. Pairs inside a block, again, by the kernel's slope.
#pragma once
#include "linear_forward.h"

namespace {

// to (V x ld) = the transpose of columns first..last of from (F x V)
template <class R>
TF_INLINE void load_turned(R* to, long ld, const R* from, long F, long V, long first, long last) {
    for (long f = 0; from && f < F; ++f)
        for (long j = first; j < last; ++j) to[(j - first) * ld + f] = from[f * V + j];
}

template <class R, class In> struct Backward {
    const Call& c;
    const long b, slice, first, last, lanes, width, rows;  // lanes along the values, width along the features
    const bool owner;  // of the normaliser's row
    const bool streams;
    const Kernel<R> kernel;
    Scratch scratch;
    long h = 0;
    R *x, *vd, *f, *M, *D, *dV, *dphi, *dphi_wide, *dbase, *out;

    static long feature_width(const Call& c) { return round_up(c.F, LANES<R> > BLOCK ? LANES<R> : BLOCK); }

    static size_t bytes(const Call& c, long heads, long lanes) {
        const long width = feature_width(c), V = lanes + 1, K = round_up(c.K, BLOCK);
        const long state = V * width + c.F * lanes;
        return sizeof(R) * (heads * state + PAIR * (c.K + V + c.F) + BLOCK * (3 * width + 2 * lanes + 2 * K)) + 64 * 32;
    }

    Backward(const Call& call, long b_, long heads, long slice_, long first_, long last_)
        : c(call), b(b_), slice(slice_), first(first_), last(last_), lanes(round_up(last_ - first_, LANES<R> > BLOCK ? LANES<R> : BLOCK)),
          width(feature_width(call)), rows(last_ - first_ + (call.normalised && slice_ == 0)), owner(slice_ == 0),
          streams(call.streams && streamable<R>(static_cast<const In*>(call.dv), call.V)), kernel(call.degree), scratch(bytes(call, heads, lanes)) {
        x = scratch.take<R>(c.K * PAIR);
        vd = scratch.take<R>((lanes + 1) * PAIR);
        f = scratch.take<R>(c.F * PAIR);
        M = scratch.take<R>(BLOCK * width);
        D = scratch.take<R>(BLOCK * lanes);
        dV = scratch.take<R>(BLOCK * lanes);
        dphi = scratch.take<R>(BLOCK * width);
        dphi_wide = scratch.take<R>(BLOCK * width);
        dbase = scratch.take<R>(BLOCK * c.K);
        out = scratch.take<R>(BLOCK * round_up(c.K, BLOCK));
    }

    const R* state_of(const void* all) const { return all ? static_cast<const R*>(all) + (b * c.H + h) * c.F * c.V : nullptr; }
    const R* mass_of(const void* all) const { return all ? static_cast<const R*>(all) + (b * c.H + h) * c.F : nullptr; }

    // One head's state with values along the rows, the normaliser last.
    void load_rows_of_values(R* to, const void* S, const void* z) const {
        load_turned<R>(to, width, state_of(S), c.F, c.V, first, last);
        if (c.normalised && owner && z) memcpy(to + (rows - 1) * width, mass_of(z), c.F * sizeof(R));
    }

    void run(long from, long to) {
        const long turned = (lanes + 1) * width, straight = c.F * lanes, heads = to - from;
        R *const values = scratch.take<R>(heads * turned), *const features = scratch.take<R>(heads * straight);
        for (h = from; h < to; ++h) load_rows_of_values(values + (h - from) * turned, c.S0, c.z0);
        for (long t = 0; t < c.T; t += SPAN)
            for (h = from; h < to; ++h) span(t, values + (h - from) * turned, nullptr);

        memset(static_cast<void*>(values), 0, heads * turned * sizeof(R));
        for (h = from; h < to; ++h) {
            load_rows_of_values(values + (h - from) * turned, c.dS, c.dz);
            load_state<R>(features + (h - from) * straight, lanes, state_of(c.dS), c.F, c.V, first, last);
        }
        for (long t = (c.T - 1) / SPAN * SPAN; c.T && t >= 0; t -= SPAN)
            for (h = from; h < to; ++h) span(t, values + (h - from) * turned, features + (h - from) * straight);
        if (streams) streamed();
        for (h = from; h < to; ++h) {
            const R *S = features + (h - from) * straight, *z = values + (h - from) * turned + (rows - 1) * width;
            if (c.dS0) save_state<R>(S, lanes, const_cast<R*>(state_of(c.dS0)), c.F, c.V, first, last);
            if (c.dz0 && c.normalised && owner) memcpy(const_cast<R*>(mass_of(c.dz0)), z, c.F * sizeof(R));
        }
    }

    // The forward sweep for dq; with `features`, the reverse sweep for dv and dk.
    void span(long from, R* values, R* features) {
        const double factor = fade_factor(c, h);
        const long to = from + SPAN < c.T ? from + SPAN : c.T, blocks = (to - from + BLOCK - 1) / BLOCK;
        Fade<R> fade;
        for (long i = 0; i < blocks; ++i) {
            const long t = from + BLOCK * (features ? blocks - 1 - i : i), count = c.T - t < BLOCK ? c.T - t : BLOCK;
            if (c.valid || count < BLOCK || i < 2) fade.set(c.valid ? c.valid + b * c.T + t : nullptr, count, factor);
            fade.next_block();
            load(t, count, fade);
            const long next = features ? t - BLOCK : t + BLOCK;
            if (next >= 0 && next + BLOCK <= c.T) prefetch(next, features != nullptr);
            if (features)
                keys_and_values(t, count, fade, values, features);
            else
                queries(t, count, fade, values);
        }
    }

    const In* query(long t) const { return static_cast<const In*>(c.q) + b * c.q_b + t * c.q_t + h * c.q_h; }
    const In* key(long t) const { return static_cast<const In*>(c.k) + b * c.k_b + t * c.k_t + h * c.k_h; }
    const In* value(long t) const { return static_cast<const In*>(c.v) + b * c.v_b + t * c.v_t + h * c.v_h + first; }
    long place(long t) const { return ((b * c.T + t) * c.H + h) * c.V; }

    void prefetch(long t, bool reverse) const {
        prefetch_rows(query(t), c.q_t, c.K);
        prefetch_rows(key(t), c.k_t, c.K);
        prefetch_rows(value(t), c.v_t, last - first);
        prefetch_rows(static_cast<const In*>(c.dy) + place(t) + first, c.H * c.V, last - first);
        if (owner && c.normalised) prefetch_rows(static_cast<const In*>(c.y) + place(t), c.H * c.V, c.V);
        if (reverse && !streams) prefetch_rows_to_write(static_cast<In*>(c.dv) + place(t) + first, c.H * c.V, last - first);
    }

    // x: base(q) beside base(k); vd: dnum beside v; D: dnum, token by token.
    void load(long t, long count, const Fade<R>& fade) {
        load_wide<R>(x, query(t), c.q_t, c.K, fade, R(c.scale));
        load_wide<R>(x + BLOCK, key(t), c.k_t, c.K, fade, R(1));
        activate<R>(x, c.K * PAIR, c.activation);
        load_wide<R>(vd + BLOCK, value(t), c.v_t, last - first, fade, R(1));
        load_rows<R>(D, lanes, static_cast<const In*>(c.dy) + place(t) + first, c.H * c.V, last - first, fade);
        if (c.normalised) {
            Wide<R> dn = wide<R>(0);
            for (long i = 0; i < count; ++i) {
                if (fade.real[i] == 0) continue;
                const R by = R(1) / static_cast<const R*>(c.n)[(b * c.H + h) * c.T + t + i];
                for (long j = 0; j < lanes; j += BLOCK) at(D + i * lanes + j) *= by;
                if (owner) dn[i] = -by * dot(static_cast<const In*>(c.dy) + place(t + i), static_cast<const In*>(c.y) + place(t + i));
            }
            if (owner) at(vd + (rows - 1) * PAIR) = dn, at(vd + (rows - 1) * PAIR + BLOCK) = fade.real;
        }
        to_wide<R>(vd, PAIR, D, lanes, last - first);
    }

    R dot(const In* a, const In* e) const {
        Wide<R> sum = wide<R>(0);
        long j = 0;
        for (; j + BLOCK <= c.V; j += BLOCK) sum += load8(a + j) * load8(e + j);
        R total = 0;
        for (int i = 0; i < BLOCK; ++i) total += sum[i];
        for (; j < c.V; ++j) total += widen(a[j]) * widen(e[j]);
        return total;
    }

    // The weights g and their gradients ds of the pairs inside the block: [key] lane query.
    void pairs(const Fade<R>& fade, Wide<R> (&g)[BLOCK], Wide<R> (&ds)[BLOCK]) const {
        pair_dots<R>(g, x, x + BLOCK, c.K);
        pair_dots<R>(ds, vd, vd + BLOCK, rows);
        for (int u = 0; u < BLOCK; ++u) {
            const Wide<R> s = g[u], zero = wide<R>(0);
            g[u] = fade.between[u] != 0 ? kernel.value(s) * fade.between[u] : zero;
            ds[u] = fade.between[u] != 0 ? ds[u] * kernel.slope(s) * fade.between[u] : zero;
        }
    }

    // The features of the block; `half` (0: queries, BLOCK: keys) also token by token in M; then faded for the state.
    R* features_of(const Fade<R>& fade, int half) {
        R* rw = x;
        if (c.degree)
            Features<R>{x, c.K}.make(rw = f, c.F);
        else if (!fade.full || fade.fades)
            memcpy(rw = f, x, c.F * PAIR * sizeof(R));
        to_rows<R>(M, width, rw + half, PAIR, c.F);
        if (!fade.full || fade.fades) {
            scale_rows<R>(rw, c.F, fade.on_rows);
            scale_rows<R>(vd, rows, fade.on_rows);
        }
        return rw;
    }

    void sweep(long n, long along, const R* read, const R* write, const R* U, R* Y, R* state, const Fade<R>& fade) {
        if (fade.fades)
            pass<R, true>(n, along, read, write, U, along, Y, along, state, along, fade.whole);
        else
            pass<R, false>(n, along, read, write, U, along, Y, along, state, along, R(1));
    }

    void queries(long t, long count, const Fade<R>& fade, R* values) {
        Wide<R> g[BLOCK], ds[BLOCK];
        pairs(fade, g, ds);
        memset(static_cast<void*>(dbase), 0, c.K * BLOCK * sizeof(R));
        pair_apply<R>(dbase, ds, x + BLOCK, c.K);
        features_of(fade, BLOCK);
        memset(static_cast<void*>(dphi), 0, BLOCK * width * sizeof(R));
        sweep(rows, width, vd, vd + BLOCK, M, dphi, values, fade);
        store_base(c.dq, t, count, x, R(c.scale), fade);
    }

    void keys_and_values(long t, long count, const Fade<R>& fade, R* values, R* features) {
        Wide<R> g[BLOCK], ds[BLOCK];
        pairs(fade, g, ds);
        transpose<R>(g);
        transpose<R>(ds);
        memset(static_cast<void*>(dbase), 0, c.K * BLOCK * sizeof(R));
        pair_apply<R>(dbase, ds, x, c.K);
        alignas(64) R weights[BLOCK * BLOCK];
        for (int i = 0; i < BLOCK; ++i) at(weights + i * BLOCK) = g[i];
        triangle<R, true>(lanes, weights, D, lanes, dV, lanes);
        const R* rw = features_of(fade, 0);
        sweep(c.F, lanes, rw + BLOCK, rw, D, dV, features, fade);
        for (long i = 0; i < count; ++i) {
            In* const to = static_cast<In*>(c.dv) + place(t + i) + first;
            if (streams)
                stream_row(to, dV + i * lanes, last - first, R(1));
            else
                store_row(to, dV + i * lanes, last - first, R(1));
        }
        memset(static_cast<void*>(dphi), 0, BLOCK * width * sizeof(R));
        sweep(rows, width, vd + BLOCK, vd, M, dphi, values, fade);
        store_base(c.dk, t, count, x + BLOCK, R(1), fade);
    }

    // From dphi (and dbase, the pairs' share) to the gradient of the query or key itself.
    void store_base(void* to, long t, long count, const R* base, R by, const Fade<R>& fade) {
        to_wide<R>(dphi_wide, BLOCK, dphi, width, c.F);
        pull_back<R>(dbase, dphi_wide, base, c.K, c.degree);
        for (long i = 0; i < c.K; ++i)
            at(dbase + i * BLOCK) *= activation_slope<R>(at(base + i * PAIR), c.activation) * by;
        to_rows<R>(out, round_up(c.K, BLOCK), dbase, BLOCK, c.K);
        for (long i = 0; i < count; ++i) {
            const long there = ((b * c.T + t + i) * c.H + h) * c.K;
            R* row = out + i * round_up(c.K, BLOCK);
            if (fade.real[i] == 0) memset(static_cast<void*>(row), 0, c.K * sizeof(R));
            if (c.slices > 1)
                store_row(static_cast<R*>(to) + slice * c.B * c.T * c.H * c.K + there, row, c.K, R(1));
            else
                store_row(static_cast<In*>(to) + there, row, c.K, R(1));
        }
    }
};

}  // namespace
