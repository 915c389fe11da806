// Attention of a tile of queries to one block of keys after another, with running maxima and sums.
//
// A score s becomes the weight 2^(s - top), where `top` is an integer of its row. It is raised, and what was summed is
// scaled by a power of two, only where a score exceeds it by 2^BOUND: sums of floats are as exact for large weights.
// The row maxima are therefore needed rarely. Queries, scores and weights lie in strips of 16 rows, in the blocks of
// nt/gemm.hpp. Vectors are groups of 4 rows with T columns each.
#pragma once

#include "gemm.hpp"
#include "vector_math.hpp"

namespace nt {

constexpr int32 BOUND = 32;
constexpr int32 NO_TOP = ROUNDER_BITS - (1 << 21);  // of a row without a score; smaller ones count as masked
constexpr int32 NO_DIAGONAL = 1 << 30;              // row that attends to all keys
constexpr float MASKED = -1e30f;                    // least addend of a mask: its product with any scale is finite

// splits: true if the cores of a column share the keys, and not the queries. capped: true if scores have a soft cap.
template <unsigned R_, unsigned S_, unsigned T_, unsigned block_rows, unsigned block_columns, unsigned rows_,
          unsigned keys_, unsigned features_, bool splits_, bool capped_>
struct AttentionTile {
    static constexpr unsigned R = R_, T = T_, rows = rows_, keys = keys_, features = features_;
    static constexpr bool splits = splits_, capped = capped_;
    static constexpr int32 round_keys = splits ? 4 * keys : keys;
    static constexpr unsigned strip = 16, group = 4, lanes = group * T;
    using Scores = GemmTile<R_, S_, T_, block_rows, block_columns, rows_, features_, keys_, true, bfloat16, float>;
    using Mixed = GemmTile<R_, S_, T_, block_rows, block_columns, rows_, keys_, features_, false, bfloat16, float>;
    static_assert(S_ == 8 && block_rows * R == strip && rows % strip == 0);

