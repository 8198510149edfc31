// sigmoid and tanh on a register of numbers, to a unit or two in the last place. NaN stays NaN.
#pragma once
#include "vec.h"

namespace {

// c0 x^n + c1 x^(n-1) + ...: highest power first.
template <class R, class... More> TF_INLINE Lane<R> horner(Lane<R> x, R first, More... more) {
    Lane<R> y = Lane<R>{} + first;
    const R rest[] = {more...};
#pragma GCC unroll 8
    for (R c : rest) y = y * x + c;
    return y;
}

// Both sides from e^-|x|, which cannot overflow.
template <class R> TF_INLINE Lane<R> sigmoid(Lane<R> x) {
    const Lane<R> e = exp_nonpositive<R, true>(x < R(0) ? x : -x), s = R(1) / (R(1) + e);
    return x < R(0) ? e * s : s;
}

// Near zero (1 - e) / (1 + e) would lose what it subtracts: there an odd function serves (the constants are Cephes').
TF_INLINE Lane<float> tanh_near_zero(Lane<float> x) {
    const Lane<float> z = x * x;
    const Lane<float> p = horner(z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                 -3.33332819422e-1f);
    return p * z * x + x;
}
TF_INLINE Lane<double> tanh_near_zero(Lane<double> x) {
    const Lane<double> z = x * x;
    const Lane<double> p = horner(z, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3);
    const Lane<double> q = horner(z, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
    return p / q * z * x + x;
}

template <class R> TF_INLINE Lane<R> hyperbolic_tangent(Lane<R> x) {
    const Lane<R> size = x < R(0) ? -x : x, e = exp_nonpositive<R, true>(R(-2) * size);
    const Lane<R> far = (R(1) - e) / (R(1) + e);
    return size < R(0.625) ? tanh_near_zero(x) : (x < R(0) ? -far : far);
}

}  // namespace
