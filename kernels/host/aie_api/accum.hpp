// Accumulators and the products that end in them: float32, or integers that wrap at 32 or 64 bits.
#pragma once

#include "vector.hpp"

struct bfp16ebs8;

namespace aie {

template <typename T, unsigned N>
class block_vector;
template <typename Tag, unsigned N>
class accum;

namespace detail {

template <unsigned N>
block_vector<bfp16ebs8, N> to_blocks(const accum<accfloat, N> &sums);

template <typename Tag>
struct accumulator;
template <>
struct accumulator<accfloat> { using type = float; };
template <>
struct accumulator<acc32> { using type = int32; };
template <>
struct accumulator<acc64> { using type = std::int64_t; };

// Default accumulator of a product.
template <typename A, typename B>
constexpr auto default_tag() {
    static_assert(is_float_v<A> == is_float_v<B>, "no product of a floating-point and an integer vector");
    static_assert(!is_float_v<A> || std::is_same_v<A, B>, "no product of bfloat16 and float");
    if constexpr (is_float_v<A>) {
        return accfloat{};
    } else if constexpr (sizeof(A) <= 2 && sizeof(B) <= 2) {
        return acc32{};
    } else {
        return acc64{};
    }
}
template <typename A, typename B>
using default_tag_t = decltype(default_tag<A, B>());

}  // namespace detail

template <typename Tag, unsigned N>
class accum : public nt_host::Sum {
  public:
    using value_type = Tag;
    using lane_type = typename detail::accumulator<Tag>::type;
    static_assert(sizeof(lane_type) * N >= 16 && sizeof(lane_type) * N <= 512, "no accumulator of this size");
    alignas(sizeof(lane_type) * N < 64 ? sizeof(lane_type) * N : 64) lane_type data[N];

    accum() = default;
    template <typename T>
    explicit accum(const vector<T, N> &v, int shift = 0) {
        from_vector(v, shift);
    }

    static constexpr unsigned size() { return N; }
    static constexpr bool is_floating_point() { return std::is_same_v<Tag, accfloat>; }

    template <typename T>
    void from_vector(const vector<T, N> &v, int shift = 0) {
        static_assert(is_floating_point() == detail::is_float_v<T>, "the types of vector and accumulator differ");
        if constexpr (sizeof(T) < sizeof(lane_type))
            follow(nt_host::widen(nt_host::pieces(N, nt_host::WIDENED_LANES), v));
        else
            follow(v);
        if constexpr (is_floating_point()) {
            for (unsigned i = 0; i < N; ++i) data[i] = static_cast<float>(v.data[i]);
        } else {
            static_assert(sizeof(T) < sizeof(lane_type), "the array widens to the accumulator's lanes only");
            if (shift < 0) nt_host::fail("accum::from_vector: negative shift");
            using Bits = std::make_unsigned_t<lane_type>;
            for (unsigned i = 0; i < N; ++i)
                data[i] = static_cast<lane_type>(static_cast<Bits>(static_cast<std::int64_t>(v.data[i])) << shift);
        }
    }

    template <typename T>
        requires std::is_same_v<T, bfp16ebs8>
    block_vector<T, N> to_vector() const {
        return detail::to_blocks(*this);
    }

