// Vectors by the compilers' own extension: one source for AVX-512, AVX2, SSE2 and NEON.
//
// Two shapes are used. A Lane vector is as wide as a register and runs along values or features. A Wide vector holds one
// number for each of the 8 tokens of a block, whatever the registers' size.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace {

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int REGISTER_BYTES = 32, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int REGISTER_BYTES = 16, REGISTERS = 32;
#else
constexpr int REGISTER_BYTES = 16, REGISTERS = 16;
#endif

constexpr int BLOCK = 8;   // tokens processed together
constexpr int PAIR = 16;   // a row of two Wide numbers: what reads a state, then what is written into it

#define TF_INLINE static inline __attribute__((always_inline))

template <class R> struct Types;
template <> struct Types<float> {
    typedef float Lane __attribute__((vector_size(REGISTER_BYTES), may_alias));
    typedef float Wide __attribute__((vector_size(BLOCK * sizeof(float)), may_alias));
    typedef float Pair __attribute__((vector_size(PAIR * sizeof(float)), may_alias));
    typedef int32_t Mask __attribute__((vector_size(BLOCK * sizeof(float)), may_alias));
    typedef int32_t LaneInt __attribute__((vector_size(REGISTER_BYTES), may_alias));
};
template <> struct Types<double> {
    typedef double Lane __attribute__((vector_size(REGISTER_BYTES), may_alias));
    typedef double Wide __attribute__((vector_size(BLOCK * sizeof(double)), may_alias));
    typedef double Pair __attribute__((vector_size(PAIR * sizeof(double)), may_alias));
    typedef int64_t Mask __attribute__((vector_size(BLOCK * sizeof(double)), may_alias));
    typedef int64_t LaneInt __attribute__((vector_size(REGISTER_BYTES), may_alias));
};
template <class R> using Lane = typename Types<R>::Lane;
template <class R> using Wide = typename Types<R>::Wide;
template <class R> using Pair = typename Types<R>::Pair;
template <class R> using Mask = typename Types<R>::Mask;
template <class R> constexpr int LANES = REGISTER_BYTES / sizeof(R);

struct bf16 { uint16_t bits; };

TF_INLINE float widen(bf16 x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}
TF_INLINE float widen(float x) { return x; }
TF_INLINE double widen(double x) { return x; }

