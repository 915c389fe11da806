// Lane-wise operations on vectors: arithmetic, comparison, selection, bits, shifts, conversion; reductions.
#pragma once

#include "accum.hpp"

namespace aie {

template <typename T, unsigned N = native_vector_length_v<T>>
    requires Elem<T>
vector<T, N> zeros() {
    return broadcast<T, N>(T(0));
}
template <typename Tag, unsigned N>
    requires(!Elem<Tag>)
accum<Tag, N> zeros() {
    accum<Tag, N> result;
    for (unsigned i = 0; i < N; ++i) result.data[i] = 0;
    return result;
}

namespace detail {

// Integers wrap; bfloat16 is computed in a float32 accumulator, which the core's rounding mode converts back.
template <typename T, unsigned N, typename Operation>
vector<T, N> arithmetic(const vector<T, N> &a, const vector<T, N> &b, Operation operation) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        accum<accfloat, N> result;
        result.follow(nt_host::issue(nt_host::PRODUCT, nt_host::pieces(N, 16), a, b));
        for (unsigned i = 0; i < N; ++i)
            result.data[i] = operation(static_cast<float>(a.data[i]), static_cast<float>(b.data[i]));
        return result.template to_vector<bfloat16>();
    } else {
        using Lane = std::conditional_t<is_float_v<T>, T, uint32>;
        vector<T, N> result;
        constexpr auto instruction = is_float_v<T> ? nt_host::SUM : nt_host::LANES;
        constexpr unsigned native = is_float_v<T> ? 16 : native_vector_length_v<T>;
        result.follow(nt_host::issue(instruction, nt_host::pieces(N, native), a, b));
        for (unsigned i = 0; i < N; ++i)
            result.data[i] = static_cast<T>(operation(static_cast<Lane>(a.data[i]), static_cast<Lane>(b.data[i])));
        return result;
    }
}

template <typename T>
constexpr auto comparable(T value) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return static_cast<float>(value);
    } else {
        return value;
    }
}

template <typename T, unsigned N, typename Predicate>
mask<N> compare(const vector<T, N> &a, const vector<T, N> &b, Predicate predicate) {
    mask<N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), a, b));
    for (unsigned i = 0; i < N; ++i) result.lane[i] = predicate(comparable(a.data[i]), comparable(b.data[i]));
    return result;
}

// No instruction compares float32. Peano's headers (aiev2_vadd.h, aie2p_vadd.h) round the difference to bfloat16 and
// compare that with 0: the difference of equal infinities is NaN, that of -0 and 0 is -0, which comparisons of bfloat16
// take for less than 0, and that of numbers closer than 2^-126 is zero. What they make of a NaN is not documented; here
// every comparison with one is false.
template <unsigned N, typename Predicate>
mask<N> compare(const vector<float, N> &a, const vector<float, N> &b, Predicate predicate) {
    const auto difference = sub(accum<accfloat, N>(a), accum<accfloat, N>(b)).template to_vector<bfloat16>();
    mask<N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<bfloat16>), difference));
    for (unsigned i = 0; i < N; ++i) {
        const bfloat16 x = difference.data[i];
        result.lane[i] = predicate(x.bits == 0x8000 ? -1.0f : static_cast<float>(x), 0.0f);
    }
    return result;
}

template <typename T, unsigned N, typename Operation>
vector<T, N> bitwise(const vector<T, N> &a, const vector<T, N> &b, Operation operation) {
    static_assert(!is_float_v<T>, "bit operations take integers");
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), a, b));
    for (unsigned i = 0; i < N; ++i) result.data[i] = static_cast<T>(operation(a.data[i], b.data[i]));
    return result;
}

}  // namespace detail

// Each operation of two vectors also takes a number in place of one of them.
#define NT_AIE_BINARY(name, implementation, expression)                                                   \
    template <typename T, unsigned N>                                                                     \
    auto name(const vector<T, N> &a, const vector<T, N> &b) {                                             \
        return detail::implementation(a, b, [](auto x, auto y) { return expression; });                   \
    }                                                                                                     \
    template <typename T, unsigned N>                                                                     \
    auto name(const vector<T, N> &a, std::type_identity_t<T> b) {                                         \
        return name(a, broadcast<T, N>(b));                                                               \
    }                                                                                                     \
    template <typename T, unsigned N>                                                                     \
    auto name(std::type_identity_t<T> a, const vector<T, N> &b) {                                         \
        return name(broadcast<T, N>(a), b);                                                               \
    }