    // Rounds in the core's rounding mode; integers narrow in its saturation mode.
    template <typename T>
        requires(!std::is_same_v<T, bfp16ebs8>)
    vector<T, N> to_vector(int shift = 0) const {
        static_assert(is_floating_point() == detail::is_float_v<T>, "the types of vector and accumulator differ");
        vector<T, N> result;
        if constexpr (sizeof(T) < sizeof(lane_type))
            result.follow(nt_host::issue(nt_host::NARROW, nt_host::pieces(N, nt_host::WIDENED_LANES), *this));
        else
            result.follow(*this);
        if constexpr (std::is_same_v<T, float>) {
            for (unsigned i = 0; i < N; ++i) result.data[i] = data[i];
        } else if constexpr (std::is_same_v<T, bfloat16>) {
            detail::with_rounding([&](auto mode) {
                for (unsigned i = 0; i < N; ++i)
                    result.data[i].bits = detail::rounded_bfloat16<mode()>(std::bit_cast<uint32>(data[i]));
            });
        } else if constexpr (sizeof(T) == sizeof(lane_type)) {
            // The array takes the lanes as they are, whatever the shift.
            if (shift) nt_host::fail("accum::to_vector: no shift to lanes as wide as the accumulator's");
            for (unsigned i = 0; i < N; ++i) result.data[i] = static_cast<T>(data[i]);
        } else {
            const saturation_mode saturation = get_saturation();
            detail::with_rounding([&](auto mode) {
                for (unsigned i = 0; i < N; ++i)
                    result.data[i] = detail::narrowed<T>(detail::shifted<mode()>(data[i], shift), saturation);
            });
        }
        return result;
    }
    vector<float, N> to_vector() const requires(is_floating_point()) { return to_vector<float>(); }

    // The same bits, lanes of the same width.
    template <typename To>
    accum<To, N> cast_to() const {
        static_assert(sizeof(typename accum<To, N>::lane_type) == sizeof(lane_type));
        return std::bit_cast<accum<To, N>>(*this);
    }
    template <unsigned M>
    accum<Tag, M> extract(unsigned index) const {
        if (index >= N / M) nt_host::fail("accum::extract: the part lies outside of the accumulator");
        accum<Tag, M> result;
        result.follow(*this);
        for (unsigned i = 0; i < M; ++i) result.data[i] = data[index * M + i];
        return result;
    }
    template <unsigned M>
    accum &insert(unsigned index, const accum<Tag, M> &part) {
        if (index >= N / M) nt_host::fail("accum::insert: the part lies outside of the accumulator");
        follow(part);
        for (unsigned i = 0; i < M; ++i) data[index * M + i] = part.data[i];
        return *this;
    }
};

namespace detail {

// Lanes that one instruction multiplies; 0 for int32, which takes 4 products of halves and 4 shuffles per 16 lanes, and
// for float, which takes 9 products of bfloat16 and 4 subtractions and conversions per operand and 16 lanes.
template <typename A, typename B>
constexpr unsigned multiplied_lanes() {
    constexpr unsigned size = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
    if constexpr (std::is_same_v<A, bfloat16>) return nt_host::MULTIPLIED_LANES;
    if constexpr (size == 4) return 0;
    return __AIE_ARCH__ == 20 || size == 2 ? 32 : 64;
}
template <typename A, typename B, typename... Operands>
nt_host::Timed multiplied(unsigned lanes, const Operands &...operands) {
    constexpr auto instruction = is_float_v<A> ? nt_host::PRODUCT : nt_host::INTEGER_PRODUCT;
    if constexpr (multiplied_lanes<A, B>() > 0) {
        return nt_host::issue(instruction, nt_host::pieces(lanes, multiplied_lanes<A, B>()), operands...);
    } else {
        constexpr unsigned moves = is_float_v<A> ? 8 : 4, products = is_float_v<A> ? 9 : 4;
        const auto shuffled = nt_host::issue(nt_host::LANES, moves * nt_host::pieces(lanes, 16), operands...);
        return nt_host::issue(instruction, products * nt_host::pieces(lanes, 16), shuffled);
    }
}

template <typename A>
struct is_accum : std::false_type {};
template <typename Tag, unsigned N>
struct is_accum<accum<Tag, N>> : std::true_type {};

// Lanes as the accumulator computes with them. Unsigned arithmetic wraps without being undefined.
template <typename Tag, typename T>
constexpr auto lane(T value) {
    if constexpr (std::is_same_v<Tag, accfloat>) {
        return static_cast<float>(value);
    } else {
        using Lane = typename accumulator<Tag>::type;
        return static_cast<std::make_unsigned_t<Lane>>(static_cast<Lane>(value));
    }
}

}  // namespace detail

template <typename A>
concept Accum = detail::is_accum<A>::value;

template <typename To, Accum A>
auto vector_cast(const A &acc) {
    return std::bit_cast<vector<To, A::size() * sizeof(acc.data[0]) / sizeof(To)>>(acc);
}

template <typename Tag, typename A, typename B, unsigned N>
accum<Tag, N> mul(const vector<A, N> &a, const vector<B, N> &b) {
    accum<Tag, N> result;
    result.follow(detail::multiplied<A, B>(N, a, b));
    for (unsigned i = 0; i < N; ++i) result.data[i] = detail::lane<Tag>(a.data[i]) * detail::lane<Tag>(b.data[i]);
    return result;
}
template <typename A, typename B, unsigned N>
auto mul(const vector<A, N> &a, const vector<B, N> &b) {
    return mul<detail::default_tag_t<A, B>>(a, b);
}
template <Elem A, typename B, unsigned N>
auto mul(A a, const vector<B, N> &b) {
    return mul(broadcast<A, N>(a), b);
}
template <typename A, Elem B, unsigned N>
auto mul(const vector<A, N> &a, B b) {
    return mul(a, broadcast<B, N>(b));
}

template <Accum Acc>
Acc neg(const Acc &acc) {
    using Tag = typename Acc::value_type;
    Acc result;
    result.follow(nt_host::issue(nt_host::SUM, nt_host::pieces(Acc::size(), 16), acc));
    for (unsigned i = 0; i < Acc::size(); ++i) result.data[i] = -detail::lane<Tag>(acc.data[i]);
    return result;
}

template <typename A, typename B, unsigned N>
auto negmul(const vector<A, N> &a, const vector<B, N> &b) {
    return neg(mul(a, b));
}

namespace detail {

// vmac.f of aie2, as 3,200 published probes have found it on silicon for matrices: a sum and its products are aligned
// to the largest exponent among them and rounded there to 24 bits each, ties to even. Their sum is exact until it is
// rounded to a float32. The same is assumed lane by lane, where softmax on silicon showed the rounding of each product
// (mlir-aie's levers.md, S80), and of the exponent of a product that it is that of its value. The probes had no
// infinite operand and no NaN; those are summed as usual, and zeros. Sums of accumulators and aie2p round as IEEE,
// without a probe.
template <unsigned N>
struct Aligned {
    using Double = std::conditional_t<N != 0, double, void>;  // GCC ignores the attribute where no type depends on N
    using Long = std::conditional_t<N != 0, std::int64_t, void>;
    typedef Double Row __attribute__((vector_size(sizeof(double) * N)));
    typedef Long Bits __attribute__((vector_size(sizeof(std::int64_t) * N)));

