// Division, reciprocal and square roots by correcting a bfloat16 estimate.
#pragma once

#include "arithmetic.hpp"

namespace nt {

// x 2^n for finite x; what is below 2^-126 becomes zero, what is too large infinite.
template <unsigned N>
inline Float<N> scale(const Float<N> &x, const Int<N> &n) {
    const Int<N> exponent = aie::add(exact_downshift(aie::bit_and(INFINITY_BITS, bits(x)), 23), n);
    Int<N> result = aie::add(bits(x), aie::upshift(n, 23));
    result = aie::select(result, aie::bit_or(INFINITY_BITS, sign(x)), aie::ge(exponent, 255));
    const auto zero = aie::le(exponent, 0) | aie::lt(magnitude(x), 0x00800000);
    return from_bits(aie::select(result, sign(x), zero));
}

// The same for positive normal x and a sum of n and the exponent's field from -256 to 255.
template <unsigned N>
inline Float<N> scale_positive(const Float<N> &x, const Int<N> &n) {
    const Int<N> result = aie::min(aie::add(bits(x), aie::upshift(n, 23)), INFINITY_BITS);
    return from_bits(aie::select(result, 0, aie::lt(result, 0x00800000)));
}

template <unsigned N>
inline Bfloat<N> to_bfloat16(const Float<N> &x) {
    return Sum<N>(x).template to_vector<bfloat16>();
}

// `one` / m for 1 <= m < 2 and `one` about 1: a parabola with an error of 1 %, and one step of Newton's.
template <unsigned N>
inline Bfloat<N> reciprocal_estimate(const Bfloat<N> &m, float one) {
    Bfloat<N> y = aie::mac(constant_sum<N>(-1.45454496f), m, bfloat16(0.32323206f)).template to_vector<bfloat16>();
    y = aie::mac(constant_sum<N>(2.12121204f), m, y).template to_vector<bfloat16>();
    const Bfloat<N> miss = aie::msc(constant_sum<N>(one), m, y).template to_vector<bfloat16>();
    return aie::mac(Sum<N>(y), y, miss).template to_vector<bfloat16>();
}

// 1 / m for 1 <= m < 2 as estimate (1 + correction).
template <typename P, unsigned N>
inline Float<N> reciprocal_of_mantissa(const Split<P::parts, N> &m) {
    const Bfloat<N> y = reciprocal_estimate(m[0], 1.0f);
    // error = 1 - m y, exactly; 1 / m = y / (1 - error), and the series 1 + error + error^2 + error^3 is enough.
    const Split<1, N> estimate{{y}};
    const Float<N> error = value(remainder(constant_sum<N>(1.0f), m, estimate));
    Float<N> correction = error;
    if constexpr (P::parts == 3) {
        const auto e = split<2>(error);
        const Float<N> square = value(product(e, e));
        correction = aie::add(error, value(add_product(Sum<N>(square), e, split<2>(square))));
    }
    return value(add_product(Sum<N>(y), split<P::parts>(correction), estimate));
}

// The mantissa with the exponent of 1, and the exponent as it stands in the number: that of 1 is 127.
template <unsigned N>
inline Float<N> mantissa(const Float<N> &x) {
    return from_bits(aie::bit_or(ONE_BITS, aie::bit_and(0x007fffff, bits(x))));
}
template <unsigned N>
inline Int<N> exponent(const Float<N> &x) {
    return exact_downshift(aie::bit_and(INFINITY_BITS, bits(x)), 23);
}

// Parts of a number from 1 up to 2. A first part of 2 would cost vmac.f of aie2 the last bit.
template <typename P, unsigned N>
inline Split<P::parts, N> split_mantissa(const Float<N> &m) {
    if constexpr (P::parts == 2)
        return split<2>(m);
    else
        return split_below<P::parts>(m);
}

// top / bottom for numbers from 1 up to 2.
template <typename P, unsigned N>
inline Float<N> quotient_of_mantissas(const Float<N> &top, const Float<N> &bottom) {
    const auto divisor = split_mantissa<P>(bottom);
    const auto inverse = split<P::parts>(reciprocal_of_mantissa<P>(divisor));
    const Float<N> quotient = value(product(split_mantissa<P>(top), inverse));
    if constexpr (P::parts == 3) {
        // One more step with the exact remainder leaves half a unit in the last place.
        const Float<N> rest = value(remainder(Sum<N>(top), split<3>(quotient), divisor));
        return value(aie::mac(Sum<N>(quotient), to_bfloat16(rest), inverse[0]));
    } else {
        return quotient;
    }
}

// Denormal operands count as zeros.
template <typename P = full, unsigned N>
inline Float<N> div(const Float<N> &a, const Float<N> &b) {
    const Float<N> mantissas = quotient_of_mantissas<P>(mantissa(a), mantissa(b));
    const Int<N> sign_bits = aie::bit_xor(sign(a), sign(b));
    const Float<N> quotient = scale(mantissas, aie::sub(exponent(a), exponent(b)));
    Int<N> result = aie::bit_or(bits(quotient), sign_bits);
    const auto a_zero = aie::lt(magnitude(a), 0x00800000), b_zero = aie::lt(magnitude(b), 0x00800000);
    const auto a_infinite = aie::ge(magnitude(a), INFINITY_BITS), b_infinite = aie::ge(magnitude(b), INFINITY_BITS);
    result = aie::select(result, sign_bits, a_zero | b_infinite);
    result = aie::select(result, aie::bit_or(INFINITY_BITS, sign_bits), a_infinite | b_zero);
    const auto undefined = (a_zero & b_zero) | (a_infinite & b_infinite) | is_nan(a) | is_nan(b);
    return from_bits(aie::select(result, NAN_BITS, undefined));
}

// a / b for 1 <= b <= 2^127, in half precision; 0 for 2^127 and finite a. Quotients below 2^-116 have an absolute
// error of up to 2^-124.
constexpr int32 LARGEST_DIVISOR_BITS = 0x7f000000;
template <unsigned N>
inline Float<N> div_by_bounded(const Split<1, N> &a, const Float<N> &b) {
    // b = m 2^n, and a 2^-n is exact.
    const Int<N> exponents = aie::bit_and(INFINITY_BITS, bits(b));
    const Bfloat<N> power =
        to_bfloat16(from_bits(aie::sub(aie::broadcast<int32, N>(LARGEST_DIVISOR_BITS), exponents)));
    const Bfloat<N> top = aie::mul(a[0], power).template to_vector<bfloat16>();
    const auto m = split<2>(mantissa(b));
    // Newton's step aims below 1 / m by more than its error: where all terms have the sign of a, infinities and zeros
    // come out right by themselves.
    const Bfloat<N> y = reciprocal_estimate(m[0], 0.9921875f);
    const Sum<N> error = remainder(constant_sum<N>(1.0f), m, Split<1, N>{{y}});
    const Bfloat<N> e = error.template to_vector<bfloat16>();
    const Bfloat<N> correction = aie::mac(error, e, e).template to_vector<bfloat16>();
    const Sum<N> quotient = aie::mul(top, y);
    return value(aie::mac(quotient, quotient.template to_vector<bfloat16>(), correction));
}

// a / b for b >= 1, in half precision. A divisor of 2^127 or more counts as infinite, for a float a one of 2^126: then
// the quotient is a times 1 / b.
template <unsigned N>
inline Float<N> div_by_one_or_more(const Split<1, N> &a, const Float<N> &b) {
    const Float<N> result = div_by_bounded(a, from_bits(aie::min(bits(b), LARGEST_DIVISOR_BITS)));
    return select(aie::gt(b.template cast_to<uint32>(), static_cast<uint32>(INFINITY_BITS)), b, result);
}
template <unsigned N>
inline Float<N> div_by_one_or_more(const Float<N> &a, const Float<N> &b) {
    return mul<half>(a, div_by_one_or_more(brief(constant<N>(1.0f)), b));
}

// 1 / x
template <typename P = full, unsigned N>
inline Float<N> reciprocal(const Float<N> &x) {
    const Float<N> inverse = reciprocal_of_mantissa<P>(split<P::parts>(mantissa(x)));
    const Int<N> exponents = aie::sub(aie::broadcast<int32, N>(127), exponent(x));
    Int<N> result = aie::bit_or(bits(scale(inverse, exponents)), sign(x));
    result = aie::select(result, sign(x), aie::ge(magnitude(x), INFINITY_BITS));
    result = aie::select(result, aie::bit_or(INFINITY_BITS, sign(x)), aie::lt(magnitude(x), 0x00800000));
    return from_bits(aie::select(result, NAN_BITS, is_nan(x)));
}

// 1 / sqrt(m) for 1 <= m < 4 as estimate (1 + correction).
template <typename P, unsigned N>
inline Float<N> rsqrt_of_mantissa(const Split<P::parts, N> &m) {
    const Bfloat<N> lead = m[0];
    // A cubic with an error of 0.7 %.
    Bfloat<N> y = aie::mac(constant_sum<N>(0.19468545f), lead, bfloat16(-0.01905037f)).template to_vector<bfloat16>();
    y = aie::mac(constant_sum<N>(-0.73886276f), lead, y).template to_vector<bfloat16>();
    y = aie::mac(constant_sum<N>(1.55618719f), lead, y).template to_vector<bfloat16>();
    // error = 1 - m y^2; 1 / sqrt(m) = y / sqrt(1 - error) = y (1 + error/2 + 3/8 error^2 + 5/16 error^3 + ...)
    const auto square = split<2>(value(Sum<N>(aie::mul(y, y))));
    if constexpr (P::parts == 2) {  // up to the square of the error; 2^-16
        const Bfloat<N> e = remainder(constant_sum<N>(1.0f), m, square).template to_vector<bfloat16>();
        const Bfloat<N> slope = aie::mac(constant_sum<N>(0.5f), e, bfloat16(0.375f)).template to_vector<bfloat16>();
        const Bfloat<N> correction = aie::mul(e, slope).template to_vector<bfloat16>();
        return value(aie::mac(Sum<N>(y), y, correction));
    }
    constexpr float series[] = {35.0f / 128, 5.0f / 16, 3.0f / 8, 0.5f};
    const auto e = split<P::parts>(value(remainder(constant_sum<N>(1.0f), m, square)));
    const auto slope = split<P::parts>(polynomial<1>(e, series));
    const auto correction = split<P::parts>(value(product(e, slope)));
    return value(add_product(Sum<N>(y), correction, Split<1, N>{{y}}));
}

// Positive x as m 4^(exponent / 2^24) with 1 <= m < 4.
template <unsigned N>
inline Int<N> even_exponent_bits(const Float<N> &x) {
    return aie::bit_and(-16777216, aie::sub(bits(x), ONE_BITS));
}

template <typename P = full, unsigned N>
inline Float<N> sqrt(const Float<N> &x) {
    const Int<N> even = even_exponent_bits(x);
    const Float<N> m = from_bits(aie::sub(bits(x), even));
    const auto square = split<P::parts>(m);
    const auto inverse = split<P::parts>(rsqrt_of_mantissa<P>(square));
    const Float<N> root = value(product(square, inverse));
    Int<N> result = aie::add(bits(root), exact_downshift(even, 1));
    result = aie::select(result, bits(x), aie::ge(bits(x), INFINITY_BITS));
    result = aie::select(result, NAN_BITS, aie::lt(bits(x), 0));
    return from_bits(aie::select(result, sign(x), aie::lt(magnitude(x), 0x00800000)));
}

// 1 / sqrt(x)
template <typename P = full, unsigned N>
inline Float<N> rsqrt(const Float<N> &x) {
    const Int<N> even = even_exponent_bits(x);
    const auto m = split<P::parts>(from_bits(aie::sub(bits(x), even)));
    Int<N> result = aie::sub(bits(rsqrt_of_mantissa<P>(m)), exact_downshift(even, 1));
    result = aie::select(result, 0, aie::eq(bits(x), INFINITY_BITS));
    result = aie::select(result, NAN_BITS, aie::lt(bits(x), 0) | is_nan(x));
    result = aie::select(result, aie::bit_or(INFINITY_BITS, sign(x)), aie::lt(magnitude(x), 0x00800000));
    return from_bits(result);
}

}  // namespace nt