NT_AIE_BINARY(add, arithmetic, x + y)
NT_AIE_BINARY(sub, arithmetic, x - y)
NT_AIE_BINARY(lt, compare, x < y)
NT_AIE_BINARY(le, compare, x <= y)
NT_AIE_BINARY(gt, compare, x > y)
NT_AIE_BINARY(ge, compare, x >= y)
NT_AIE_BINARY(eq, compare, x == y)
NT_AIE_BINARY(neq, compare, x != y)
#undef NT_AIE_BINARY

// aie_api derives these from the ones that Peano has for float32.
template <unsigned N>
mask<N> le(const vector<float, N> &a, const vector<float, N> &b) {
    return ge(b, a);
}
template <unsigned N>
mask<N> eq(const vector<float, N> &a, const vector<float, N> &b) {
    return ge(a, b) & ge(b, a);
}
template <unsigned N>
mask<N> neq(const vector<float, N> &a, const vector<float, N> &b) {
    return lt(a, b) | lt(b, a);
}

// These take the number first only.
#define NT_AIE_BITWISE(name, operation)                                                      \
    template <typename T, unsigned N>                                                        \
    vector<T, N> name(const vector<T, N> &a, const vector<T, N> &b) {                        \
        return detail::bitwise(a, b, [](auto x, auto y) { return x operation y; });          \
    }                                                                                        \
    template <typename T, unsigned N>                                                        \
    vector<T, N> name(std::type_identity_t<T> a, const vector<T, N> &b) {                    \
        return name(broadcast<T, N>(a), b);                                                  \
    }

NT_AIE_BITWISE(bit_and, &)
NT_AIE_BITWISE(bit_or, |)
NT_AIE_BITWISE(bit_xor, ^)

#undef NT_AIE_BITWISE

template <typename T, unsigned N>
vector<T, N> bit_not(const vector<T, N> &v) {
    return detail::bitwise(v, v, [](auto x, auto) { return ~x; });
}

// Those of float32 compare and select. What the array does with a NaN is not documented.
template <unsigned N>
vector<float, N> max(const vector<float, N> &a, const vector<float, N> &b) {
    return select(a, b, lt(a, b));
}
template <unsigned N>
vector<float, N> min(const vector<float, N> &a, const vector<float, N> &b) {
    return select(a, b, ge(a, b));
}
template <typename T, unsigned N>
vector<T, N> max(const vector<T, N> &a, const vector<T, N> &b) {
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), a, b));
    for (unsigned i = 0; i < N; ++i)
        result.data[i] = detail::comparable(a.data[i]) < detail::comparable(b.data[i]) ? b.data[i] : a.data[i];
    return result;
}
template <typename T, unsigned N>
vector<T, N> max(const vector<T, N> &a, std::type_identity_t<T> b) {
    return max(a, broadcast<T, N>(b));
}
template <typename T, unsigned N>
vector<T, N> min(const vector<T, N> &a, const vector<T, N> &b) {
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), a, b));
    for (unsigned i = 0; i < N; ++i)
        result.data[i] = detail::comparable(b.data[i]) < detail::comparable(a.data[i]) ? b.data[i] : a.data[i];
    return result;
}
template <typename T, unsigned N>
vector<T, N> min(const vector<T, N> &a, std::type_identity_t<T> b) {
    return min(a, broadcast<T, N>(b));
}

template <typename T, unsigned N>
vector<T, N> neg(const vector<T, N> &v) {
    static_assert(std::numeric_limits<T>::is_signed || detail::is_float_v<T>, "neg of an unsigned vector");
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), v));
    for (unsigned i = 0; i < N; ++i) {
        if constexpr (std::is_same_v<T, bfloat16>) {
            result.data[i].bits = v.data[i].bits ^ 0x8000;
        } else if constexpr (std::is_same_v<T, float>) {
            result.data[i] = -v.data[i];
        } else {
            result.data[i] = static_cast<T>(-static_cast<uint32>(v.data[i]));
        }
    }
    return result;
}

