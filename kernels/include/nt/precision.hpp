// Products of float32 vectors, composed of the array's native products of bfloat16.
//
// A float32 number is the sum of three bfloat16 numbers, or of two with a relative error of 2^-17. A product of two
// bfloat16 numbers is exact in a float32 accumulator. So a product of float32 numbers is a sum of 6 native products, or
// of 3 where 16 bits suffice.
//
// The rounding of sums in accumulators is not documented; nearest even is assumed. It does not matter where a comment
// calls sums exact.
#pragma once

#include <aie_api/aie.hpp>

#include "loops.hpp"

namespace nt {

// Precision of float results. `parts`: bfloat16 numbers per factor.
struct full {  // a few units in the last place of float32
    static constexpr unsigned parts = 3;
};
struct half {  // relative error of 2^-13, at most 2^-11; that of rounding to bfloat16 is 2^-9
    static constexpr unsigned parts = 2;
};

template <unsigned N>
using Float = aie::vector<float, N>;
template <unsigned N>
using Int = aie::vector<int32, N>;
template <unsigned N>
using Bfloat = aie::vector<bfloat16, N>;
template <unsigned N>
using Sum = aie::accum<accfloat, N>;

template <unsigned N>
inline Int<N> bits(const Float<N> &x) {
    return x.template cast_to<int32>();
}
template <unsigned N>
inline Float<N> from_bits(const Int<N> &x) {
    return x.template cast_to<float>();
}
template <unsigned N>
inline Float<N> value(const Sum<N> &x) {
    return x.template to_vector<float>();
}
template <unsigned N>
inline Float<N> constant(float x) {
    return aie::broadcast<float, N>(x);
}
template <unsigned N>
inline Sum<N> constant_sum(float x) {
    return Sum<N>(constant<N>(x));
}

// A vector as a sum of bfloat16 vectors, largest first.
template <unsigned parts, unsigned N>
struct Split {
    static constexpr unsigned size = parts;
    Bfloat<N> part[parts];

    const Bfloat<N> &operator[](unsigned index) const { return part[index]; }
};

template <unsigned parts, unsigned N>
inline Split<parts, N> split(const Float<N> &x) {
    Split<parts, N> result;
    Sum<N> rest(x);
    NT_UNROLL
    for (unsigned i = 0; i < parts; ++i) {
        result.part[i] = rest.template to_vector<bfloat16>();
        if (i + 1 < parts) rest = aie::msc(rest, result.part[i], bfloat16(1.0f));
    }
    return result;
}

// A number as a sum of bfloat16 numbers of 8 bits each, largest first.
template <unsigned parts>
struct SplitConstant {
    static constexpr unsigned size = parts;
    float part[parts];

    consteval explicit SplitConstant(double x) {  // a core would compute doubles in software
        for (unsigned i = 0; i < parts; ++i) {
            // Cutting the lower half off a float32 rounds toward zero.
            part[i] = __builtin_bit_cast(float, __builtin_bit_cast(uint32, static_cast<float>(x)) & 0xffff0000);
            x -= static_cast<double>(part[i]);
        }
    }
    bfloat16 operator[](unsigned index) const { return bfloat16(part[index]); }
};

// a b, summed from the smallest term; terms below the precision of the longer factor are left out. b is a Split or a
// SplitConstant.
template <unsigned parts, unsigned N, typename Factor>
inline Sum<N> product(const Split<parts, N> &a, const Factor &b) {
    constexpr unsigned last = (parts > Factor::size ? parts : Factor::size) - 1;
    // The loops below meet this pair of parts first; it begins the sum.
    constexpr unsigned first = last < Factor::size ? 0 : last - (Factor::size - 1);
    Sum<N> sum = aie::mul(a[first], b[last - first]);
    NT_UNROLL
    for (unsigned order = last + 1; order-- > 0;)
        NT_UNROLL
        for (unsigned i = order == last ? first + 1 : 0; i <= order; ++i)
            if (i < parts && order - i < Factor::size) sum = aie::mac(sum, a[i], b[order - i]);
    return sum;
}

// sum + a b. The product is complete before the sum, usually larger, joins it: one rounding of that size.
template <unsigned parts, unsigned N, typename Factor>
inline Sum<N> add_product(const Sum<N> &sum, const Split<parts, N> &a, const Factor &b) {
    return aie::add(product(a, b), sum);
}

// minuend - a b, if much smaller than the minuend: the largest terms cancel first, and nothing is rounded.
template <unsigned parts, unsigned N, typename Factor>
inline Sum<N> remainder(const Sum<N> &minuend, const Split<parts, N> &a, const Factor &b) {
    Sum<N> sum = minuend;
    NT_UNROLL
    for (unsigned order = 0; order < parts + Factor::size - 1; ++order)
        NT_UNROLL
        for (unsigned i = 0; i <= order; ++i)
            if (i < parts && order - i < Factor::size) sum = aie::msc(sum, a[i], b[order - i]);
    return sum;
}

// x - n c of about equal numbers, exactly. If the product had the larger exponent, vmac.f of aie2 would round off the
// last bits of x, so these are added after it.
template <unsigned N>
inline Sum<N> difference(const Float<N> &x, const Bfloat<N> &n, bfloat16 c) {
    const Float<N> high = from_bits(aie::bit_and(-256, bits(x)));
    const Bfloat<N> low = Sum<N>(aie::sub(x, high)).template to_vector<bfloat16>();
    return aie::mac(aie::msc(Sum<N>(high), n, c), low, bfloat16(1.0f));
}

// coefficients[0] x^(count-1) + ... + coefficients[count-1]. The last `exact` steps have the precision of `x`. Earlier
// ones have one part less, because their results are multiplied by further powers of x, which is small.
template <unsigned exact, unsigned parts, unsigned N, unsigned long count>
inline Float<N> polynomial(const Split<parts, N> &x, const float (&coefficients)[count]) {
    Split<parts - 1, N> shorter;
    NT_UNROLL
    for (unsigned i = 0; i + 1 < parts; ++i) shorter.part[i] = x.part[i];
    Float<N> result = constant<N>(coefficients[0]);
    NT_UNROLL
    for (unsigned i = 1; i < count; ++i) {
        const Sum<N> next = constant_sum<N>(coefficients[i]);
        if (i + exact < count) {
            result = value(add_product(next, shorter, split<parts - 1>(result)));
        } else {
            result = value(add_product(next, x, split<parts>(result)));
        }
    }
    return result;
}

}  // namespace nt
