// Products with weights in blocks of quantized numbers, for `lanes` rows of weights at once.
//
// Elements of the rows at the same place of a block form a vector: scales, minima, codes. So sums are vectors too, and
// no lanes are ever added. Codes become bfloat16 numbers, exactly; the sum of a block is multiplied by its scales
// afterwards.
#pragma once

#include <aie_api/aie.hpp>

#include "gemm.hpp"
#include "memory.hpp"
#include "vector_math.hpp"

namespace nt {

constexpr unsigned lanes = 32;

// bits: those of a code. block: its elements. has_minima: true if a number is added to all elements of a block.
template <unsigned bits_, unsigned block_, bool has_minima_>
struct Blocks {
    static constexpr unsigned bits = bits_, block = block_;
    static constexpr bool has_minima = has_minima_;
    static constexpr unsigned numbers = has_minima ? 2 : 1;
    static constexpr unsigned codes = block * bits / 8;
    static constexpr unsigned bytes = lanes * (numbers * sizeof(bfloat16) + codes);
};

// Words of a run: further objects with x, units of the core's channel, objects per unit, rows of x, and blocks in a row
// of weights. For a row op: further objects with both rows, 1, 0, units of the channel, and the word of the run.
enum Extent { MORE_OBJECTS, UNITS, UNIT_OBJECTS, TOKENS, ROW_BLOCKS };

// Ops on two rows of numbers between products, which take turns with them.
enum RowOp { ADD, SWIGLU, RMS_NORM, ROPE };

// Units of a channel: the first one, and their number.
struct Units {
    unsigned first, number;
};
inline Units units_of(unsigned all, unsigned channel, unsigned channels) {
    const unsigned first = all * channel / channels;
    return {first, all * (channel + 1) / channels - first};
}
inline unsigned row_units(unsigned vectors) { return (vectors + 1) / 2; }
inline unsigned objects_of(unsigned elements, unsigned own) { return (elements + own - 1) / own; }

// Computes the extents of a channel from the word of a run, which all cores share. Negative words are those of row ops:
// the op in bits 0 and 1, the length of the row in vectors in the next 10, and in bits 12 to 30 epsilon, or a bit for
// pairs of neighbours and the features of a head less 1. Other words have the blocks of a row in 10 bits, the rows of x
// in 5, both less 1, and the units of all channels in 16. Objects have `own` elements of x. One channel of each column
// computes a row op.
template <typename Format, unsigned own, unsigned features, unsigned channels>
inline void compute_extents(int32 word, int32 *__restrict extents, unsigned channel) {
    const bool row = word < 0;
    const unsigned vectors = word >> 2 & 1023;
    const unsigned units = row ? units_of(row_units(vectors), channel / 2, channels / 2).number
                               : units_of(word >> 15, channel, channels).number;
    const unsigned blocks = (word & 1023) + 1, tokens = (word >> 10 & 31) + 1;
    const unsigned elements = (word & 3) >= RMS_NORM ? vectors * lanes : units * 2 * lanes;
    extents[MORE_OBJECTS] = row ? 2 * objects_of(elements, own) - 1 : objects_of(tokens * blocks * Format::block, own) - 1;
    extents[UNITS] = row ? 1 : units;
    extents[UNIT_OBJECTS] = row ? 0 : objects_of(blocks * Format::block, features);
    extents[TOKENS] = row ? units : tokens;
    extents[ROW_BLOCKS] = row ? word : blocks;
}

// Takes blocks of x out of an object, as many as it holds or as are left of `blocks`. Codes of 4 bits are multiplied
// from bytes, where the second 16 of a block are larger by 16: their x becomes smaller by that. minima: gets the sum of
// each block as two numbers. raw: the blocks are the rows of a row op, and do not change.
template <typename Format, unsigned bytes, typename X>
inline void keep_blocks(const X *__restrict object, bfloat16 *__restrict x, bfloat16 *__restrict minima,
                        int32 *__restrict cursor, unsigned blocks, bool raw = false) {
    constexpr unsigned block = Format::block, most = bytes / (block * sizeof(X)), middle = 16;
    const unsigned first = *cursor, count = blocks - first < most ? blocks - first : most;
    *cursor = first + count == blocks ? 0 : first + count;
    x += first * block;
    for (unsigned i = 0; i < count; ++i, object += block, x += block) {
        const auto lows = Sum<middle>(aie::load_v<middle>(object)).template to_vector<bfloat16>();
        aie::store_v(x, lows);
        if constexpr (block > middle) {
            Sum<middle> high(aie::load_v<middle>(object + middle));
            const auto highs = high.template to_vector<bfloat16>();
            if constexpr (Format::has_minima) {
                const float sum = aie::reduce_add(value(aie::add(Sum<middle>(lows), Sum<middle>(highs))));
                const auto parts = split<2>(constant<middle>(sum));
                minima[2 * (first + i)] = parts[0].get(0);
                minima[2 * (first + i) + 1] = parts[1].get(0);
            }
            if constexpr (Format::bits == 4) {
                const bfloat16 factor = raw ? 1.0f : 0.0625f;
                aie::store_v(x + middle, aie::mul(highs, factor).template to_vector<bfloat16>());
            } else {
                aie::store_v(x + middle, highs);
            }
        }
    }
}

// The products of the codes of a block with x. Several sums, as each must wait for its last product.
template <typename Format>
inline Sum<lanes> multiply_codes(const uint8 *__restrict codes, const bfloat16 *__restrict x) {
    constexpr unsigned middle = Format::block / 2;
    Sum<lanes> sums[4];
    unroll<4>([&](auto i) { sums[i] = aie::zeros<accfloat, lanes>(); });
    const auto add = [&](Sum<lanes> &sum, const aie::vector<int8, 2 * lanes> &code, auto i, bfloat16 factor) {
        sum = aie::mac(sum, aie::to_float<bfloat16>(code.template extract<lanes>(i)), factor);
    };
    constexpr std::integral_constant<unsigned, 0> first;
    constexpr std::integral_constant<unsigned, 1> second;
    for (unsigned k = 0; k < Format::codes; k += 2, codes += 2 * lanes) {
        const auto bytes = aie::load_v<2 * lanes>(codes);
        if constexpr (Format::bits == 8) {
            const auto code = bytes.template cast_to<int8>();
            add(sums[0], code, first, x[k]);
            add(sums[1], code, second, x[k + 1]);
        } else {
            const auto low = aie::sub(aie::bit_and(uint8(0x0f), bytes).template cast_to<int8>(), int8(8));
            const auto high = aie::bit_xor(uint8(0x80), aie::bit_and(uint8(0xf0), bytes)).template cast_to<int8>();
            add(sums[0], low, first, x[k]);
            add(sums[1], low, second, x[k + 1]);
            add(sums[2], high, first, x[k + middle]);
            add(sums[3], high, second, x[k + middle + 1]);
        }
    }
    const auto sum = aie::add(sums[0], sums[1]);
    return Format::bits == 8 ? sum : aie::add(sum, aie::add(sums[2], sums[3]));
}

// Adds the products of an object's blocks with x to the sums of each token; the cursor counts the objects of a row.
template <typename Format, unsigned most>
inline void multiply_blocks(const uint8 *__restrict object, const bfloat16 *__restrict x,
                            const bfloat16 *__restrict minima, float *__restrict sums, int32 *__restrict cursor,
                            unsigned tokens, unsigned blocks, unsigned objects) {
    const unsigned first = advance(cursor, 1, objects) * most;
    const unsigned count = blocks - first < most ? blocks - first : most;
    for (unsigned token = 0; token < tokens; ++token, sums += lanes) {
        Sum<lanes> total = first ? Sum<lanes>(aie::load_v<lanes>(sums)) : aie::zeros<accfloat, lanes>();
        const auto *weights = object;
        for (unsigned place = token * blocks + first; place < token * blocks + first + count; ++place) {
            const auto *scales = reinterpret_cast<const bfloat16 *>(weights);
            const auto *codes = weights + Format::numbers * lanes * sizeof(bfloat16);
            const auto sum = split<2>(value(multiply_codes<Format>(codes, x + place * Format::block)));
            const auto scale = aie::load_v<lanes>(scales);
            total = aie::mac(aie::mac(total, sum[1], scale), sum[0], scale);
            if constexpr (Format::has_minima) {
                const auto added = aie::load_v<lanes>(scales + lanes);
                total = aie::mac(aie::mac(total, added, minima[2 * place + 1]), added, minima[2 * place]);
            }
            weights += Format::bytes;
        }
        aie::store_v(sums, value(total));
    }
}

// Stores 1 / sqrt(mean of squares + epsilon) of `length` numbers, a multiple of `lanes`, in 16 lanes.
inline void store_inverse_rms(const bfloat16 *__restrict x, unsigned length, float epsilon, float *__restrict inverse) {
    Sum<lanes> sums[2] = {aie::zeros<accfloat, lanes>(), aie::zeros<accfloat, lanes>()};
    const auto add = [&](Sum<lanes> &sum, const bfloat16 *from) {
        const auto v = aie::load_v<lanes>(from);
        sum = aie::mac(sum, v, v);
    };
    unsigned i = 0;
    for (; i + lanes < length; i += 2 * lanes) {
        add(sums[0], x + i);
        add(sums[1], x + i + lanes);
    }
    if (i < length) add(sums[0], x + i);
    const float total = aie::reduce_add(value(aie::add(sums[0], sums[1])));
    const auto share = nt::reciprocal(nt::cast<float>(nt::broadcast<int32, 16>(static_cast<int32>(length))));
    const auto mean = nt::mul<full>(constant<16>(total), share);
    aie::store_v(inverse, nt::rsqrt<half>(nt::add(mean, constant<16>(epsilon))));
}

// `lanes` results of a row op. inverse: what `store_inverse_rms` has stored.
template <RowOp op, typename Stored>
inline void compute_row(const bfloat16 *__restrict a, const bfloat16 *__restrict b, const float *__restrict inverse,
                        Stored *__restrict result) {
    for (unsigned i = 0; i < lanes; i += 16) {
        const auto x = aie::load_v<16>(a + i), y = aie::load_v<16>(b + i);
        if constexpr (op == ADD) {
            nt::store(result + i, nt::add(nt::widened(x), nt::brief(y)));
        } else if constexpr (op == SWIGLU) {
            const auto exponential = nt::exp(nt::brief(nt::neg(nt::brief(x))));
            const auto silu = nt::div_by_one_or_more(nt::brief(x), nt::add(constant<16>(1.0f), exponential));
            nt::store(result + i, nt::mul<half>(silu, nt::brief(y)));
        } else {
            const auto factor = nt::split_alike(aie::load_v<16>(inverse));
            nt::store(result + i, nt::mul<half>(nt::mul(nt::brief(x), factor), nt::brief(y)));
        }
    }
}

// `lanes` numbers of heads of `features`, rotated, from number `first` on. See RotationTable in rope.py.
template <bool neighbours, typename Stored>
inline void rotate_part(const bfloat16 *__restrict x, const bfloat16 *__restrict table, unsigned first,
                        unsigned features, Stored *__restrict result) {
    const Bfloat<lanes> own = aie::load_v<lanes>(x + first);
    Bfloat<lanes> other;
    if constexpr (neighbours) {
        const auto [even, odd] = aie::interleave_unzip(own, own, 1);
        other = aie::interleave_zip(odd, even, 1).first;
    } else {
        other = aie::load_v<lanes>(x + (first ^ features / 2));
    }
    table += first & (features - 1);
    const auto factor = [&](unsigned row) { return Bfloat<lanes>(aie::load_v<lanes>(table + row * features)); };
    const Sum<lanes> turned = aie::mac(aie::mul(own, factor(0)), own, factor(1));
    aie::store_v(result, aie::mac(aie::mac(turned, other, factor(2)), other, factor(3)).template to_vector<Stored>());
}

// The next `lanes` results of a core. x has both rows, `pitch` elements apart: of a norm and of heads to rotate from
// their beginning, and else from the first unit of the channel. word: see `compute_extents`. `place` counts the lanes of
// earlier units.
template <unsigned channels, typename Stored>
inline void next_of_row(const bfloat16 *__restrict x, unsigned pitch, unsigned word, unsigned channel, unsigned part,
                        unsigned place, float *__restrict inverse, Stored *__restrict result) {
    const unsigned op = word & 3, vectors = word >> 2 & 1023;
    const bfloat16 *a = x + 2 * place + part * lanes;
    if (op == ADD) {
        compute_row<ADD>(a, a + pitch, inverse, result);
    } else if (op == SWIGLU) {
        compute_row<SWIGLU>(a, a + pitch, inverse, result);
    } else {
        a += units_of(row_units(vectors), channel / 2, channels / 2).first * 2 * lanes;
        const unsigned features = (word >> 13 & 0x3ffff) + 1;
        if (op == RMS_NORM) {
            const float epsilon = __builtin_bit_cast(float, word & 0x7ffff000);
            if (place == 0) store_inverse_rms(x, vectors * lanes, epsilon, inverse);
            compute_row<RMS_NORM>(a, a + pitch, inverse, result);
        } else if (word >> 12 & 1) {
            rotate_part<true>(x, x + pitch, a - x, features, result);
        } else {
            rotate_part<false>(x, x + pitch, a - x, features, result);
        }
    }
}

}  // namespace nt