TF_INLINE void narrow(float x, bf16& y) {  // round to nearest even; NaN stays NaN
    uint32_t bits;
    memcpy(&bits, &x, 4);
    y.bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
TF_INLINE void narrow(float x, float& y) { y = x; }
TF_INLINE void narrow(double x, double& y) { y = x; }

TF_INLINE Wide<float> load8(const float* p) {
    Wide<float> x;
    memcpy(&x, p, sizeof x);
    return x;
}
TF_INLINE Wide<double> load8(const double* p) {
    Wide<double> x;
    memcpy(&x, p, sizeof x);
    return x;
}
TF_INLINE Wide<float> load8(const bf16* p) {
    typedef uint16_t Half __attribute__((vector_size(BLOCK * 2)));
    typedef uint32_t Full __attribute__((vector_size(BLOCK * 4)));
    Half bits;
    memcpy(&bits, p, sizeof bits);
    const Full whole = __builtin_convertvector(bits, Full) << 16;
    Wide<float> x;
    memcpy(&x, &whole, sizeof x);
    return x;
}

TF_INLINE void store8(float* p, Wide<float> x) { memcpy(p, &x, sizeof x); }
TF_INLINE void store8(double* p, Wide<double> x) { memcpy(p, &x, sizeof x); }
TF_INLINE void store8(bf16* p, Wide<float> x) {
    for (int i = 0; i < BLOCK; ++i) narrow(x[i], p[i]);
}

template <class R> TF_INLINE Wide<R> wide(R x) { return Wide<R>{x, x, x, x, x, x, x, x}; }
template <class R> TF_INLINE Wide<R>& at(R* p) { return *reinterpret_cast<Wide<R>*>(p); }
template <class R> TF_INLINE const Wide<R>& at(const R* p) { return *reinterpret_cast<const Wide<R>*>(p); }
template <class R> TF_INLINE Pair<R>& pair(R* p) { return *reinterpret_cast<Pair<R>*>(p); }
template <class R> TF_INLINE const Pair<R>& pair(const R* p) { return *reinterpret_cast<const Pair<R>*>(p); }
template <class R> TF_INLINE Lane<R>& lane(R* p) { return *reinterpret_cast<Lane<R>*>(p); }
template <class R> TF_INLINE const Lane<R>& lane(const R* p) { return *reinterpret_cast<const Lane<R>*>(p); }

#if defined(__clang__) || __GNUC__ >= 12
#define TF_PICK(a, b, i0, i1, i2, i3, i4, i5, i6, i7) __builtin_shufflevector(a, b, i0, i1, i2, i3, i4, i5, i6, i7)
#else
#define TF_PICK(a, b, i0, i1, i2, i3, i4, i5, i6, i7) \
    __builtin_shuffle(a, b, Mask<R>{i0, i1, i2, i3, i4, i5, i6, i7})
#endif

// 8 rows of 8 become 8 columns of 8.
template <class R> TF_INLINE void transpose(Wide<R> (&x)[BLOCK]) {
    Wide<R> a[BLOCK], b[BLOCK];
#pragma GCC unroll 4
    for (int i = 0; i < BLOCK; i += 2) {
        a[i] = TF_PICK(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        a[i + 1] = TF_PICK(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < BLOCK; i += 4) {
        b[i] = TF_PICK(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 1] = TF_PICK(a[i + 1], a[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 2] = TF_PICK(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        b[i + 3] = TF_PICK(a[i + 1], a[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        x[i] = TF_PICK(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = TF_PICK(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// The sums of 8 Wide vectors that lie PAIR apart, as one.
template <class R> TF_INLINE Wide<R> sums(const R* x) {
    Wide<R> a[4], b[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const Wide<R> u = at(x + 2 * i * PAIR), v = at(x + (2 * i + 1) * PAIR);
        a[i] = TF_PICK(u, v, 0, 8, 2, 10, 4, 12, 6, 14) + TF_PICK(u, v, 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        const Wide<R> u = a[2 * i], v = a[2 * i + 1];
        b[i] = TF_PICK(u, v, 0, 1, 8, 9, 4, 5, 12, 13) + TF_PICK(u, v, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    return TF_PICK(b[0], b[1], 0, 1, 2, 3, 8, 9, 10, 11) + TF_PICK(b[0], b[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

// exp over n numbers (a multiple of 8) that are all <= 0, to about one unit in the last place. In place.
template <class R, bool DEEP> TF_INLINE Lane<R> exp_nonpositive(Lane<R> x) {
    constexpr bool f = sizeof(R) == 4;
    typedef typename Types<R>::LaneInt Int;
    const R magic = f ? R(12582912) : R(6755399441055744.0);
    const R ln2_high = f ? R(0.693359375) : R(6.93145751953125e-1);
    const R ln2_low = f ? R(-2.12194440e-4) : R(1.42860682030941723212e-6);
    if (DEEP) {
        const Lane<R> low = Lane<R>{} + (f ? R(-104) : R(-746));
        x = x < low ? low : x;
    }
    const Lane<R> n = (x * R(1.4426950408889634) + magic) - magic;
    const Lane<R> r = (x - n * ln2_high) - n * ln2_low;
    constexpr double inverse[] = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                  1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    constexpr int degree = f ? 7 : 13;
    Lane<R> p = Lane<R>{} + R(inverse[degree]);
#pragma GCC unroll 16
    for (int k = degree - 1; k >= 0; --k) p = p * r + R(inverse[k]);
    constexpr int bias = f ? 127 : 1023, shift = f ? 23 : 52;
    const Int whole = __builtin_convertvector(n, Int), half = DEEP ? whole >> 1 : Int{}, rest = whole - half;
    const Int g = (rest + bias) << shift, h = (half + bias) << shift;
    Lane<R> scale;
    memcpy(&scale, &g, sizeof g);
    p *= scale;
    if (DEEP) {  // 2^n in two factors: small results fade through the denormals instead of wrapping round
        memcpy(&scale, &h, sizeof h);
        p *= scale;
    }
    return p;
}

// Written past the caches where the machine can: a line that is written whole need not be read first. `to` is aligned to a
// register. `streamed` ends a task that did so: what other threads do next comes after its stores.
template <class R> TF_INLINE void stream(R* to, Lane<R> x) {
#if defined(__SANITIZE_ADDRESS__)  // which does not see the others
    lane(to) = x;
#elif defined(__clang__)
    __builtin_nontemporal_store(x, reinterpret_cast<Lane<R>*>(to));
#elif defined(__AVX512F__)
    __builtin_ia32_movntps512(reinterpret_cast<float*>(to), (Lane<float>)x);
#elif defined(__AVX__)
    __builtin_ia32_movntps256(reinterpret_cast<float*>(to), (Lane<float>)x);
#elif defined(__SSE2__)
    __builtin_ia32_movntps(reinterpret_cast<float*>(to), (Lane<float>)x);
#else
    lane(to) = x;
#endif
}

TF_INLINE void streamed() {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}

// Memory that a task cuts into aligned pieces and returns at once.
struct Scratch {
    char* start;
    size_t used = 0, size;
    explicit Scratch(size_t bytes) : size(bytes) {
        void* p = nullptr;
        start = posix_memalign(&p, 64, bytes) ? nullptr : static_cast<char*>(p);
        if (!start) abort();
    }
    ~Scratch() { free(start); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
    template <class R> R* take(size_t n) {  // zeroed
        R* p = reinterpret_cast<R*>(start + used);
        used += rounded(n * sizeof(R));
        if (used > size) abort();
        memset(static_cast<void*>(p), 0, rounded(n * sizeof(R)));
        return p;
    }
};

}  // namespace
