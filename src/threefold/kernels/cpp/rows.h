// A few rows times a matrix that stays in the cache: the serial heart of a recurrent step.
#pragma once
#include "vec.h"

#include <memory>
#include <new>

namespace {

constexpr int MOST_ROWS = REGISTERS == 32 ? 8 : 4;  // rows held in registers at once

// Numbers aligned to a cache line, zero at first. Freed with the object.
template <class R> struct Buffer {
    explicit Buffer(size_t n) : count(n), data(static_cast<R*>(::operator new(n * sizeof(R) + 64, std::align_val_t(64)))) {
        memset(static_cast<void*>(data), 0, n * sizeof(R));
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { ::operator delete(data, std::align_val_t(64)); }
    R* at(size_t i) { return data + i; }
    const R* at(size_t i) const { return data + i; }
    size_t count;
    R* data;
};

TF_INLINE long padded(long n, long to) { return (n + to - 1) / to * to; }

// A (depth x columns) matrix cut into panels a few registers wide, each panel stored row after row.
template <class R> struct Packed {
    Packed(long depth, long columns)
        : depth(depth), wide(columns / LANES<R> % 3 ? 2 : 3), columns(padded(columns, wide * LANES<R>)), numbers(depth * this->columns) {}

    void set(long k, long column, R value) {
        const long panel = wide * LANES<R>;
        numbers.data[(column / panel) * panel * depth + k * panel + column % panel] = value;
    }

    // Row k from `count` numbers, column 0 onwards.
    void set_row(long k, const R* from, long count) {
        const long panel = wide * LANES<R>;
        for (long column = 0; column < count; column += panel)
            memcpy(numbers.data + column * depth + k * panel, from + column,
                   (count - column < panel ? count - column : panel) * sizeof(R));
    }

    long depth;
    int wide;      // registers per panel
    long columns;  // a multiple of the panel's width
    Buffer<R> numbers;
};

template <class R, int ROWS, int WIDE, int PANELS>
TF_INLINE void tile(const R* a, long a_row, long depth, const R* w, R* out, long out_row) {
    constexpr int L = LANES<R>;
    Lane<R> sum[ROWS][PANELS * WIDE] = {};
    for (long k = 0; k < depth; ++k) {
        Lane<R> row[PANELS * WIDE];
#pragma GCC unroll 16
        for (int p = 0; p < PANELS; ++p)
#pragma GCC unroll 4
            for (int i = 0; i < WIDE; ++i) row[p * WIDE + i] = lane(w + (p * depth + k) * WIDE * L + i * L);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
            for (int i = 0; i < PANELS * WIDE; ++i) sum[r][i] += a[r * a_row + k] * row[i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int i = 0; i < PANELS * WIDE; ++i) memcpy(out + r * out_row + i * L, &sum[r][i], sizeof sum[r][i]);
}

template <class R, int ROWS, int WIDE>
TF_INLINE void panels(const R* a, long a_row, const Packed<R>& w, R* out, long out_row) {
    constexpr long width = WIDE * LANES<R>;
    constexpr int together = ROWS == 1 ? 4 : ROWS == 2 ? 2 : 1;  // enough independent sums to hide a multiply-add's latency
    long column = 0;
    for (; column + together * width <= w.columns; column += together * width)
        tile<R, ROWS, WIDE, together>(a, a_row, w.depth, w.numbers.at(column * w.depth), out + column, out_row);
    for (; column < w.columns; column += width)
        tile<R, ROWS, WIDE, 1>(a, a_row, w.depth, w.numbers.at(column * w.depth), out + column, out_row);
}

template <class R, int ROWS> TF_INLINE void rows_of(const R* a, long a_row, const Packed<R>& w, R* out, long out_row) {
    if (w.wide == 3)
        panels<R, ROWS, 3>(a, a_row, w, out, out_row);
    else
        panels<R, ROWS, 2>(a, a_row, w, out, out_row);
}

// out (rows x w.columns) = a (rows x w.depth) w, for 1 <= rows <= MOST_ROWS.
template <class R> void product(int rows, const R* a, long a_row, const Packed<R>& w, R* out, long out_row) {
    switch (rows) {
        case 1: return rows_of<R, 1>(a, a_row, w, out, out_row);
        case 2: return rows_of<R, 2>(a, a_row, w, out, out_row);
        case 3: return rows_of<R, 3>(a, a_row, w, out, out_row);
        case 4: return rows_of<R, 4>(a, a_row, w, out, out_row);
#if defined(__AVX512F__) || defined(__aarch64__)
        case 5: return rows_of<R, 5>(a, a_row, w, out, out_row);
        case 6: return rows_of<R, 6>(a, a_row, w, out, out_row);
        case 7: return rows_of<R, 7>(a, a_row, w, out, out_row);
        case 8: return rows_of<R, 8>(a, a_row, w, out, out_row);
#endif
    }
}

}  // namespace
