// Rotary position embedding: pairs of features turned by an angle that is proportional to the row's position.
#pragma once

#include <tuple>

#include "vector_math.hpp"

namespace nt {

// Cosines and sines of one position, each as the sum of two bfloat16 numbers. The error, 2^-17, vanishes when the
// result is rounded to bfloat16. `pairs` is a multiple of 32; `memory` holds four times as many numbers.
struct RopeTable {
    bfloat16 *cosine, *cosine_rest, *sine, *sine_rest;
    int32 pairs;

    RopeTable(bfloat16 *memory, int32 pairs)
        : cosine(memory),
          cosine_rest(memory + pairs),
          sine(memory + 2 * pairs),
          sine_rest(memory + 3 * pairs),
          pairs(pairs) {}

    // turns[i] is the angle of position 1 in units of 2^-32 turns. Times the position, modulo 2^32, it is the angle
    // within one turn: the error is 2^-33 turns times the position, and no range reduction is needed.
    void fill(int32 position, const int32 *turns, float magnitude) {
        constexpr unsigned lanes = 16;
        constexpr float radians = 1.4629180792671596e-9f;  // 2 pi / 2^32
        for (int32 i = 0; i < pairs; i += lanes) {
            const Int<lanes> turned = nt::mul(aie::load_v<lanes>(turns + i), aie::broadcast<int32, lanes>(position));
            const Float<lanes> angle = nt::mul(cast<float>(turned), constant<lanes>(radians));
            const Float<lanes> size = constant<lanes>(magnitude);
            const auto cosines = split<2>(nt::mul<half>(nt::cos<half>(angle), size));
            const auto sines = split<2>(nt::mul<half>(nt::sin<half>(angle), size));
            aie::store_v(cosine + i, cosines.part[0]);
            aie::store_v(cosine_rest + i, cosines.part[1]);
            aie::store_v(sine + i, sines.part[0]);
            aie::store_v(sine_rest + i, sines.part[1]);
        }
    }
};

// turns[i] = rates[i] / factors[i], modulo whole turns, in units of 2^-32 turns. Quotients are float32 numbers;
// `factors` has the bits of float32 numbers.
inline void divide_turns(const float *rates, const int32 *factors, int32 *turns, int32 pairs) {
    constexpr unsigned lanes = 16;
    for (int32 i = 0; i < pairs; i += lanes) {
        const Float<lanes> factor = from_bits(aie::load_unaligned_v<lanes>(factors + i));
        const Float<lanes> quotient = nt::div(aie::load_v<lanes>(rates + i), factor);
        const Float<lanes> part = aie::sub(quotient, nt::rint(quotient));
        aie::store_v(turns + i, cast<int32>(nt::mul(part, constant<lanes>(4294967296.0f))));
    }
}

template <unsigned lanes>
struct Pairs {
    Sum<lanes> first, second;
};

// Turn the pairs (a, b) from pair `i` on: a cos - b sin and a sin + b cos.
template <unsigned lanes>
inline Pairs<lanes> turned(const Bfloat<lanes> &a, const Bfloat<lanes> &b, const RopeTable &table, int32 i) {
    const Bfloat<lanes> cosine = aie::load_unaligned_v<lanes>(table.cosine + i);
    const Bfloat<lanes> cosine_rest = aie::load_unaligned_v<lanes>(table.cosine_rest + i);
    const Bfloat<lanes> sine = aie::load_unaligned_v<lanes>(table.sine + i);
    const Bfloat<lanes> sine_rest = aie::load_unaligned_v<lanes>(table.sine_rest + i);
    Sum<lanes> first = aie::mac(aie::mul(a, cosine), a, cosine_rest);
    Sum<lanes> second = aie::mac(aie::mul(a, sine), a, sine_rest);
    first = aie::msc(aie::msc(first, b, sine), b, sine_rest);
    second = aie::mac(aie::mac(second, b, cosine), b, cosine_rest);
    return {first, second};
}

// Rotate `count` >= lanes pairs; the last vector overlaps the previous one.
template <unsigned lanes, bool Neighbours, typename Stored>
inline void rotate_vectors(const bfloat16 *__restrict x, const RopeTable &table, Stored *__restrict y, int32 count) {
    for (int32 start = 0; start < count; start += lanes) {
        const int32 i = start + static_cast<int32>(lanes) <= count ? start : count - static_cast<int32>(lanes);
        const int32 first = Neighbours ? 2 * i : i, second = Neighbours ? first + static_cast<int32>(lanes) : count + i;
        Bfloat<lanes> a = aie::load_unaligned_v<lanes>(x + first), b = aie::load_unaligned_v<lanes>(x + second);
        if constexpr (Neighbours) std::tie(a, b) = aie::interleave_unzip(a, b, 1);
        const auto sums = turned(a, b, table, i);
        auto low = sums.first.template to_vector<Stored>(), high = sums.second.template to_vector<Stored>();
        if constexpr (Neighbours) std::tie(low, high) = aie::interleave_zip(low, high, 1);
        aie::store_unaligned_v(y + first, low);
        aie::store_unaligned_v(y + second, high);
    }
}

// Rotate a row of features, of which the first `dims` form pairs: of neighbours, or of the two halves of `dims`.
template <bool Neighbours, typename Stored>
inline void rotate_row(const bfloat16 *__restrict x, const RopeTable &table, Stored *__restrict y, int32 features,
                       int32 dims) {
    constexpr unsigned few = 16, many = 64 / sizeof(Stored);
    const int32 count = dims / 2;
    if (count >= static_cast<int32>(many)) {
        rotate_vectors<many, Neighbours>(x, table, y, count);
    } else if (count >= static_cast<int32>(few)) {
        rotate_vectors<few, Neighbours>(x, table, y, count);
    } else {
        const int32 step = Neighbours ? 2 : 1, distance = Neighbours ? 1 : count;
        Bfloat<few> a = aie::zeros<bfloat16, few>(), b = a;
        for (int32 i = 0; i < count; ++i) {
            a.set(x[step * i], i);
            b.set(x[step * i + distance], i);
        }
        const auto sums = turned(a, b, table, 0);
        const auto first = sums.first.template to_vector<Stored>(), second = sums.second.template to_vector<Stored>();
        for (int32 i = 0; i < count; ++i) {
            y[step * i] = first.get(i);
            y[step * i + distance] = second.get(i);
        }
    }
    int32 i = dims;
    for (; i + static_cast<int32>(few) <= features; i += few)
        aie::store_unaligned_v(y + i, Sum<few>(aie::load_unaligned_v<few>(x + i)).template to_vector<Stored>());
    for (; i < features; ++i) y[i] = static_cast<Stored>(static_cast<float>(x[i]));
}

}  // namespace nt
