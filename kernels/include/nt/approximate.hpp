// exp, tanh and quotients by 1 + exp with the instructions of aie2p, for a precision below that of bfloat16.
#pragma once

#include "exponential.hpp"

#if __AIE_ARCH__ >= 21

namespace nt {

// exp2 is 2^n (1 + f) for n + f: up to 6.15 % too large. The offset makes that 3 % in both directions.
constexpr float EXP2_OFFSET = -0.04368f;

template <unsigned parts, unsigned N>
inline Bfloat<N> exp_of_parts(const Split<parts, N> &x) {
    return aie::exp2<bfloat16>(value(aie::add(product(x, LOG2_E_PARTS), constant<N>(EXP2_OFFSET))));
}
template <unsigned N>
inline Bfloat<N> approximate_exp(const Split<1, N> &x) {
    return exp_of_parts(x);
}
// The second part of an infinity would be NaN.
template <unsigned N>
inline Bfloat<N> approximate_exp(const Float<N> &x) {
    const Bfloat<N> power = exp_of_parts(split<2>(at_least(at_most(x, EXP_LIMIT), -EXP_LIMIT)));
    return select(is_nan(x), to_bfloat16(x), power);
}

template <unsigned N>
inline Bfloat<N> approximate_tanh(const Float<N> &x) {
    return aie::tanh<bfloat16>(x);
}

// 1 / (1 + exp(x))
template <unsigned N>
inline Float<N> approximate_logistic(const Split<1, N> &x) {
    const Bfloat<N> tangent = approximate_tanh(value(Sum<N>(aie::mul(x[0], bfloat16(0.5f)))));
    return value(aie::msc(constant_sum<N>(0.5f), tangent, bfloat16(0.5f)));
}
// factor / (1 + exp(x))
template <unsigned N>
inline Float<N> approximate_logistic(const Split<1, N> &factor, const Split<1, N> &x) {
    return value(Sum<N>(aie::mul(factor[0], to_bfloat16(approximate_logistic(x)))));
}

}  // namespace nt

#endif