template <typename T, unsigned N>
vector<T, N> abs(const vector<T, N> &v) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return bit_and(v.template cast_to<int16>(), int16(0x7fff)).template cast_to<bfloat16>();
    } else if constexpr (std::is_same_v<T, float>) {
        return bit_and(v.template cast_to<int32>(), 0x7fffffff).template cast_to<float>();
    } else {
        vector<T, N> result;
        result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), v));
        for (unsigned i = 0; i < N; ++i)
            result.data[i] = v.data[i] < 0 ? static_cast<T>(-static_cast<uint32>(v.data[i])) : v.data[i];
        return result;
    }
}

// Lane i of `a` where bit i of the mask is 0, of `b` where it is 1.
template <typename T, unsigned N>
vector<T, N> select(const vector<T, N> &a, const vector<T, N> &b, const mask<N> &m) {
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), a, b, m));
    for (unsigned i = 0; i < N; ++i) result.data[i] = m.lane[i] ? b.data[i] : a.data[i];
    return result;
}
template <typename T, unsigned N>
vector<T, N> select(const vector<T, N> &a, std::type_identity_t<T> b, const mask<N> &m) {
    return select(a, broadcast<T, N>(b), m);
}
template <typename T, unsigned N>
vector<T, N> select(std::type_identity_t<T> a, const vector<T, N> &b, const mask<N> &m) {
    return select(broadcast<T, N>(a), b, m);
}
template <Elem T, unsigned N>
vector<T, N> select(T a, T b, const mask<N> &m) {
    return select(broadcast<T, N>(a), broadcast<T, N>(b), m);
}

// Shifts go through an accumulator on the array: `downshift` rounds in the core's rounding mode, and results narrow to
// the vector's type in its saturation mode.
template <typename T, unsigned N>
vector<T, N> upshift(const vector<T, N> &v, unsigned shift) {
    return accum<detail::default_tag_t<T, T>, N>(v, static_cast<int>(shift)).template to_vector<T>();
}
template <typename T, unsigned N>
vector<T, N> downshift(const vector<T, N> &v, unsigned shift) {
    return accum<detail::default_tag_t<T, T>, N>(v).template to_vector<T>(static_cast<int>(shift));
}
template <typename T, unsigned N>
vector<T, N> logical_downshift(const vector<T, N> &v, unsigned shift) {
    return downshift(v.template cast_to<std::make_unsigned_t<T>>(), shift).template cast_to<T>();
}

// value * 2^shift as an integer. float rounds to nearest (ties toward zero), bfloat16 down; both saturate.
template <typename To = int32, typename T, unsigned N>
vector<To, N> to_fixed(const vector<T, N> &v, int shift = 0) {
    static_assert(detail::is_float_v<T>, "to_fixed takes a floating-point vector");
    vector<To, N> result;
    result.follow(nt_host::issue(nt_host::NARROW, (sizeof(To) == 4 ? 16 : 3) * nt_host::pieces(N, 32), v));
    const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + shift) << 52);
    for (unsigned i = 0; i < N; ++i) {
        const double value = static_cast<double>(static_cast<float>(v.data[i])) * scale;
        const double bounded = value > 1e10 ? 1e10 : value > -1e10 ? value : -1e10;
        auto whole = static_cast<std::int64_t>(bounded);
        const double rest = bounded - static_cast<double>(whole);
        if constexpr (std::is_same_v<T, float>) {
            whole += (rest > 0.5) - (rest < -0.5);
        } else {
            whole -= rest < 0;
        }
        result.data[i] = detail::narrowed<To>(whole, saturation_mode::saturate);
    }
    return result;
}

// value / 2^shift, rounded to nearest even.
template <typename To = float, typename T, unsigned N>
vector<To, N> to_float(const vector<T, N> &v, int shift = 0) {
    static_assert(!detail::is_float_v<T>, "to_float takes an integer vector");
    // Widening, one addition and one subtraction; int32 in two halves, which takes two shuffles and a sum more.
    accum<accfloat, N> result;
    constexpr unsigned pieces = nt_host::pieces(N, 32);
    const auto widened = nt_host::issue(nt_host::WIDEN, (sizeof(T) == 4 ? 4 : 1) * pieces, v);
    const auto shifted = nt_host::issue(nt_host::SUM, (sizeof(T) == 4 ? 3 : 1) * pieces, widened);
    result.follow(nt_host::issue(nt_host::SUM, (sizeof(T) == 4 ? 2 : 1) * pieces, shifted));
    const float scale = std::bit_cast<float>(static_cast<uint32>(127 - shift) << 23);
    for (unsigned i = 0; i < N; ++i) result.data[i] = static_cast<float>(v.data[i]) * scale;
    return result.template to_vector<To>();
}

