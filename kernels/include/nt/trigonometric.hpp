// sin, cos, tanh, atan, erf.
#pragma once

#include "exponential.hpp"

namespace nt {

// Largest |x| of sin and cos; beyond it they are NaN.
constexpr int32 TRIGONOMETRIC_LIMIT_BITS = 0x48800000;  // 2^18

constexpr SplitConstant<3> TWO_OVER_PI_PARTS(0.63661977236758134308);

// pi / 2 in pieces of 8 bits. Their products with a number of quarter turns have 16 bits, so that all sums are exact
// until little is left.
constexpr float HALF_PI_PARTS[] = {
    1.5703125f, 0.0004825592041015625f, 1.2665987014770508e-06f, 9.89530235528946e-10f,
    2.5579538487363607e-12f, 5.384581669432009e-15f, 5.719166459861036e-18f, 2.0117032497289633e-21f,
    1.0546552810051103e-23f};

template <unsigned N>
inline Float<N> tiny_is_itself(const Float<N> &x, const Float<N> &result) {
    return select(aie::lt(magnitude(x), 0x39000000) | is_nan(x), x, result);  // 2^-13: x^2 is below the precision
}

// erf(x) / x - 1 in powers of x^2 for |x| < 0.93; 2^-31
constexpr float ERF_NEAR[] = {8.3167753563e-05f, -0.0008130012830f, 0.0051999067003f, -0.0268589415322f,
                              0.1128368718944f,  -0.3761263318852f, 0.1283791665798f};
// log(1 - erf(x)) in powers of x - 2.25 for 0.93 <= x <= 4; 2^-29
constexpr float ERF_FAR[] = {0.0001947778573f,  -0.0004023205136f, 0.0028643436633f, -0.0133175214167f,
                             -0.9348940857274f, -4.8829216783235f, -6.5274602072821f};
// erf(x) / x for |x| <= 2.744 in powers of x^2 ERF_SCALE - 1, which is between -1 and 1; 2^-13 as `half` computes it
constexpr float ERF_SCALE = 0.265625f;
constexpr float ERF_RATIO[] = {-0.00818826f,   0.02080493f,    -0.03060896f,  0.0549274506f,
                               -0.0999375834f, 0.1584108687f, -0.2432740789f, 0.5122403704f};

// erf for 0 <= x <= 4.
template <typename P, unsigned N>
inline Float<N> erf_of_size(const Float<N> &size) {
    if constexpr (P::parts == 2) {
        // x times 2^40, so that the lower part of a tiny x does not fall below 2^-126. The sum makes a denormal zero.
        constexpr int32 raise = 40 << 23;
        const auto factor = split<2>(from_bits(aie::add(bits(at_most(size, 2.7439773f)), raise)));
        const auto square = split<2>(value(product(factor, factor)));
        const bfloat16 scale(ERF_SCALE * 0x1p-80f);
        const Sum<N> centered = aie::mac(aie::mac(constant_sum<N>(-1.0f), square[1], scale), square[0], scale);
        const auto ratio = split<2>(polynomial<5>(split<2>(value(centered)), ERF_RATIO));
        const Int<N> raised = bits(value(product(factor, ratio)));
        return aie::add(from_bits(aie::sub(raised, raise)), constant<N>(0.0f));
    } else {
        const auto factor = split<3>(size);
        const auto square = split<3>(value(product(factor, factor)));
        const auto ratio = split<3>(polynomial<3>(square, ERF_NEAR));
        // x (1 + ratio) with x times 2^48, so that no partial product of a tiny x falls below 2^-126.
        constexpr int32 raise = 48 << 23;
        const Float<N> raised = from_bits(aie::add(bits(size), raise));
        const Int<N> raised_near = bits(value(add_product(Sum<N>(raised), split<3>(raised), ratio)));
        const Float<N> lowered = from_bits(aie::max(aie::sub(raised_near, raise), 0));
        const Float<N> near = select(aie::lt(bits(size), 0x00800000), size, lowered);  // zero and subnormals
        const auto centered = split<3>(aie::sub(at_least(size, 0.9f), constant<N>(2.25f)));
        const Float<N> rest = exp_bounded<P>(polynomial<4>(centered, ERF_FAR));
        const Float<N> far = aie::sub(constant<N>(1.0f), rest);
        return select(aie::lt(bits(size), 0x3f6e147b), near, far);  // 0.93
    }
}
template <typename P = full, unsigned N>
inline Float<N> erf(const Float<N> &x) {
    const Float<N> result = erf_of_size<P>(at_most(from_bits(magnitude(x)), 4.0f));
    return select(is_nan(x), x, from_bits(aie::bit_or(bits(result), sign(x))));
}

// tanh for 0 <= x <= 10.
template <typename P, unsigned N>
inline Float<N> tanh_of_size(const Float<N> &size) {
    const Float<N> twice = aie::add(size, size);
    if constexpr (P::parts == 2) {
        // 1 - 2 / (exp(2 x) + 1), and below 0.3, where that cancels, x + x^3 slope; 2^-17
        const Float<N> sum = aie::add(exp_normal<P>(twice), constant<N>(1.0f));
        const Split<1, N> two{{aie::broadcast<bfloat16, N>(bfloat16(2.0f))}};
        const Float<N> far = aie::sub(constant<N>(1.0f), div_by_bounded(two, sum));
        const auto factor = split<2>(size);
        const Bfloat<N> square = product(factor, factor).template to_vector<bfloat16>();
        const Bfloat<N> slope =
            aie::mac(constant_sum<N>(-0.33273579f), square, bfloat16(0.12158479f)).template to_vector<bfloat16>();
        const Bfloat<N> bend = aie::mul(square, slope).template to_vector<bfloat16>();
        const Float<N> near = value(aie::mac(Sum<N>(size), factor[0], bend));
        return select(aie::lt(bits(size), 0x3e99999a), near, far);
    } else {
        const Float<N> power = expm1_bounded<P>(twice);
        const Float<N> sum = aie::add(power, constant<N>(2.0f));
        return scale_positive(quotient_of_mantissas<P>(mantissa(power), mantissa(sum)),
                              aie::sub(exponent(power), exponent(sum)));
    }
}
template <typename P = full, unsigned N>
inline Float<N> tanh(const Float<N> &x) {
    const Float<N> result = tanh_of_size<P>(at_most(from_bits(magnitude(x)), 10.0f));
    const Float<N> signed_result = from_bits(aie::bit_or(bits(result), sign(x)));
    if constexpr (P::parts == 2) {
        return select(is_nan(x), x, signed_result);
    } else {
        return tiny_is_itself(x, signed_result);
    }
}

template <typename P>
struct SinCoefficients;
template <>
struct SinCoefficients<half> {
    static constexpr float sine[] = {0.0081626020f, -0.1666336397f};           // (sin(r) - r) / r^3; 2^-19
    static constexpr float cosine[] = {-0.0013647743f, 0.0416610257f, -0.5f};  // (cos(r) - 1) / r^2; 2^-23
};
template <>
struct SinCoefficients<full> {  // 2^-28, 2^-33
    static constexpr float sine[] = {-0.0001951397944f, 0.0083321513276f, -0.1666665446328f};
    static constexpr float cosine[] = {2.4431667595e-05f, -0.0013887307454f, 0.0416666454252f, -0.5f};
};

// sin of x plus `quarters` right angles.
template <typename P, unsigned N>
inline Float<N> sin_turned(const Float<N> &x, int32 quarters) {
    const Float<N> shifted = aie::add(value(product(split<3>(x), TWO_OVER_PI_PARTS)), constant<N>(ROUNDER));
    const Int<N> quadrant = aie::add(bits(shifted), quarters);
    const auto n = split<3>(aie::sub(shifted, constant<N>(ROUNDER)));
    Sum<N> rest = difference(x, n[0], bfloat16(HALF_PI_PARTS[0]));
    constexpr unsigned pieces = sizeof HALF_PI_PARTS / sizeof HALF_PI_PARTS[0];
    NT_UNROLL
    for (unsigned order = 1; order < pieces; ++order)
        NT_UNROLL
        for (unsigned i = 0; i < 3 && i <= order; ++i) rest = aie::msc(rest, n[i], bfloat16(HALF_PI_PARTS[order - i]));
    const Float<N> r = value(rest);
    const auto factor = split<P::parts>(r);
    const auto square = split<P::parts>(value(product(factor, factor)));
    const auto ratio = value(product(square, split<P::parts>(polynomial<1>(square, SinCoefficients<P>::sine))));
    const Float<N> sine = value(add_product(rest, factor, split<P::parts>(ratio)));
    const auto slope = split<P::parts>(polynomial<2>(square, SinCoefficients<P>::cosine));
    const Float<N> cosine = value(add_product(constant_sum<N>(1.0f), square, slope));
    const Float<N> result = aie::select(sine, cosine, aie::neq(aie::bit_and(1, quadrant), 0));
    const Float<N> turned = aie::select(result, nt::neg(result), aie::neq(aie::bit_and(2, quadrant), 0));
    const auto undefined = aie::gt(magnitude(x), TRIGONOMETRIC_LIMIT_BITS);
    return from_bits(aie::select(bits(turned), NAN_BITS, undefined));
}

template <typename P = full, unsigned N>
inline Float<N> sin(const Float<N> &x) {
    return tiny_is_itself(x, sin_turned<P>(x, 0));
}
template <typename P = full, unsigned N>
inline Float<N> cos(const Float<N> &x) {
    return sin_turned<P>(x, 1);
}

// (atan(r) - r) / r^3 in powers of r^2 for |r| <= tan(pi/8); 2^-30
constexpr float ATAN[] = {-0.0607821959f, 0.1059381304f, -0.1424353325f, 0.1999847151f, -0.3333331519f};

// atan a is pi/2 + atan(-1/a), and pi/4 + atan((a - 1) / (a + 1)): one of the three has an argument up to tan(pi/8).
template <typename P = full, unsigned N>
inline Float<N> atan(const Float<N> &x) {
    const Float<N> size = from_bits(magnitude(x)), one = constant<N>(1.0f);
    const auto middle = aie::ge(magnitude(x), 0x3ed413cd), far = aie::ge(magnitude(x), 0x401a827a);  // tan pi/8, 3pi/8
    const Float<N> top = select(far, constant<N>(-1.0f), select(middle, aie::sub(size, one), size));
    const Float<N> bottom = select(far, size, select(middle, aie::add(size, one), one));
    const Float<N> rest = div<P>(top, bottom);
    const auto factor = split<P::parts>(rest);
    const auto square = split<P::parts>(value(product(factor, factor)));
    const auto curved = split<P::parts>(value(product(square, split<P::parts>(polynomial<3>(square, ATAN)))));
    const Float<N> angle = value(add_product(Sum<N>(rest), factor, curved));
    const Float<N> zero = constant<N>(0.0f);
    const Float<N> base = select(far, constant<N>(1.5707963268f), select(middle, constant<N>(0.7853981634f), zero));
    return tiny_is_itself(x, from_bits(aie::bit_or(bits(aie::add(angle, base)), sign(x))));
}

}  // namespace nt