    template <unsigned count>
    static Row sum(const Row (&terms)[count]) {
        constexpr std::int64_t exponent_bits = 0x7ff0000000000000;
        Row plain = terms[0], largest = {};
#pragma GCC unroll 16
        for (unsigned k = 0; k < count; ++k) {
            if (k > 0) plain += terms[k];
            const Row exponent = (Row)((Bits)terms[k] & exponent_bits);
            largest = largest > exponent ? largest : exponent;
        }
        // Doubles added to 1.5 * 2^29 units have their last bit 23 places below the unit.
        const Row shift = largest * 805306368.0;
        Row total = {};
#pragma GCC unroll 16
        for (unsigned k = 0; k < count; ++k) total += (terms[k] + shift) - shift;
        return (Bits)largest == exponent_bits || (Bits)largest == 0 ? plain : total;
    }
};

// acc + sign a b of bfloat16, in pieces that the host's vector registers hold.
template <unsigned N>
inline void add_aligned(float *out, const float *acc, const bfloat16 *a, const bfloat16 *b, float sign) {
    constexpr unsigned lanes = N < 8 ? N : 8;
    for (unsigned first = 0; first < N; first += lanes) {
        typename Aligned<lanes>::Row terms[2];
        for (unsigned i = 0; i < lanes; ++i) {
            terms[0][i] = acc[first + i];
            terms[1][i] = static_cast<double>(sign * static_cast<float>(a[first + i])) * static_cast<float>(b[first + i]);
        }
        const auto total = Aligned<lanes>::sum(terms);
        for (unsigned i = 0; i < lanes; ++i) out[first + i] = static_cast<float>(total[i]);
    }
}

template <typename Tag>
inline constexpr bool is_aligned_v = nt_host::AIE2 && std::is_same_v<Tag, accfloat>;

}  // namespace detail

// acc + a b; the operands of a product are vectors or one of them a number.
template <typename Tag, typename A, typename B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N> &acc, const vector<A, N> &a, const vector<B, N> &b) {
    accum<Tag, N> result;
    result.follow(detail::multiplied<A, B>(N, acc, a, b));
    if constexpr (detail::is_aligned_v<Tag>) {
        detail::add_aligned<N>(result.data, acc.data, a.data, b.data, +1.0f);
        return result;
    }
    for (unsigned i = 0; i < N; ++i)
        result.data[i] = detail::lane<Tag>(acc.data[i]) + detail::lane<Tag>(a.data[i]) * detail::lane<Tag>(b.data[i]);
    return result;
}
template <typename Tag, Elem A, typename B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N> &acc, A a, const vector<B, N> &b) {
    return mac(acc, broadcast<A, N>(a), b);
}
template <typename Tag, typename A, Elem B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N> &acc, const vector<A, N> &a, B b) {
    return mac(acc, a, broadcast<B, N>(b));
}