// Pairwise over halves, as the array adds.
template <typename T, unsigned N>
T reduce_add(const vector<T, N> &v) {
    nt_host::issue(nt_host::LANES, std::bit_width(N - 1), v);  // a shuffle per halving, and an operation
    nt_host::issue(detail::is_float_v<T> ? nt_host::SUM : nt_host::LANES, std::bit_width(N - 1), v);
    if constexpr (std::is_same_v<T, bfloat16>) {
        accum<accfloat, N> sum(v);
        for (unsigned half = N / 2; half > 0; half /= 2)
            for (unsigned i = 0; i < half; ++i) sum.data[i] += sum.data[i + half];
        return sum.template to_vector<bfloat16>().data[0];
    } else {
        using Lane = std::conditional_t<detail::is_float_v<T>, T, uint32>;
        vector<T, N> sum = v;
        for (unsigned half = N / 2; half > 0; half /= 2)
            for (unsigned i = 0; i < half; ++i)
                sum.data[i] = static_cast<T>(static_cast<Lane>(sum.data[i]) + static_cast<Lane>(sum.data[i + half]));
        return sum.data[0];
    }
}
template <typename T, unsigned N>
T reduce_max(const vector<T, N> &v) {
    nt_host::issue(nt_host::LANES, std::bit_width(N - 1), v);  // a shuffle per halving, and an operation
    nt_host::issue(detail::is_float_v<T> ? nt_host::SUM : nt_host::LANES, std::bit_width(N - 1), v);
    T result = v.data[0];
    for (unsigned i = 1; i < N; ++i)
        if (detail::comparable(result) < detail::comparable(v.data[i])) result = v.data[i];
    return result;
}
template <typename T, unsigned N>
T reduce_min(const vector<T, N> &v) {
    nt_host::issue(nt_host::LANES, std::bit_width(N - 1), v);  // a shuffle per halving, and an operation
    nt_host::issue(detail::is_float_v<T> ? nt_host::SUM : nt_host::LANES, std::bit_width(N - 1), v);
    T result = v.data[0];
    for (unsigned i = 1; i < N; ++i)
        if (detail::comparable(v.data[i]) < detail::comparable(result)) result = v.data[i];
    return result;
}

#if __AIE_ARCH__ >= 21

// Only aie2p has instructions for these. They read accumulators, 16 lanes at a time, and convert like a NARROW.
namespace detail {
template <unsigned N, typename Function>
vector<bfloat16, N> of_lanes(const vector<float, N> &v, Function function) {
    vector<bfloat16, N> result;
    result.follow(nt_host::issue(nt_host::NARROW, nt_host::pieces(N, 16), v));
    detail::with_rounding([&](auto mode) {
        for (unsigned i = 0; i < N; ++i)
            result.data[i].bits = detail::rounded_bfloat16<mode()>(std::bit_cast<uint32>(function(v.data[i])));
    });
    return result;
}
}  // namespace detail
// 2^n (1 + f) for x = n + f. Published; zero, infinity and NaN are assumed to be those of the function.
template <typename To, unsigned N>
    requires std::is_same_v<To, bfloat16>
vector<bfloat16, N> exp2(const vector<float, N> &v) {
    return detail::of_lanes(v, [](float x) {
        if (!(__builtin_fabsf(x) < 256)) return __builtin_exp2f(x);
        const float whole = __builtin_floorf(x);
        return __builtin_exp2f(whole) * (1 + (x - whole));
    });
}
// x up to 0.5, which is published with the error there, 0.038. Assumed: never below 0.5 beyond it, else the function.
template <typename To, unsigned N>
    requires std::is_same_v<To, bfloat16>
vector<bfloat16, N> tanh(const vector<float, N> &v) {
    return detail::of_lanes(v, [](float x) {
        const float size = __builtin_fabsf(x), exact = __builtin_tanhf(size);
        return __builtin_copysignf(size <= 0.5f ? size : exact < 0.5f ? 0.5f : exact, x);
    });
}

#endif

}  // namespace aie