    // Offset in sums with `width` columns of column `column` and the 4 rows from `row` on.
    static constexpr unsigned place(unsigned width, unsigned row, unsigned column) {
        return row / R * R * width + column * R + row % R * T;
    }
};

// Words of a core's runtime parameter. SCALES are two bfloat16 numbers whose sum scales the scores, and CAP_SCALES are
// for the scores before a soft cap. INVERSE_SCALE is for masks. If the cores of a column share the keys, they do not
// have the words after CAP_SCALES, and without a mask and a soft cap, none after SCALES.
enum AttentionWord { ROUNDS, BLOCKS, KEYS, SCALES, INVERSE_SCALE, CAP_SCALES, FIRST_ROW, ROW_STEP, LAST_ROW, TURNS };
// State of a core: the next strip to finish, the number of the next block, the round among those of a head, its first
// row.
enum AttentionState { STRIP, BLOCK, TURN, ROW };

// Copies the rows from `first` on of an object with queries, [features / 8][keys][8], to row `to` of the core's own.
template <typename Tile>
inline void keep_queries(const bfloat16 *__restrict object, bfloat16 *__restrict queries, int32 first, int32 to) {
    constexpr unsigned copied = Tile::rows < Tile::keys ? Tile::rows : Tile::keys, half = Tile::strip / 2;
    for (unsigned row = 0; row < copied; row += half) {
        bfloat16 *strip = queries + (to + row) / Tile::strip * Tile::strip * Tile::features + (to + row) % Tile::strip * 8;
        for (unsigned block = 0; block < Tile::features / 8; ++block) {
            const bfloat16 *from = object + (block * Tile::keys + first + row) * 8;
            for (unsigned i = 0; i < half * 8; i += 32)
                aie::store_v(strip + block * Tile::strip * 8 + i, aie::load_v<32>(from + i));
        }
    }
}

template <typename Tile>
inline void start_rows(float *__restrict mixed, int32 *__restrict tops, float *__restrict totals,
                       int32 *__restrict state, const int32 *__restrict words) {
    clear_sums<typename Tile::Mixed>(mixed);
    for (unsigned i = 0; i < Tile::rows * Tile::T; i += 16) {
        aie::store_v(tops + i, aie::broadcast<int32, 16>(NO_TOP));
        aie::store_v(totals + i, aie::zeros<float, 16>());
    }
    state[BLOCK] = 0;
    if constexpr (Tile::splits) {
        state[ROW] = NO_DIAGONAL;
    } else {
        const int32 turn = state[TURN], row = words[FIRST_ROW] + turn * words[ROW_STEP];
        state[ROW] = row < words[LAST_ROW] ? row : words[LAST_ROW];
        state[TURN] = turn + 1 == words[TURNS] ? 0 : turn + 1;
    }
}

// Begins the scores with the addends of a mask, so that they are right after the scaling, or adds them to capped scores.
// An object of the stream has `keys` rows of features / 2 floats, of which the first `keys` belong to the block; its
// order is that of queries.
template <typename Tile>
inline void add_mask(const float *__restrict object, float *__restrict scores, const int32 *__restrict words,
                     int32 first, int32 to) {
    constexpr unsigned copied = Tile::rows < Tile::keys ? Tile::rows : Tile::keys;
    const float inverse = __builtin_bit_cast(float, words[INVERSE_SCALE]);
    for (unsigned row = 0; row < copied; row += Tile::group)
        for (unsigned column = 0; column < Tile::keys; column += Tile::T) {
            Float<Tile::lanes> addends;
            for (unsigned i = 0; i < Tile::group; ++i)
                for (unsigned j = 0; j < Tile::T; j += 4) {
                    const auto four =
                        aie::load_v<4>(object + ((column + j) / 4 * Tile::keys + first + row + i) * 4);
                    addends.template insert<4>(i * (Tile::T / 4) + j / 4, four);
                }
            Float<Tile::lanes> scaled = nt::mul(at_least(addends, MASKED), constant<Tile::lanes>(inverse));
            float *place = scores + Tile::place(Tile::keys, to + row, column);
            if constexpr (Tile::capped) scaled = aie::add(scaled, aie::load_v<Tile::lanes>(place));
            aie::store_v(place, at_least(scaled, MASKED));
        }
}

// The value of each row's lanes combined, in all of them.
template <unsigned T, typename V, typename Combine>
inline V across(V v, Combine combine) {
    NT_UNROLL
    for (unsigned step = T / 2; step > 0; step /= 2) {
        const auto halves = aie::interleave_unzip(v, v, step);
        v = combine(halves.first, halves.second);
    }
    NT_UNROLL
    for (unsigned step = 1; step < T; step *= 2) v = aie::interleave_zip(v, v, step).first;
    return v;
}

// The scale of scores to powers of two, as a sum of two numbers.
struct AttentionScale {
    bfloat16 high, low;
};
inline AttentionScale unpacked(int32 word) {
    return {bfloat16(__builtin_bit_cast(float, word & ~0xffff)), bfloat16(__builtin_bit_cast(float, word << 16))};
}

// 2^(score * scale) as mantissa * 2^exponent, with an integer in the low bits of `exponent`, and |rest| <= 1/2.
template <unsigned N>
struct Power {
    Sum<N> mantissa;
    Int<N> exponent;
    Bfloat<N> rest;
};
// The relative error is 2^-11 at most.
template <unsigned N>
inline Power<N> power_of_two(const Float<N> &score, const AttentionScale &scale) {
    const auto parts = split<2>(score);
    Sum<N> scaled = aie::mul(parts[1], scale.high);
    scaled = aie::mac(scaled, parts[0], scale.low);
    scaled = aie::mac(scaled, parts[0], scale.high);
    const Sum<N> shifted = aie::add(scaled, constant_sum<N>(ROUNDER));
    const Sum<N> rest = aie::sub(scaled, aie::sub(shifted, constant_sum<N>(ROUNDER)));
    const Int<N> exponent = bits(value(shifted));
    // 2^rest = 1 + rest (ln 2 + rest (c + rest d))
    const Bfloat<N> lead = rest.template to_vector<bfloat16>();
    const Bfloat<N> last = aie::msc(rest, lead, bfloat16(1.0f)).template to_vector<bfloat16>();
    const Bfloat<N> bend =
        aie::mac(constant_sum<N>(0.2422f), lead, bfloat16(0.054931640625f)).template to_vector<bfloat16>();
    const Bfloat<N> slope = aie::mac(constant_sum<N>(0.00189375f), lead, bend).template to_vector<bfloat16>();
    const Sum<N> power = aie::mac(constant_sum<N>(1.0f), last, bfloat16(0.69140625f));
    return {aie::mac(aie::mac(power, lead, slope), lead, bfloat16(0.69140625f)), exponent, lead};
}

// Soft cap: 1 / (1 + 2^(-|score| scale)) - 1/2 with the sign of the score, which is tanh(|score| scale ln(2) / 2) / 2.
// NaN for a score that is infinite or NaN.
inline void cap_scores(float *__restrict scores, unsigned count, const AttentionScale &scale) {
    constexpr unsigned N = 16;
    for (unsigned i = 0; i < count; i += N) {
        const Float<N> score = aie::load_v<N>(scores + i);
        const auto [mantissa, exponent, rest] =
            power_of_two(from_bits(aie::bit_or(SIGN_BIT, bits(score))), scale);
        // Far below, the rest can be large and the mantissa wrong.
        const Int<N> found = aie::add(bits(value(mantissa)), aie::upshift(exponent, 23));
        const Float<N> power = from_bits(aie::select(found, 0, aie::lt(exponent, ROUNDER_BITS - 64)));
        const auto sum = split<2>(aie::add(power, constant<N>(1.0f)));
        const Bfloat<N> inverse = reciprocal_estimate(sum[0], 1.0f);
        const Bfloat<N> miss =
            remainder(constant_sum<N>(1.0f), sum, Split<1, N>{{inverse}}).template to_vector<bfloat16>();
        const Sum<N> coarse = aie::mac(constant_sum<N>(-0.5f), inverse, bfloat16(1.0f));
        const Int<N> capped = aie::bit_or(bits(value(aie::mac(coarse, inverse, miss))), sign(score));
        const auto undefined = aie::ge(magnitude(score), INFINITY_BITS);
        aie::store_v(scores + i, from_bits(aie::select(capped, NAN_BITS, undefined)));
    }
}

// Keys that the rows of a group may attend to, counted from the first key of a vector: columns from `first` to `last`,
// and up to the diagonal.
struct Span {
    int32 first, last, diagonal;
};
template <unsigned T, unsigned N, bool diagonal>
inline Int<N> columns() {
    alignas(64) static constexpr auto numbers = [] {
        struct {
            int32 at[N];
        } result{};
        for (unsigned i = 0; i < N; ++i) result.at[i] = int32(i % T) - (diagonal ? int32(i / T) : 0);
        return result;
    }();
    return aie::load_v<N>(numbers.at);
}
template <unsigned T, unsigned N>
inline aie::mask<N> outside(const Span &span) {
    const Int<N> column = columns<T, N, false>();
    return aie::lt(column, span.first) | aie::gt(column, span.last) |
           aie::gt(columns<T, N, true>(), span.diagonal);
}

template <unsigned N>
struct Weights {
    Bfloat<N> weight;
    Sum<N> total;
    Int<N> largest;
};

// Weights 2^(score * scale - top), and running sums and maxima of exponents. A score that is infinite or NaN makes the
// sum NaN.
template <bool masked, unsigned T, unsigned N>
inline void weigh(const Float<N> &score, const AttentionScale &scale, const Int<N> &top, const Span &span,
                  Weights<N> &result) {
    auto [power, exponent, lead] = power_of_two(score, scale);
    if constexpr (masked) {
        const auto excluded = outside<T, N>(span);
        exponent = aie::select(exponent, 0, excluded);
        lead = aie::select(lead, bfloat16(0.0f), excluded);
    }
    result.largest = aie::max(result.largest, exponent);
    const Int<N> places = aie::sub(exponent, top);
    const Int<N> found = aie::add(bits(value(power)), aie::upshift(places, 23));
    const Float<N> weight = from_bits(aie::select(found, 0, aie::lt(places, -125)));
    result.weight = Sum<N>(weight).template to_vector<bfloat16>();
    result.total = aie::mac(aie::mac(result.total, result.weight, bfloat16(1.0f)), lead, bfloat16(0.0f));
}

// The weights of 4 rows, in blocks of 8 columns. Returns their sums and largest exponents; those of columns are apart.
template <typename Tile, bool masked>
inline Weights<Tile::lanes> weigh_rows(const float *__restrict scores, bfloat16 *__restrict weights, unsigned row,
                                       const AttentionScale &scale, const Int<Tile::lanes> &top, Span span,
                                       const Float<Tile::lanes> &total) {
    constexpr unsigned N = Tile::lanes, T = Tile::T;
    Weights<N> result;
    result.total = Sum<N>(total);
    result.largest = aie::broadcast<int32, N>(NO_TOP);
    for (unsigned column = 0; column < Tile::keys; column += 8) {
        bfloat16 *to = weights + row / Tile::strip * Tile::strip * Tile::keys + column * Tile::strip +
                       row % Tile::strip * 8;
        const auto next = [&](unsigned part) {
            weigh<masked, T>(aie::load_v<N>(scores + Tile::place(Tile::keys, row, column + part)), scale, top, span,
                             result);
            span.first -= T, span.last -= T, span.diagonal -= T;
            return result.weight;
        };
        const auto left = next(0);
        if constexpr (T == 8) {
            aie::store_v(to, left);
        } else {
            const auto [low, high] = aie::interleave_zip(left, next(T), T);
            aie::store_v(to, aie::concat(low, high));
        }
    }
    return result;
}

// 2^(top - raised), or 0 where that is too small.
template <unsigned N>
inline Bfloat<N> ratio(const Int<N> &top, const Int<N> &raised) {
    const Int<N> power = aie::add(aie::max(aie::sub(top, raised), -127), 127);
    return Sum<N>(from_bits(aie::upshift(power, 23))).template to_vector<bfloat16>();
}
template <unsigned N>
inline Sum<N> scaled(const Float<N> &x, const Bfloat<N> &factor) {
    const auto parts = split<3>(x);
    return aie::mac(aie::mac(aie::mul(parts[2], factor), parts[1], factor), parts[0], factor);
}

// Raises the tops of the rows that have a much larger score, and scales what was summed with the old ones.
template <typename Tile>
inline __attribute__((noinline)) void raise_tops(const Int<Tile::lanes> &largest, int32 *__restrict tops,
                                                 float *__restrict totals, float *__restrict mixed, unsigned row) {
    constexpr unsigned N = Tile::lanes, T = Tile::T;
    const auto better = across<T>(largest, [](const auto &a, const auto &b) { return aie::max(a, b); });
    const Int<N> top = aie::load_v<N>(tops + row * T);
    const Int<N> raised = aie::select(top, better, aie::gt(better, aie::add(top, BOUND)));
    const Bfloat<N> factor = ratio(top, raised);
    aie::store_v(tops + row * T, raised);
    aie::store_v(totals + row * T, value(scaled(aie::load_v<N>(totals + row * T), factor)));
    for (unsigned column = 0; column < Tile::features; column += T) {
        float *sums = mixed + Tile::place(Tile::features, row, column);
        aie::store_v(sums, value(scaled(aie::load_v<N>(sums), factor)));
    }
}

// Adds the sums of a core with other keys, which may have other tops: `others` are its mixed rows, totals and tops.
template <typename Tile>
inline void merge(const float *__restrict others, float *__restrict mixed, int32 *__restrict tops,
                  float *__restrict totals) {
    constexpr unsigned N = Tile::lanes, T = Tile::T;
    const float *other_totals = others + Tile::rows * Tile::features, *other_tops = other_totals + Tile::rows * T;
    for (unsigned row = 0; row < Tile::rows; row += Tile::group) {
        const Int<N> top = aie::load_v<N>(tops + row * T), other = bits(aie::load_v<N>(other_tops + row * T));
        const Int<N> raised = aie::max(top, other);
        const Bfloat<N> factor = ratio(top, raised), other_factor = ratio(other, raised);
        const auto sum = [&](const float *from, float *to) {
            aie::store_v(to, value(aie::add(scaled(aie::load_v<N>(to), factor),
                                            scaled(aie::load_v<N>(from), other_factor))));
        };
        aie::store_v(tops + row * T, raised);
        sum(other_totals + row * T, totals + row * T);
        for (unsigned column = 0; column < Tile::features; column += T)
            sum(others + Tile::place(Tile::features, row, column), mixed + Tile::place(Tile::features, row, column));
    }
}

// Writes the object that `merge` reads.
template <typename Tile>
inline void leave_sums(const float *__restrict mixed, const int32 *__restrict tops, const float *__restrict totals,
                       float *__restrict object) {
    constexpr unsigned lanes = Tile::rows * Tile::T;
    const auto copy = [&](const float *from, unsigned count) {
        for (unsigned i = 0; i < count; i += 16, object += 16) aie::store_v(object, aie::load_v<16>(from + i));
    };
    copy(mixed, Tile::rows * Tile::features);
    copy(totals, lanes);
    for (unsigned i = 0; i < lanes; i += 16) aie::store_v(object + i, from_bits(aie::load_v<16>(tops + i)));
}

// True if no row attends to the block of the last call of `score`.
template <typename Tile>
inline bool skipped(const int32 *state) {
    return (state[BLOCK] - 1) * static_cast<int32>(Tile::keys) >= state[ROW] + static_cast<int32>(Tile::rows);
}

// Adds the products of all rows with the next block of keys to their scores, which have begun, and caps them.
template <typename Tile>
inline void score(const bfloat16 *__restrict queries, const bfloat16 *__restrict keys, float *__restrict scores,
                  int32 *__restrict state, const int32 *__restrict words) {
    ++state[BLOCK];
    if (skipped<Tile>(state)) return;
    int32 cursor = 0;
    for (unsigned row = 0; row < Tile::rows; row += Tile::strip)
        multiply<typename Tile::Scores>(queries + row * Tile::features, keys, scores, &cursor);
    if constexpr (Tile::capped) cap_scores(scores, Tile::rows * Tile::keys, unpacked(words[CAP_SCALES]));
}

// The weights of all rows for the block of keys. core: the number of the core in its column.
template <typename Tile>
inline void weigh_block(float *__restrict scores, bfloat16 *__restrict weights, int32 *__restrict tops,
                        float *__restrict totals, float *__restrict mixed, const int32 *__restrict state,
                        const int32 *__restrict words, int32 core) {
    constexpr unsigned N = Tile::lanes, T = Tile::T;
    constexpr int32 width = Tile::keys, step = Tile::round_keys;
    if (skipped<Tile>(state)) return;
    // The last blocks begin earlier if there are not enough keys, and repeat some.
    const int32 begin = (state[BLOCK] - 1) * step, end = words[KEYS], own = Tile::splits ? core * width : 0;
    const AttentionScale scale = unpacked(words[SCALES]);
    const int32 start = (begin + step <= end ? begin : end < step ? 0 : end - step) + own;
    // The code for blocks that all rows attend to entirely does not fit the program memory beside a soft cap.
    const bool whole = !Tile::capped && begin <= start && start + width <= end && start + width <= state[ROW] + 1;
    for (unsigned row = 0; row < Tile::rows; row += Tile::group) {
        const Span span{begin - start, end - 1 - start, state[ROW] + static_cast<int32>(row) - start};
        const auto weighed = [&] {
            const Int<N> top = aie::load_v<N>(tops + row * T);
            const Float<N> total = aie::load_v<N>(totals + row * T);
            return whole ? weigh_rows<Tile, false>(scores, weights, row, scale, top, span, total)
                         : weigh_rows<Tile, true>(scores, weights, row, scale, top, span, total);
        };
        auto found = weighed();
        const auto high = aie::gt(found.largest, aie::add(aie::load_v<N>(tops + row * T), BOUND));
        if (!high.empty()) {
            raise_tops<Tile>(found.largest, tops, totals, mixed, row);
            found = weighed();
        }
        aie::store_v(totals + row * T, value(found.total));
    }
}

// Adds the products of weights and values.
template <typename Tile>
inline void mix(const bfloat16 *__restrict weights, const bfloat16 *__restrict values, float *__restrict mixed,
                const int32 *__restrict state) {
    if (skipped<Tile>(state)) return;
    int32 cursor = 0;
    for (unsigned row = 0; row < Tile::rows; row += Tile::strip)
        multiply<typename Tile::Mixed>(weights + row * Tile::keys, values, mixed, &cursor);
}

// Divides a strip by the sums of its weights; 0 without any.
template <typename Tile, typename Stored>
inline void finish_rows(const float *__restrict mixed, const float *__restrict totals, Stored *__restrict result,
                        int32 *__restrict state) {
    constexpr unsigned N = Tile::lanes, T = Tile::T;
    const unsigned first = advance(state + STRIP, Tile::strip, Tile::rows);
    for (unsigned row = first; row < first + Tile::strip; row += Tile::group) {
        const Float<N> total = across<T>(aie::load_v<N>(totals + row * T),
                                         [](const auto &a, const auto &b) { return aie::add(a, b); });
        const Float<N> inverse =
            from_bits(aie::select(bits(nt::reciprocal<half>(total)), 0, aie::eq(bits(total), 0)));
        for (unsigned column = 0; column < Tile::features; column += T) {
            const unsigned place = Tile::place(Tile::features, row, column);
            nt::store(result + place - first * Tile::features,
                      nt::mul<half>(aie::load_v<N>(mixed + place), inverse));
        }
    }
}

}  // namespace nt
