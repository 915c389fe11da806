// pow as exp(y log |x|). The logarithm and the product are sums of two floats, because exp turns their absolute error,
// which would be up to 2^-18 at results near the ends of the range, into a relative one.
#pragma once

#include "exponential.hpp"

namespace nt {

// A number as the unevaluated sum of two, the second much smaller.
template <unsigned N>
struct Pair {
    Float<N> high, low;
};

template <unsigned N>
inline Pair<N> exact_sum(const Float<N> &a, const Float<N> &b) {
    const Float<N> sum = aie::add(a, b);
    const Float<N> a_part = aie::sub(sum, b), b_part = aie::sub(sum, a_part);
    return {sum, aie::add(aie::sub(a, a_part), aie::sub(b, b_part))};
}
// For numbers from split_below: where the first terms were larger than the product, vmac.f of aie2 would round it.
template <unsigned parts, unsigned N>
inline Pair<N> exact_product(const Split<parts, N> &a, const Split<parts, N> &b) {
    const Float<N> high = value(product(a, b));
    return {high, nt::neg(value(remainder(Sum<N>(high), a, b)))};
}

template <typename P>
struct PowerCoefficients;  // (log(1 + f) - f + f^2 / 2) / f^3
template <>
struct PowerCoefficients<half> {  // 2^-22
    static constexpr float c[] = {-0.1517720468f, 0.1696489234f,  -0.1646245654f,
                                  0.1982250177f,  -0.2500466450f, 0.3333656377f};
};
template <>
struct PowerCoefficients<full> {  // 2^-28
    static constexpr float c[] = {-0.1289168547f, 0.1398444706f,  -0.1218426094f, 0.1400586698f,
                                  -0.1668048736f, 0.2001040604f, -0.2499979767f, 0.3333321598f};
};

// log of positive finite x
template <typename P, unsigned N>
inline Pair<N> log_pair(const Float<N> &x) {
    const Int<N> scaled = exponent_bits(x);
    const Float<N> f = aie::sub(from_bits(aie::sub(bits(x), scaled)), constant<N>(1.0f));
    const auto factor = split_below<3>(f), half_factor = split_below<3>(scale(f, aie::broadcast<int32, N>(-1)));
    const Pair<N> square = exact_product(factor, half_factor);  // f^2 / 2
    const auto slope = split<P::parts>(polynomial<2>(split<P::parts>(f), PowerCoefficients<P>::c));
    const auto cube = split<P::parts>(value(product(factor, split<P::parts>(square.high))));  // f^3 / 2
    const Float<N> curved = value(product(cube, slope));
    // The exponent has 8 bits: its product with the first 16 of ln 2 is exact.
    const Bfloat<N> e = to_bfloat16(
        aie::sub(from_bits(aie::add(exact_downshift(scaled, 23), ROUNDER_BITS)), constant<N>(ROUNDER)));
    const Sum<N> coarse = aie::mac(Sum<N>(aie::mul(e, LN_2_PARTS[1])), e, LN_2_PARTS[0]);
    const Sum<N> fine = aie::mac(Sum<N>(aie::mul(e, LN_2_PARTS[3])), e, LN_2_PARTS[2]);
    const Pair<N> linear = exact_sum(value(coarse), f);
    const Pair<N> bent = exact_sum(linear.high, nt::neg(square.high));
    const Float<N> small = aie::sub(aie::add(linear.low, bent.low), square.low);
    return exact_sum(bent.high, aie::add(aie::add(small, value(fine)), aie::add(curved, curved)));
}

// Special cases as in C and NumPy.
template <typename P = full, unsigned N>
inline Float<N> pow(const Float<N> &x, const Float<N> &y) {
    const Float<N> zero = constant<N>(0.0f), one = constant<N>(1.0f);
    const Float<N> size = nt::abs(x);
    const Pair<N> log = log_pair<P>(size);
    // From here on every power of another number than 1 is 0 or infinite.
    const Float<N> bounded = at_least(at_most(y, 1e10f), -1e10f);
    const auto factor = split_below<3>(bounded);
    const Pair<N> main = exact_product(factor, split_below<3>(log.high));
    const Float<N> rest = aie::add(main.low, value(product(factor, split<2>(log.low))));
    const Float<N> clamped = at_least(at_most(main.high, EXP_LIMIT), -EXP_LIMIT);
    const Reduced<N> reduced = reduce_exponent<P>(clamped);
    const Float<N> r = select(aie::lt(magnitude(main.high), 0x42b1cccd), aie::add(reduced.rest, rest), reduced.rest);
    Float<N> result = scale_positive(exp_of_rest<P>(r), reduced.n);

    const auto x_zero = aie::lt(magnitude(x), 0x00800000), x_infinite = aie::ge(magnitude(x), INFINITY_BITS);
    const auto shrinks = aie::lt(bits(y), 0);
    const auto to_zero = (x_zero & ~shrinks) | (x_infinite & shrinks);
    const auto to_infinity = (x_zero & shrinks) | (x_infinite & ~shrinks);
    result = select(to_zero, zero, result);
    result = select(to_infinity, from_bits(aie::broadcast<int32, N>(INFINITY_BITS)), result);

    // Odd: an integer whose half is none. Halving is exact, or the number is far from odd.
    const Float<N> halved = scale(y, aie::broadcast<int32, N>(-1));
    const auto whole = aie::eq(bits(nt::trunc(y)), bits(y));
    const auto odd = whole & aie::neq(bits(nt::trunc(halved)), bits(halved)) & aie::lt(magnitude(y), 0x4b800000);
    const auto negative = aie::lt(bits(x), 0);
    result = from_bits(aie::bit_or(bits(result), aie::select(bits(zero), SIGN_BIT, negative & odd)));
    const auto undefined = (negative & ~whole & ~x_zero & ~x_infinite) | is_nan(x) | is_nan(y);
    result = select(undefined, from_bits(aie::broadcast<int32, N>(NAN_BITS)), result);
    return select(aie::lt(magnitude(y), 0x00800000) | aie::eq(bits(x), ONE_BITS), one, result);
}

}  // namespace nt