// acc - a b
template <typename Tag, typename A, typename B, unsigned N>
accum<Tag, N> msc(const accum<Tag, N> &acc, const vector<A, N> &a, const vector<B, N> &b) {
    accum<Tag, N> result;
    result.follow(detail::multiplied<A, B>(N, acc, a, b));
    if constexpr (detail::is_aligned_v<Tag>) {
        detail::add_aligned<N>(result.data, acc.data, a.data, b.data, -1.0f);
        return result;
    }
    for (unsigned i = 0; i < N; ++i)
        result.data[i] = detail::lane<Tag>(acc.data[i]) - detail::lane<Tag>(a.data[i]) * detail::lane<Tag>(b.data[i]);
    return result;
}
template <typename Tag, Elem A, typename B, unsigned N>
accum<Tag, N> msc(const accum<Tag, N> &acc, A a, const vector<B, N> &b) {
    return msc(acc, broadcast<A, N>(a), b);
}
template <typename Tag, typename A, Elem B, unsigned N>
accum<Tag, N> msc(const accum<Tag, N> &acc, const vector<A, N> &a, B b) {
    return msc(acc, a, broadcast<B, N>(b));
}

template <typename Tag, unsigned N>
accum<Tag, N> add(const accum<Tag, N> &a, const accum<Tag, N> &b) {
    accum<Tag, N> result;
    result.follow(nt_host::issue(nt_host::SUM, nt_host::pieces(N, 16), a, b));
    for (unsigned i = 0; i < N; ++i) result.data[i] = detail::lane<Tag>(a.data[i]) + detail::lane<Tag>(b.data[i]);
    return result;
}
template <typename Tag, typename T, unsigned N>
accum<Tag, N> add(const accum<Tag, N> &a, const vector<T, N> &b) {
    return add(a, accum<Tag, N>(b));
}
template <typename Tag, unsigned N>
accum<Tag, N> sub(const accum<Tag, N> &a, const accum<Tag, N> &b) {
    accum<Tag, N> result;
    result.follow(nt_host::issue(nt_host::SUM, nt_host::pieces(N, 16), a, b));
    for (unsigned i = 0; i < N; ++i) result.data[i] = detail::lane<Tag>(a.data[i]) - detail::lane<Tag>(b.data[i]);
    return result;
}
template <typename Tag, typename T, unsigned N>
accum<Tag, N> sub(const accum<Tag, N> &a, const vector<T, N> &b) {
    return sub(a, accum<Tag, N>(b));
}

}  // namespace aie
