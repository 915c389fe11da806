// exp, expm1, log, log1p, log2, log10 and the sigmoid.
//
// Polynomials are minimax fits. Their errors are relative to the function, before rounding.
#pragma once

#include "division.hpp"

namespace nt {

// Beyond the largest and the smallest float32 number: exp is infinite above, and 0 below minus this.
constexpr float EXP_LIMIT = 88.9f;
constexpr double LN_2 = 0.6931471805599453094;
constexpr SplitConstant<4> LN_2_PARTS(LN_2);
// The same in two bfloat16 numbers rounded to nearest: 2^-19.4.
constexpr float LN_2_SHORT[] = {0.69140625f, 0.0017395019531f};
constexpr SplitConstant<2> LOG2_E_PARTS(1.4426950408889634074);

// Conversion of natural logarithms to a base: `scale` is 1 / ln(base), `step` the logarithm of 2 to that base.
struct Base2 {
    static constexpr SplitConstant<3> scale{1.4426950408889634074};
    static constexpr SplitConstant<1> step{1.0};
};
struct Base10 {
    static constexpr SplitConstant<3> scale{0.4342944819032518277};
    static constexpr SplitConstant<4> step{0.3010299956639811952};
};

// x as n ln 2 + rest for |x| <= 128, with |rest| <= ln(2)/2 but for the rounding of n.
template <unsigned N>
struct Reduced {
    Int<N> n;
    Float<N> rest;
};

template <typename P, unsigned N>
inline Reduced<N> reduce_exponent(const Float<N> &x) {
    const Float<N> shifted = aie::add(value(product(split<2>(x), LOG2_E_PARTS)), constant<N>(ROUNDER));
    // |n| <= 256 is a bfloat16 number.
    const Bfloat<N> n = Sum<N>(aie::sub(shifted, constant<N>(ROUNDER))).template to_vector<bfloat16>();
    Sum<N> rest = difference(x, n, LN_2_PARTS[0]);
    NT_UNROLL
    for (unsigned i = 1; i < P::parts + 1; ++i) rest = aie::msc(rest, n, LN_2_PARTS[i]);
    return {aie::sub(bits(shifted), ROUNDER_BITS), value(rest)};
}

constexpr float EXP_COEFFICIENTS[] = {0.0013814320f, 0.0083688512f, 0.0416684011f, 0.1666651952f,
                                      0.4999999337f, 1.0f,          1.0f};  // 2^-28

// exp for |x| <= ln(2)/2.
template <typename P, unsigned N>
inline Float<N> exp_of_rest(const Float<N> &x) {
    if constexpr (P::parts == 3) {
        return polynomial<3>(split<3>(x), EXP_COEFFICIENTS);
    } else {
        // 1 + x + x^2/2 (1 + x slope); 2^-16, and 2^-12 for |x| <= 0.52
        const auto factor = split<2>(x);
        const Bfloat<N> lead = factor[0];
        const Bfloat<N> halved = aie::mul(lead, bfloat16(0.5f)).template to_vector<bfloat16>();
        const Bfloat<N> square = aie::mul(halved, lead).template to_vector<bfloat16>();
        const Bfloat<N> slope =
            aie::mac(constant_sum<N>(0.33554f), lead, bfloat16(0.08349609375f)).template to_vector<bfloat16>();
        const Bfloat<N> bend = aie::mul(lead, slope).template to_vector<bfloat16>();
        Sum<N> sum(aie::add(x, constant<N>(1.0f)));
        sum = aie::mac(sum, lead, factor[1]);
        sum = aie::mac(sum, halved, lead);
        return value(aie::mac(sum, square, bend));
    }
}

// exp of x in half precision. `shifted` is ROUNDER plus an integer n with |x - n ln 2| <= 0.52.
template <unsigned N>
inline Float<N> exp_roughly(const Sum<N> &x, const Sum<N> &shifted) {
    const Bfloat<N> n = aie::sub(shifted, constant<N>(ROUNDER)).template to_vector<bfloat16>();
    const Sum<N> rest = aie::msc(aie::msc(x, n, bfloat16(LN_2_SHORT[0])), n, bfloat16(LN_2_SHORT[1]));
    // The shift drops all bits of ROUNDER.
    const Int<N> power = aie::upshift(bits(value(shifted)), 23);
    return from_bits(aie::add(bits(exp_of_rest<half>(value(rest))), power));
}

// exp for |x| <= EXP_LIMIT where it is a normal number. Above, the bits of the result are beyond those of infinity,
// below they are negative or denormal.
template <typename P, unsigned N>
inline Float<N> exp_normal(const Float<N> &x) {
    if constexpr (P::parts == 2) {
        // x log2(e), but for 0.17
        const Sum<N> power = aie::mac(Sum<N>(x), to_bfloat16(x), bfloat16(0.443359375f));
        return exp_roughly(Sum<N>(x), aie::add(power, constant<N>(ROUNDER)));
    } else {
        const Reduced<N> reduced = reduce_exponent<P>(x);
        return from_bits(aie::add(bits(exp_of_rest<P>(reduced.rest)), aie::upshift(reduced.n, 23)));
    }
}

// exp for |x| <= EXP_LIMIT; what is below 2^-126 is 0 or denormal.
template <typename P, unsigned N>
inline Float<N> exp_bounded(const Float<N> &x) {
    return from_bits(aie::max(aie::min(bits(exp_normal<P>(x)), INFINITY_BITS), 0));
}

template <typename P = full, unsigned N>
inline Float<N> exp(const Float<N> &x) {
    return select(is_nan(x), x, exp_bounded<P>(at_least(at_most(x, EXP_LIMIT), -EXP_LIMIT)));
}

// The same in half precision for a bfloat16 number.
template <unsigned N>
inline Float<N> exp(const Split<1, N> &x) {
    // From -89 to 89: the power of the largest one is infinite, that of the smallest one zero.
    const auto bounded = aie::min(x[0].template cast_to<int16>(), int16(0x42b2)).template cast_to<uint16>();
    const Bfloat<N> lead = aie::min(bounded, uint16(0xc2b2)).template cast_to<bfloat16>();
    const Float<N> power = exp_roughly(Sum<N>(lead), aie::mac(constant_sum<N>(ROUNDER), lead, bfloat16(1.4453125f)));
    const Int<N> result = aie::max(aie::min(bits(power), INFINITY_BITS), 0);
    const auto size = aie::bit_and(int16(0x7fff), x[0].template cast_to<int16>());
    return from_bits(aie::select(result, NAN_BITS, aie::gt(size, int16(0x7f80))));
}

template <typename P>
struct Expm1Coefficients;
template <>
struct Expm1Coefficients<half> {  // 2^-21
    static constexpr float c[] = {0.0083380890f, 0.0418733866f, 0.1666683231f, 0.4999939789f};
};
template <>
struct Expm1Coefficients<full> {  // 2^-32
    static constexpr float c[] = {0.0001984589f, 0.0013940823f, 0.0083333898f, 0.0416663586f, 0.1666666637f, 0.5f};
};

// expm1 for -30 <= x <= EXP_LIMIT. Above 2^24 the 1 does not count.
template <typename P, unsigned N>
inline Float<N> expm1_bounded(const Float<N> &x) {
    const Reduced<N> reduced = reduce_exponent<P>(x);
    const auto rest = split<P::parts>(reduced.rest);
    const auto slope = split<P::parts>(polynomial<2>(rest, Expm1Coefficients<P>::c));
    const auto curved = split<P::parts>(value(product(rest, slope)));
    const Float<N> small = value(add_product(Sum<N>(reduced.rest), rest, curved));
    const Int<N> bounded = aie::min(reduced.n, 25);
    const Float<N> power = from_bits(aie::upshift(aie::add(bounded, 127), 23));
    const Float<N> sum = aie::add(scale(small, bounded), aie::sub(power, constant<N>(1.0f)));
    const Float<N> large = scale_positive(aie::add(small, constant<N>(1.0f)), reduced.n);
    return select(aie::ge(reduced.n, 25), large, sum);
}

// exp(x) - 1
template <typename P = full, unsigned N>
inline Float<N> expm1(const Float<N> &x) {
    const Float<N> result = expm1_bounded<P>(at_least(at_most(x, EXP_LIMIT), -30.0f));
    // x itself where x^2 is below the precision, and where it is NaN.
    const auto itself = aie::lt(magnitude(x), 0x33000000) | is_nan(x);  // 2^-25
    return select(itself, x, result);
}

// 1 / (1 + exp(-x))
template <typename P = full, unsigned N>
inline Float<N> sigmoid(const Float<N> &x) {
    const Float<N> power = exp_bounded<P>(nt::neg(at_least(at_most(x, EXP_LIMIT), -EXP_LIMIT)));
    const Float<N> sum = aie::add(power, constant<N>(1.0f));
    const Float<N> inverse = reciprocal_of_mantissa<P>(split<P::parts>(mantissa(sum)));
    const Int<N> exponents = aie::sub(aie::broadcast<int32, N>(127), exponent(sum));
    return select(is_nan(x), x, scale_positive(inverse, exponents));
}

template <typename P>
struct LogCoefficients;
template <>
struct LogCoefficients<half> {  // 2^-17
    static constexpr float c[] = {-0.1919641186f, 0.2244671179f, -0.2487276850f, 0.3324636495f, -0.5000126507f};
};
template <>
struct LogCoefficients<full> {  // 2^-28
    static constexpr float c[] = {-0.1294896365f, 0.1400476447f, -0.1216715455f, 0.1400115921f, -0.1668230568f,
                                  0.2001074767f,  -0.2499971746f, 0.3333320842f, -0.5000000121f};
};

// log(1 + f)
template <typename P, unsigned N>
inline Sum<N> log_of_mantissa(const Float<N> &f) {
    const auto factor = split<P::parts>(f);
    const Float<N> inner = polynomial<3>(factor, LogCoefficients<P>::c);
    const Float<N> curved = value(product(factor, split<P::parts>(inner)));
    return add_product(Sum<N>(f), factor, split<P::parts>(curved));
}

// sum + exponent step, from the smallest term
template <unsigned parts, unsigned N>
inline Float<N> add_exponent(Sum<N> sum, const Int<N> &exponent, const SplitConstant<parts> &step) {
    const Bfloat<N> e = Sum<N>(aie::sub(from_bits(aie::add(exponent, ROUNDER_BITS)), constant<N>(ROUNDER)))
                            .template to_vector<bfloat16>();
    NT_UNROLL
    for (unsigned i = parts; i-- > 0;) sum = aie::mac(sum, e, step[i]);
    return value(sum);
}

// log of 2^exponent (1 + f)
template <typename P, unsigned N>
inline Float<N> log_of_parts(const Int<N> &exponent, const Float<N> &f) {
    return add_exponent(log_of_mantissa<P>(f), exponent, LN_2_PARTS);
}

// The exponent, times 2^23, of positive x as 2^exponent (1 + f) with 1 + f between 2/3 and 4/3.
template <unsigned N>
inline Int<N> exponent_bits(const Float<N> &x) {
    return aie::bit_and(INFINITY_BITS | SIGN_BIT, aie::sub(bits(x), 0x3f2aaaab));
}

// `result` for positive numbers, minus infinity for zeros, NaN below.
template <unsigned N>
inline Float<N> log_specials(const Float<N> &x, const Float<N> &result) {
    Int<N> out = aie::select(bits(result), bits(x), aie::ge(bits(x), INFINITY_BITS));
    out = aie::select(out, NAN_BITS, aie::lt(bits(x), 0));
    out = aie::select(out, INFINITY_BITS | SIGN_BIT, aie::lt(magnitude(x), 0x00800000));
    return from_bits(out);
}

template <typename P = full, unsigned N>
inline Float<N> log(const Float<N> &x) {
    const Int<N> exponent = exponent_bits(x);
    const Float<N> f = aie::sub(from_bits(aie::sub(bits(x), exponent)), constant<N>(1.0f));
    return log_specials(x, log_of_parts<P>(exact_downshift(exponent, 23), f));
}

// Exact for powers of the base: only the sum with the largest term is rounded noticeably.
template <typename Base, typename P, unsigned N>
inline Float<N> log_to_base(const Float<N> &x) {
    const Int<N> exponent = exponent_bits(x);
    const Float<N> f = aie::sub(from_bits(aie::sub(bits(x), exponent)), constant<N>(1.0f));
    const Sum<N> scaled = product(split<P::parts>(value(log_of_mantissa<P>(f))), Base::scale);
    return log_specials(x, add_exponent(scaled, exact_downshift(exponent, 23), Base::step));
}

template <typename P = full, unsigned N>
inline Float<N> log2(const Float<N> &x) {
    return log_to_base<Base2, P>(x);
}

template <typename P = full, unsigned N>
inline Float<N> log10(const Float<N> &x) {
    return log_to_base<Base10, P>(x);
}

// log(1 + x). The rounding error of 1 + x is added to f.
template <typename P = full, unsigned N>
inline Float<N> log1p(const Float<N> &x) {
    const Float<N> one = constant<N>(1.0f);
    const Float<N> sum = aie::add(x, one);
    const Float<N> rounded_one = aie::sub(sum, x), rounded_x = aie::sub(sum, rounded_one);
    const Float<N> lost = aie::add(aie::sub(one, rounded_one), aie::sub(x, rounded_x));
    const Int<N> exponent = exponent_bits(sum), n = exact_downshift(exponent, 23);
    const Float<N> f = aie::sub(from_bits(aie::sub(bits(sum), exponent)), one);
    const Float<N> corrected = aie::add(f, scale(lost, aie::sub(aie::zeros<int32, N>(), n)));
    const Float<N> result = log_specials(sum, log_of_parts<P>(n, corrected));
    return select(aie::lt(magnitude(x), 0x33000000) | is_nan(x), x, result);  // 2^-25
}

}  // namespace nt
