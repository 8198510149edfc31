// Forward: y_t = S_t^T phi(q_t) [/ z_t . phi(q_t)], the state's lanes along the values.
//
// Tasks are (row, head, slice of the values): slices share nothing but the features, which each makes for itself.
#pragma once
#include "linear_block.h"
#include "linear_core.h"

namespace {

TF_INLINE long round_up(long n, long to) { return (n + to - 1) / to * to; }

// The part of the values that slice i of n holds: [first, last), in whole registers.
template <class R> TF_INLINE void cut(long V, long slices, long i, long& first, long& last) {
    const long registers = round_up(V, LANES<R>) / LANES<R>;
    first = registers * i / slices * LANES<R>;
    last = registers * (i + 1) / slices * LANES<R>;
    if (last > V) last = V;
}

TF_INLINE double fade_factor(const Call& c, long h) { return c.rates ? __builtin_exp(-c.rates[h]) : 1; }

// State features x values of one head into registers' layout, and back.
template <class R>
TF_INLINE void load_state(R* S, long ld, const R* from, long F, long V, long first, long last) {
    for (long f = 0; from && f < F; ++f) memcpy(S + f * ld, from + f * V + first, (last - first) * sizeof(R));
}
template <class R>
TF_INLINE void save_state(const R* S, long ld, R* to, long F, long V, long first, long last) {
    for (long f = 0; f < F; ++f) memcpy(to + f * V + first, S + f * ld, (last - first) * sizeof(R));
}

template <class R> TF_INLINE void scale_rows(R* x, long n, Pair<R> by) {
    for (long i = 0; i < n; ++i) pair(x + i * PAIR) *= by;
}

constexpr long SPAN = 128;  // tokens that one head takes before the next head of the task: they share their pages

template <class R, class In> struct Forward {
    const Call& c;
    const long b, first, last, lanes;
    const bool owner;  // of what all slices share: the normaliser and its state
    const bool streams;
    const Kernel<R> kernel;
    Scratch scratch;
    long h = 0;
    R *S, *z, *x, *f, *U, *Y, *g;  // x: query and key beside each other, f: their features

    static size_t bytes(const Call& c, long heads, long lanes) {
        const long numbers = heads * c.F * (lanes + 1) + PAIR * (c.K + (c.degree ? GROUP : c.F)) + BLOCK * (2 * lanes + BLOCK);
        return sizeof(R) * numbers + 64 * 32;
    }

    Forward(const Call& call, long b_, long heads, long slice, long first_, long last_)
        : c(call), b(b_), first(first_), last(last_), lanes(round_up(last_ - first_, LANES<R>)), owner(slice == 0),
          streams(call.streams && streamable<R>(static_cast<const In*>(call.y), call.V)), kernel(call.degree), scratch(bytes(call, heads, lanes)) {
        x = scratch.take<R>(c.K * PAIR);
        U = scratch.take<R>(BLOCK * lanes);
        Y = scratch.take<R>(BLOCK * lanes);
        g = scratch.take<R>(BLOCK * BLOCK);
        f = scratch.take<R>((c.degree ? GROUP : c.F) * PAIR);
    }

    void run(long from, long to) {
        R *const all_S = scratch.take<R>((to - from) * c.F * lanes), *const all_z = scratch.take<R>((to - from) * c.F);
        for (h = from; h < to; ++h) {
            const R* S0 = static_cast<const R*>(c.S0);
            const R* z0 = static_cast<const R*>(c.z0);
            load_state<R>(all_S + (h - from) * c.F * lanes, lanes, S0 ? S0 + (b * c.H + h) * c.F * c.V : nullptr, c.F, c.V, first, last);
            if (c.normalised && z0) memcpy(all_z + (h - from) * c.F, z0 + (b * c.H + h) * c.F, c.F * sizeof(R));
        }
        for (long t = 0; t < c.T; t += SPAN) {
            for (h = from; h < to; ++h) {
                S = all_S + (h - from) * c.F * lanes;
                z = all_z + (h - from) * c.F;
                span(t, t + SPAN < c.T ? t + SPAN : c.T);
            }
        }
        if (streams) streamed();
        for (h = from; h < to; ++h) {
            S = all_S + (h - from) * c.F * lanes;
            z = all_z + (h - from) * c.F;
            if (c.S) save_state<R>(S, lanes, static_cast<R*>(c.S) + (b * c.H + h) * c.F * c.V, c.F, c.V, first, last);
            if (c.normalised && owner && c.z) memcpy(static_cast<R*>(c.z) + (b * c.H + h) * c.F, z, c.F * sizeof(R));
        }
    }

    void span(long from, long to) {
        const double factor = fade_factor(c, h);
        Fade<R> fade;
        fade.set(nullptr, BLOCK, factor);
        for (long t = from; t < to; t += BLOCK) {
            const long count = to - t < BLOCK ? to - t : BLOCK;
            if (c.valid || count < BLOCK) fade.set(c.valid ? c.valid + b * c.T + t : nullptr, count, factor);
            fade.next_block();
            block(t, count, fade);
        }
    }

    const In* query(long t) const { return static_cast<const In*>(c.q) + b * c.q_b + t * c.q_t + h * c.q_h; }
    const In* key(long t) const { return static_cast<const In*>(c.k) + b * c.k_b + t * c.k_t + h * c.k_h; }
    const In* value(long t) const { return static_cast<const In*>(c.v) + b * c.v_b + t * c.v_t + h * c.v_h + first; }
    In* output(long t) const { return static_cast<In*>(c.y) + ((b * c.T + t) * c.H + h) * c.V + first; }

    void block(long t, long count, const Fade<R>& fade) {
        load_wide<R>(x, query(t), c.q_t, c.K, fade, R(c.scale));
        load_wide<R>(x + BLOCK, key(t), c.k_t, c.K, fade, R(1));
        load_rows<R>(U, lanes, value(t), c.v_t, last - first, fade);
        if (t + 2 * BLOCK <= c.T) {
            prefetch_rows(query(t + BLOCK), c.q_t, c.K);
            prefetch_rows(key(t + BLOCK), c.k_t, c.K);
            prefetch_rows(value(t + BLOCK), c.v_t, last - first);
        }
        activate<R>(x, c.K * PAIR, c.activation);
        Wide<R> s[BLOCK], n = wide<R>(0);
        pair_dots<R>(s, x, x + BLOCK, c.K);
        for (int u = 0; u < BLOCK; ++u) {
            s[u] = fade.between[u] != 0 ? kernel.value(s[u]) * fade.between[u] : wide<R>(0);
            n += s[u];
            at(g + u * BLOCK) = s[u];
        }
        triangle<R, false>(lanes, g, U, lanes, Y, lanes);
        features(t, fade, n);
        finish(t, count, fade, n);
    }

    void features(long t, const Fade<R>& fade, Wide<R>& n) {
        Features<R> of{x, c.K};
        const long step = c.degree ? GROUP : c.F;
        for (long first_row = 0; first_row < c.F; first_row += step) {
            const long rows = c.F - first_row < step ? c.F - first_row : step;
            R* rw = x;
            if (c.degree)
                of.make(rw = f, rows);
            else if (!fade.full || fade.fades)
                memcpy(rw = f, x, rows * PAIR * sizeof(R));
            if (!fade.full || fade.fades) scale_rows<R>(rw, rows, fade.on_rows);
            if (c.normalised) normaliser(rw, z + first_row, rows, fade.whole, n);
            if (!streams && first_row + rows == c.F && t + BLOCK <= c.T) prefetch_rows_to_write(output(t), c.H * c.V, last - first);
            R* state = S + first_row * lanes;
            if (fade.fades)
                pass<R, true>(rows, lanes, rw, rw + BLOCK, U, lanes, Y, lanes, state, lanes, fade.whole);
            else
                pass<R, false>(rows, lanes, rw, rw + BLOCK, U, lanes, Y, lanes, state, lanes, R(1));
        }
    }

    static void normaliser(const R* rw, R* z, long rows, R whole, Wide<R>& n) {
        Wide<R> part[4] = {n, wide<R>(0), wide<R>(0), wide<R>(0)};
        long r = 0;
        for (; r + BLOCK <= rows; r += BLOCK) {
#pragma GCC unroll 8
            for (int j = 0; j < BLOCK; ++j) part[j % 4] += at(rw + (r + j) * PAIR) * z[r + j];
            store8(z + r, load8(z + r) * whole + sums<R>(rw + r * PAIR + BLOCK));
        }
        for (; r < rows; ++r) {
            part[0] += at(rw + r * PAIR) * z[r];
            R gain = 0;
            for (int j = 0; j < BLOCK; ++j) gain += rw[r * PAIR + BLOCK + j];
            z[r] = z[r] * whole + gain;
        }
        n = (part[0] + part[1]) + (part[2] + part[3]);
    }

    void finish(long t, long count, const Fade<R>& fade, Wide<R> n) {
        const Wide<R> one = wide<R>(1), zero = wide<R>(0);
        Wide<R> below = c.normalised ? (fade.real != zero ? n : one) : one;
        const Mask<R> wrong = below <= zero;  // -1 where it holds
        long bad = 0;
        for (int i = 0; i < BLOCK; ++i) bad -= wrong[i];
        if (bad && owner && c.bad) __atomic_fetch_add(c.bad + b, bad, __ATOMIC_RELAXED);
        if (c.activation == RELU) below = below == zero ? one : below;  // every weight is 0, and so is the sum
        alignas(64) R by[BLOCK];
        at(by) = one / below;
        for (long i = 0; i < count; ++i) {
            if (!fade.full && fade.real[i] == 0)
                memset(static_cast<void*>(output(t + i)), 0, (last - first) * sizeof(In));
            else if (streams)
                stream_row(output(t + i), Y + i * lanes, last - first, by[i]);
            else
                store_row(output(t + i), Y + i * lanes, last - first, by[i]);
        }
        if (!c.normalised || !owner) return;
        R* const to = static_cast<R*>(c.n) + (b * c.H + h) * c.T + t;
        for (long i = 0; i < count; ++i) to[i] = below[i];
    }
};

}  // namespace
