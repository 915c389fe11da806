// exp, tanh, erf and quotients by 1 + exp for less precision than that of bfloat16: by instructions of aie2p, and by
// polynomials whose steps are rounded to bfloat16.
#pragma once

#include "exponential.hpp"

namespace nt {

// The function whose quotient by x is a polynomial of centre - |x| up to a limit, from where on it is 1 or -1.
template <unsigned N, unsigned long count>
inline Bfloat<N> odd_function(const Bfloat<N> &x, float limit, float centre, const float (&coefficients)[count]) {
    const auto size = aie::bit_and(int16(0x7fff), x.template cast_to<int16>());
    const auto sign = aie::bit_and(int16(-0x8000), x.template cast_to<int16>());
    const int16 most = static_cast<int16>(__builtin_bit_cast(int32, limit) >> 16);
    const auto bounded = aie::min(size, most);
    const Bfloat<N> place = aie::msc(constant_sum<N>(centre), bounded.template cast_to<bfloat16>(), bfloat16(1.0f))
                                .template to_vector<bfloat16>();
    Bfloat<N> quotient = aie::broadcast<bfloat16, N>(bfloat16(coefficients[0]));
    NT_UNROLL
    for (unsigned i = 1; i < count; ++i)
        quotient = aie::mac(constant_sum<N>(coefficients[i]), place, quotient).template to_vector<bfloat16>();
    const auto is_nan = aie::gt(size, int16(0x7f80));
    const auto factor = aie::select(quotient.template cast_to<int16>(), int16(0x7fc0), is_nan);
    const Bfloat<N> argument = aie::bit_or(bounded, sign).template cast_to<bfloat16>();
    return aie::mul(argument, factor.template cast_to<bfloat16>()).template to_vector<bfloat16>();
}

#if __AIE_ARCH__ >= 21

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

#else

constexpr float TANH_QUOTIENT[] = {-0.006f, -0.00748f, 0.01612f, 0.07294f, 0.20493f, 0.48128f};  // 2^-7.3

template <unsigned N>
inline Bfloat<N> approximate_tanh(const Float<N> &x) {
    return odd_function(to_bfloat16(x), 3.25f, 2.0f, TANH_QUOTIENT);
}

#endif

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

constexpr float ERF_QUOTIENT[] = {-0.03924f, -0.03325f, 0.11531f, 0.35344f, 0.64442f};  // 2^-7.2

// factor (1 + erf(x))
template <unsigned N>
inline Float<N> approximate_one_plus_erf(const Split<1, N> &factor, const Split<1, N> &x) {
    const Bfloat<N> share = odd_function(x[0], 2.25f, 1.5f, ERF_QUOTIENT);
    const Bfloat<N> sum = aie::mac(constant_sum<N>(1.0f), share, bfloat16(1.0f)).template to_vector<bfloat16>();
    return value(Sum<N>(aie::mul(factor[0], sum)));
}

}  // namespace nt
