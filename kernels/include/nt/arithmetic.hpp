// The exact primitives on registers: arithmetic, comparison, bits, selection, rounding to integers, conversion.
//
// NaN and infinity behave as in NumPy. Integers wrap. Shifts expect the core's saturation mode `none`, its default.
//
// Floats are compared by their bits. The array has no instruction for it; aie_api rounds the difference and compares
// that with zero, which takes three instructions and is wrong for equal infinities, zeros of different signs, numbers
// closer than 2^-126, and maybe NaN.
#pragma once

#include <limits>
#include <type_traits>

#include "precision.hpp"

namespace nt {

using aie::bit_and;
using aie::bit_not;
using aie::bit_or;
using aie::bit_xor;

constexpr int32 SIGN_BIT = -2147483647 - 1;
constexpr int32 MAGNITUDE_BITS = 0x7fffffff;
constexpr int32 INFINITY_BITS = 0x7f800000;
constexpr int32 NAN_BITS = 0x7fc00000;
constexpr int32 ONE_BITS = 0x3f800000;
// Added to a float below 2^22 in magnitude, it leaves the nearest integer in the low bits of the sum.
constexpr float ROUNDER = 12582912.0f;  // 1.5 * 2^23
constexpr int32 ROUNDER_BITS = 0x4b400000;

// v / 2^count for multiples of it, in every rounding mode of the core, because nothing is left to round. Two moves
// through an accumulator, which aie::downshift makes too, but a newer one between two changes of the rounding mode.
template <typename T, unsigned N>
inline aie::vector<T, N> exact_downshift(const aie::vector<T, N> &v, unsigned count) {
    using Tag = std::conditional_t<sizeof(T) == 4, acc64, acc32>;
    return aie::accum<Tag, N>(v).template to_vector<T>(static_cast<int>(count));
}

template <unsigned N>
inline Int<N> magnitude(const Float<N> &x) {
    return aie::bit_and(MAGNITUDE_BITS, bits(x));
}
template <unsigned N>
inline Int<N> sign(const Float<N> &x) {
    return aie::bit_and(SIGN_BIT, bits(x));
}
template <unsigned N>
inline aie::mask<N> is_nan(const Float<N> &x) {
    return aie::gt(magnitude(x), INFINITY_BITS);
}

// Integers in the order of the floats. Zeros are 0, infinities +-INFINITY_BITS, NaNs lie beyond them on both sides.
template <unsigned N>
inline Int<N> order(const Float<N> &x) {
    return aie::select(bits(x), aie::sub(SIGN_BIT, bits(x)), aie::lt(bits(x), 0));
}

// Integers that are the larger, the larger (or smaller) the number is, and largest for NaNs: those that `order` has at
// the other end wrap around. From NAN_RANK on they are NaNs.
constexpr int32 RANK_SHIFT = 0x00800000;
constexpr int32 NAN_RANK = INFINITY_BITS - RANK_SHIFT + 1;
template <bool Maximum, unsigned N>
inline Int<N> rank(const Float<N> &x) {
    return Maximum ? aie::sub(order(x), RANK_SHIFT) : aie::sub(-RANK_SHIFT, order(x));
}
// The number of a rank; zeros are positive. `order` is its own inverse.
template <bool Maximum, unsigned N>
inline Float<N> unranked(const Int<N> &v) {
    return from_bits(order(from_bits(Maximum ? aie::add(v, RANK_SHIFT) : aie::sub(-RANK_SHIFT, v))));
}

// x, but at least (or at most) `bound`, which is not NaN; an arbitrary number where x is NaN.
//
// The bits of positive floats have the order of the floats. Signed, all negative floats are below them; unsigned, all
// are above them, the larger the magnitude.
template <unsigned N>
inline Float<N> at_least(const Float<N> &x, std::type_identity_t<float> bound) {
    const int32 limit = __builtin_bit_cast(int32, bound);
    if (limit >= 0) return from_bits(aie::max(bits(x), limit));
    return aie::min(x.template cast_to<uint32>(), static_cast<uint32>(limit)).template cast_to<float>();
}
template <unsigned N>
inline Float<N> at_most(const Float<N> &x, std::type_identity_t<float> bound) {
    const int32 limit = __builtin_bit_cast(int32, bound);
    if (limit >= 0) return from_bits(aie::min(bits(x), limit));
    return aie::max(x.template cast_to<uint32>(), static_cast<uint32>(limit)).template cast_to<float>();
}

// yes where the mask is set, else no.
template <typename T, unsigned N>
inline aie::vector<T, N> select(const aie::mask<N> &mask, const aie::vector<T, N> &yes, const aie::vector<T, N> &no) {
    return aie::select(no, yes, mask);
}
template <unsigned N>
inline aie::mask<N> select(const aie::mask<N> &mask, const aie::mask<N> &yes, const aie::mask<N> &no) {
    return (mask & yes) | (~mask & no);
}

template <unsigned N>
inline aie::mask<N> bit_and(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a & b;
}
template <unsigned N>
inline aie::mask<N> bit_or(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a | b;
}
template <unsigned N>
inline aie::mask<N> bit_xor(const aie::mask<N> &a, const aie::mask<N> &b) {
    return (a & ~b) | (~a & b);
}
template <unsigned N>
inline aie::mask<N> bit_not(const aie::mask<N> &a) {
    return ~a;
}

template <typename T, unsigned N>
inline aie::mask<N> eq(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    if constexpr (std::is_same_v<T, float>) {
        const auto zeros = aie::eq(aie::bit_and(MAGNITUDE_BITS, aie::bit_or(bits(a), bits(b))), 0);
        return (aie::eq(bits(a), bits(b)) | zeros) & ~is_nan(a);
    } else {
        return aie::eq(a, b);
    }
}
// True if neither is NaN. Only the ends are compared, because `a` is not above `b`.
template <unsigned N>
inline aie::mask<N> ordered(const Int<N> &a, const Int<N> &b) {
    return aie::ge(a, -INFINITY_BITS) & aie::le(b, INFINITY_BITS);
}
template <typename T, unsigned N>
inline aie::mask<N> lt(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    if constexpr (std::is_same_v<T, float>) {
        const Int<N> left = order(a), right = order(b);
        return aie::lt(left, right) & ordered(left, right);
    } else {
        return aie::lt(a, b);
    }
}
template <typename T, unsigned N>
inline aie::mask<N> le(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    if constexpr (std::is_same_v<T, float>) {
        const Int<N> left = order(a), right = order(b);
        return aie::le(left, right) & ordered(left, right);
    } else {
        return aie::le(a, b);
    }
}
// The same with a number that is not NaN. The bits of floats of one sign have their order.
template <unsigned N>
inline aie::mask<N> gt(const Float<N> &x, std::type_identity_t<float> bound) {
    const int32 limit = __builtin_bit_cast(int32, bound + 0.0f);  // without the sign of a zero
    if (limit >= 0) return aie::gt(bits(x), limit) & aie::le(bits(x), INFINITY_BITS);
    return aie::lt(x.template cast_to<uint32>(), static_cast<uint32>(limit)) & aie::le(magnitude(x), INFINITY_BITS);
}
template <unsigned N>
inline aie::mask<N> lt(const Float<N> &x, std::type_identity_t<float> bound) {
    return gt(from_bits(aie::bit_xor(SIGN_BIT, bits(x))), -bound);
}
template <unsigned N>
inline aie::mask<N> eq(const aie::mask<N> &a, const aie::mask<N> &b) {
    return ~nt::bit_xor(a, b);
}
template <unsigned N>
inline aie::mask<N> lt(const aie::mask<N> &a, const aie::mask<N> &b) {
    return ~a & b;
}
template <unsigned N>
inline aie::mask<N> le(const aie::mask<N> &a, const aie::mask<N> &b) {
    return ~a | b;
}
template <typename V>
inline auto ne(const V &a, const V &b) {
    return ~nt::eq(a, b);
}
template <typename V>
inline auto gt(const V &a, const V &b) {
    return nt::lt(b, a);
}
template <typename V>
inline auto ge(const V &a, const V &b) {
    return nt::le(b, a);
}

template <typename T, unsigned N>
inline aie::vector<T, N> add(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    return aie::add(a, b);
}
template <typename T, unsigned N>
inline aie::vector<T, N> sub(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    return aie::sub(a, b);
}
template <unsigned N>
inline aie::mask<N> add(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a | b;
}
template <unsigned N>
inline aie::mask<N> mul(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a & b;
}

// A float split with the first part cut off instead of rounded, so that no finite number becomes infinite.
template <unsigned parts, unsigned N>
inline Split<parts, N> split_below(const Float<N> &x) {
    const Float<N> leading = from_bits(aie::bit_and(-65536, bits(x)));
    const auto rest = split<parts - 1>(aie::sub(x, leading));
    Split<parts, N> result;
    result.part[0] = Sum<N>(leading).template to_vector<bfloat16>();
    NT_UNROLL
    for (unsigned i = 1; i < parts; ++i) result.part[i] = rest[i - 1];
    return result;
}

// Two parts of one sign, in half precision. Both are zero or none is, and none is NaN without the other: the sum of
// their products with parts of that kind, or with a single bfloat16 number, is right in all cases. A rest that is zero,
// or NaN because the number is infinite, becomes a fraction of the number that is less than half a unit in the last
// place of any sum, so that exact products stay exact. What falls below 2^-126 on the way is zero.
template <unsigned N>
inline Split<2, N> split_alike(const Float<N> &x) {
    const Bfloat<N> lead = aie::filter_odd(x.template cast_to<int16>()).template cast_to<bfloat16>();  // upper halves
    const Bfloat<N> rest = aie::msc(Sum<N>(x), lead, bfloat16(1.0f)).template to_vector<bfloat16>();
    const Bfloat<N> tiny = aie::mul(lead, bfloat16(0x1p-26f)).template to_vector<bfloat16>();
    const auto size = aie::bit_and(int16(0x7fff), rest.template cast_to<int16>()).template cast_to<uint16>();
    const auto is_special = aie::ge(aie::sub(size, uint16(1)), uint16(0x7f7f));  // 0, NaN
    return {{lead, aie::select(rest, tiny, is_special)}};
}

// A factor whose lanes are bfloat16 numbers.
template <unsigned N>
inline Split<1, N> brief(const Float<N> &x) {
    return {{Sum<N>(x).template to_vector<bfloat16>()}};
}
template <unsigned N>
inline Split<1, N> brief(const Bfloat<N> &x) {
    return {{x}};
}
template <unsigned N>
inline Float<N> widened(const Bfloat<N> &x) {
    return value(Sum<N>(x));
}

template <unsigned N>
inline Bfloat<N> neg(const Split<1, N> &x) {
    return aie::bit_xor(int16(-32768), x[0].template cast_to<int16>()).template cast_to<bfloat16>();
}

// max(x, 0); a NaN stays. The bits of negative numbers, as integers, are those up to -128.
template <unsigned N>
inline Bfloat<N> positive_part(const Split<1, N> &x) {
    const auto negative = aie::lt(x[0].template cast_to<int16>(), int16(-127));
    return aie::select(x[0], aie::zeros<bfloat16, N>(), negative);
}

// Only one port converts while it loads: the product with 1 widens the other operand. Where b has the larger exponent,
// vmac.f of aie2 rounds the last bit of a float32 a, which a difference may show.
template <unsigned N>
inline Float<N> add(const Float<N> &a, const Split<1, N> &b) {
    return value(aie::mac(Sum<N>(a), b[0], bfloat16(1.0f)));
}
template <unsigned N>
inline Float<N> sub(const Float<N> &a, const Split<1, N> &b) {
    return value(aie::msc(Sum<N>(a), b[0], bfloat16(1.0f)));
}

// The product of the leading parts is right where the result is NaN, infinite or zero. The sum of all is not, because
// the second part of an infinity is NaN, and sums lose the sign of a zero. A NaN that has bits in its lower half only,
// which no operation makes, counts as infinity. What falls below 2^-126 on the way is zero to the array: operands below
// 2^-102 may count with 8 bits, and results have an absolute error of up to 2^-124 besides the relative one.
template <unsigned parts, unsigned N, typename Factor>
inline Float<N> guarded_product(const Split<parts, N> &a, const Factor &b) {
    const Float<N> coarse = value(Sum<N>(aie::mul(a[0], b[0])));
    const Int<N> size = magnitude(coarse);
    return select(aie::ge(size, INFINITY_BITS) | aie::eq(size, 0), coarse, value(product(a, b)));
}

// Factors are floats; or, for less work, brief ones, split constants without a part that is zero, and in half precision
// numbers from split_alike.
template <typename P = full, unsigned N>
inline Float<N> mul(const Float<N> &a, const Float<N> &b) {
    return guarded_product(split_below<P::parts>(a), split_below<P::parts>(b));
}
template <typename P = full, unsigned N, typename Factor>
inline Float<N> mul(const Float<N> &a, const Factor &b) {
    if constexpr (P::parts == 2)
        return value(product(split_alike(a), b));
    else
        return guarded_product(split_below<P::parts>(a), b);
}
template <typename P = full, unsigned N>
inline Float<N> square(const Float<N> &a) {
    if constexpr (P::parts == 2) {
        const auto part = split_alike(a);
        return value(product(part, part));
    } else {
        const auto part = split_below<P::parts>(a);
        return guarded_product(part, part);
    }
}
// The parts of a constant have the same sign, so that the sum of their products with one number is right in all cases.
template <typename P = full, unsigned N, typename Factor>
inline Float<N> mul(const Split<1, N> &a, const Factor &b) {
    return value(product(a, b));
}
// Integers wrap.
template <typename P = full, typename T, unsigned N>
    requires(!std::is_same_v<T, float>)
inline aie::vector<T, N> mul(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    return aie::mul(a, b).template to_vector<T>();
}

template <typename T, unsigned N>
inline aie::vector<T, N> neg(const aie::vector<T, N> &x) {
    if constexpr (std::is_same_v<T, float>) {
        return from_bits(aie::bit_xor(SIGN_BIT, bits(x)));
    } else {
        return aie::sub(aie::zeros<T, N>(), x);
    }
}
template <typename T, unsigned N>
inline aie::vector<T, N> abs(const aie::vector<T, N> &x) {
    if constexpr (std::is_same_v<T, float>) {
        return from_bits(magnitude(x));
    } else if constexpr (std::is_same_v<T, uint8>) {
        return x;
    } else {
        return aie::select(x, nt::neg(x), aie::lt(x, T(0)));
    }
}

// A NaN in either operand is the result.
template <typename T, unsigned N>
inline aie::vector<T, N> maximum(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    if constexpr (std::is_same_v<T, float>) {
        return select(aie::lt(rank<true>(a), rank<true>(b)), b, a);
    } else {
        return aie::max(a, b);
    }
}
template <typename T, unsigned N>
inline aie::vector<T, N> minimum(const aie::vector<T, N> &a, const aie::vector<T, N> &b) {
    if constexpr (std::is_same_v<T, float>) {
        return select(aie::lt(rank<false>(a), rank<false>(b)), b, a);
    } else {
        return aie::min(a, b);
    }
}
// The same with a number that is not NaN.
template <unsigned N>
inline Float<N> maximum(const Float<N> &a, std::type_identity_t<float> b) {
    return select(is_nan(a), a, at_least(a, b));
}
template <unsigned N>
inline Float<N> minimum(const Float<N> &a, std::type_identity_t<float> b) {
    return select(is_nan(a), a, at_most(a, b));
}
template <unsigned N>
inline aie::mask<N> maximum(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a | b;
}
template <unsigned N>
inline aie::mask<N> minimum(const aie::mask<N> &a, const aie::mask<N> &b) {
    return a & b;
}

// v / 2^count toward minus infinity.
template <typename T, unsigned N>
inline aie::vector<T, N> shift_down(const aie::vector<T, N> &v, unsigned count) {
    return exact_downshift(aie::bit_and(static_cast<T>(~((1u << count) - 1)), v), count);
}

// The array shifts all lanes alike, so counts are put together from powers of two. A count outside of the type's width
// shifts everything out.
template <typename T, unsigned N>
inline aie::vector<T, N> shift_left(const aie::vector<T, N> &v, const aie::vector<T, N> &count) {
    constexpr unsigned width = sizeof(T) * 8;
    aie::vector<T, N> result = v;
    NT_UNROLL
    for (unsigned step = 1; step < width; step *= 2)
        result = aie::select(result, aie::upshift(result, step), aie::neq(aie::bit_and(T(step), count), T(0)));
    return aie::select(result, aie::zeros<T, N>(), aie::neq(aie::bit_and(T(~(width - 1)), count), T(0)));
}
template <typename T, unsigned N>
inline aie::vector<T, N> shift_right(const aie::vector<T, N> &v, const aie::vector<T, N> &count) {
    constexpr unsigned width = sizeof(T) * 8;
    aie::vector<T, N> result = v;
    NT_UNROLL
    for (unsigned step = 1; step < width; step *= 2)
        result = aie::select(result, shift_down(result, step), aie::neq(aie::bit_and(T(step), count), T(0)));
    aie::vector<T, N> empty = aie::zeros<T, N>();
    if constexpr (std::is_signed_v<T>) empty = aie::select(empty, aie::broadcast<T, N>(T(-1)), aie::lt(v, T(0)));
    return aie::select(result, empty, aie::neq(aie::bit_and(T(~(width - 1)), count), T(0)));
}

// `small`, with the sign of x, where |x| < 2^23; larger numbers are integers, infinite or NaN.
template <unsigned N>
inline Float<N> if_fractional(const Float<N> &x, const Float<N> &small) {
    const auto whole = aie::ge(magnitude(x), 0x4b000000);
    return select(whole, x, from_bits(aie::bit_or(magnitude(small), sign(x))));
}
// The nearest integer of |x| < 2^23, ties to even.
template <unsigned N>
inline Float<N> nearest(const Float<N> &x) {
    const Float<N> shift = from_bits(aie::bit_or(aie::broadcast<int32, N>(0x4b000000), sign(x)));
    return aie::sub(aie::add(x, shift), shift);
}
template <unsigned N>
inline Float<N> one_where(const aie::mask<N> &mask) {
    return aie::select(constant<N>(0.0f), constant<N>(1.0f), mask);
}

template <unsigned N>
inline Float<N> rint(const Float<N> &x) {
    return if_fractional(x, nearest(x));
}
// Below 2^23 the difference of a number and the nearest integer is exact, and no difference is a positive zero.
template <unsigned N>
inline Float<N> floor(const Float<N> &x) {
    const Float<N> near = nearest(x);
    return if_fractional(x, aie::sub(near, one_where(aie::gt(bits(aie::sub(near, x)), 0))));
}
template <unsigned N>
inline Float<N> ceil(const Float<N> &x) {
    const Float<N> near = nearest(x);
    return if_fractional(x, aie::add(near, one_where(aie::lt(bits(aie::sub(near, x)), 0))));
}
template <unsigned N>
inline Float<N> trunc(const Float<N> &x) {
    const Float<N> positive = nt::abs(x), near = nearest(positive);
    return if_fractional(x, aie::sub(near, one_where(aie::gt(bits(near), bits(positive)))));
}

template <unsigned N>
inline Float<N> round_bfloat16(const Float<N> &x) {
    return value(Sum<N>(Sum<N>(x).template to_vector<bfloat16>()));
}
// Normal numbers of float16 keep 10 bits after the leading one; smaller ones are multiples of 2^-24.
template <unsigned N>
inline Float<N> round_float16(const Float<N> &x) {
    const Int<N> size = magnitude(x);
    const Int<N> odd = exact_downshift(aie::bit_and(0x2000, size), 13);
    Int<N> rounded = aie::bit_and(~0x1fff, aie::add(aie::add(size, odd), 0xfff));
    rounded = aie::select(rounded, INFINITY_BITS, aie::ge(rounded, 0x47800000));  // 65536
    const Float<N> small = aie::sub(aie::add(from_bits(size), constant<N>(0.5f)), constant<N>(0.5f));
    rounded = aie::select(rounded, bits(small), aie::lt(size, 0x38800000));  // 2^-14
    rounded = aie::select(rounded, size, aie::gt(size, INFINITY_BITS));
    return from_bits(aie::bit_or(rounded, sign(x)));
}

// Integral |x| <= 2^31 - 128: the sum with `high` is a multiple of 2^16, which leaves its quotient in the low bits.
template <unsigned N>
inline Int<N> integer(const Float<N> &x) {
    constexpr float high = 824633720832.0f;  // 1.5 * 2^39
    constexpr int32 high_bits = 0x53400000;
    const Float<N> shifted = aie::add(x, constant<N>(high));
    const Float<N> rest = aie::sub(x, aie::sub(shifted, constant<N>(high)));
    const Int<N> upper = aie::sub(bits(shifted), high_bits);
    const Int<N> lower = aie::sub(bits(aie::add(rest, constant<N>(ROUNDER))), ROUNDER_BITS);
    return aie::add(aie::upshift(upper, 16), lower);
}

template <typename To>
struct Conversion {
    // Floats are truncated and saturated, NaN is 0. Wider integers lose their upper bits.
    template <typename From, unsigned N>
    static aie::vector<To, N> of(const aie::vector<From, N> &v) {
        if constexpr (std::is_same_v<From, To>) {
            return v;
        } else if constexpr (std::is_same_v<To, float>) {
            return aie::to_float<float>(v);
        } else if constexpr (std::is_same_v<From, float>) {
            using Limits = std::numeric_limits<To>;
            constexpr float least = static_cast<float>(Limits::min());
            constexpr float most = sizeof(To) == 4 ? 2147483520.0f : static_cast<float>(Limits::max());
            const Float<N> number = aie::select(v, constant<N>(0.0f), is_nan(v));
            const Int<N> whole = integer(trunc(at_most(at_least(number, least), most)));
            if constexpr (sizeof(To) == 4) {
                return aie::select(whole, Limits::max(), aie::ge(bits(number), 0x4f000000));  // 2^31
            } else {
                return of(whole);
            }
        } else if constexpr (sizeof(To) == sizeof(From)) {
            return v.template cast_to<To>();
        } else if constexpr (sizeof(To) < sizeof(From)) {
            using Narrower = std::conditional_t<sizeof(From) == 4, int16, To>;
            return of(aie::filter_even(v.template cast_to<Narrower>()));
        } else if constexpr (sizeof(To) == 2) {
            return v.unpack().template cast_to<To>();
        } else {
            return aie::accum<acc32, N>(v).template to_vector<To>();
        }
    }
    template <unsigned N>
    static aie::vector<To, N> of(const aie::mask<N> &m) {
        return aie::select(aie::broadcast<To, N>(To(0)), aie::broadcast<To, N>(To(1)), m);
    }
};
template <>
struct Conversion<bool> {
    template <typename From, unsigned N>
    static aie::mask<N> of(const aie::vector<From, N> &v) {
        if constexpr (std::is_same_v<From, float>) {
            return aie::neq(magnitude(v), 0);
        } else {
            return aie::neq(v, From(0));
        }
    }
    template <unsigned N>
    static aie::mask<N> of(const aie::mask<N> &m) {
        return m;
    }
};

// Value conversion between register types; a mask is the register of bool.
template <typename To, typename V>
inline auto cast(const V &v) {
    return Conversion<To>::of(v);
}

// Return the nearest integer of at most 16 bits, ties to even, within integral bounds; 0 for NaN. The sum with ROUNDER
// has it in its low bits.
template <typename To, unsigned N>
inline aie::vector<To, N> rounded(const Float<N> &x, float least, float most) {
    const Float<N> number = aie::select(x, constant<N>(0.0f), is_nan(x));
    const Float<N> within = at_most(at_least(number, least), most);
    return cast<To>(bits(aie::add(within, constant<N>(ROUNDER))));
}

template <typename T, unsigned N>
inline auto broadcast(T scalar) {
    if constexpr (std::is_same_v<T, bool>) {
        return aie::mask<N>(scalar);
    } else {
        return aie::broadcast<T, N>(scalar);
    }
}

// All lanes of the result are the sum, maximum or minimum of the lanes.
template <typename T, unsigned N, typename Combine>
inline aie::vector<T, N> combine_lanes(aie::vector<T, N> v, Combine combine) {
    NT_UNROLL
    for (unsigned distance = N / 2; distance > 0; distance /= 2)
        v = combine(v, aie::shuffle_down_rotate(v, distance));
    return v;
}
template <typename T, unsigned N>
inline aie::vector<T, N> sum_lanes(const aie::vector<T, N> &v) {
    return combine_lanes(v, [](const auto &a, const auto &b) { return nt::add(a, b); });
}
template <typename T, unsigned N>
inline aie::vector<T, N> max_lanes(const aie::vector<T, N> &v) {
    if constexpr (std::is_same_v<T, float>) {
        return unranked<true>(max_lanes(rank<true>(v)));
    } else {
        return combine_lanes(v, [](const auto &a, const auto &b) { return aie::max(a, b); });
    }
}
template <typename T, unsigned N>
inline aie::vector<T, N> min_lanes(const aie::vector<T, N> &v) {
    if constexpr (std::is_same_v<T, float>) {
        return unranked<false>(max_lanes(rank<false>(v)));
    } else {
        return combine_lanes(v, [](const auto &a, const auto &b) { return aie::min(a, b); });
    }
}

}  // namespace nt
