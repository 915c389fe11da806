// Windows that slide over an image whose channels are neighbours in memory: pools and depthwise convolutions.
//
// A core computes tiles: some rows of `width` results with `channels` channels. The rows of the image that a tile needs
// arrive one by one, `pixels` pixels each. The core keeps the last `window.rows` of them in a ring, with the padding in
// place. Rows outside of the image arrive too, with arbitrary contents.
#pragma once

#include "vector_math.hpp"

namespace nt {

enum class Combine { MAXIMUM, SUM, PRODUCT };

// Words of a core and of its state, see kernels/windows/design.py.
constexpr unsigned TILES = 0, MORE_ROWS = 1, FIRST_TILE = 2, IMAGE_ROWS = 3, IMAGE_COLUMNS = 4, RESULT_ROWS = 5,
                   RESULT_COLUMNS = 6;
constexpr unsigned NUMBER = 0, ROWS = 1, TOP = 2, LEFT = 3, OLDEST = 4;

// Rows and columns of a window, steps between windows, padding above and to the left, and padding on all sides that
// counts in a mean.
struct Window {
    int rows, columns, down, across, top, left, above, below, before, after;
};

template <Combine combine_, typename T_, Window window_, unsigned width_, unsigned channels_>
struct WindowTile {
    using T = T_;
    static constexpr Combine combine = combine_;
    static constexpr Window window = window_;
    static constexpr unsigned width = width_, channels = channels_, lanes = 64 / sizeof(T);
    static constexpr unsigned pixels = (width - 1) * window.across + window.columns, row = pixels * channels;
    static constexpr bool is_maximum = combine == Combine::MAXIMUM;
    using Rank = std::conditional_t<sizeof(T) == 2, int16, int32>;
    using Kept = std::conditional_t<is_maximum, Rank, T>;
    using Total = std::conditional_t<is_maximum, Rank, float>;
};

// Integers in the order of the numbers with the same bits; a NaN is above all of them. See `rank`.
template <typename I>
constexpr I LEAST_RANK = std::numeric_limits<I>::min();
template <typename I>
constexpr I RANK_STEP = sizeof(I) == 2 ? 0x0080 : RANK_SHIFT;
template <typename I, unsigned N>
inline aie::vector<I, N> reordered(const aie::vector<I, N> &v) {
    return aie::select(v, aie::sub(LEAST_RANK<I>, v), aie::lt(v, I(0)));
}
template <typename Tile, unsigned N>
inline auto kept(const aie::vector<typename Tile::T, N> &v) {
    using I = typename Tile::Rank;
    if constexpr (Tile::is_maximum) return aie::sub(reordered(v.template cast_to<I>()), RANK_STEP<I>);
    else return v;
}

inline int32 within(int32 x, int32 least, int32 most) { return x < least ? least : x < most ? x : most; }

// Begin the next tile of the core. The last tiles of a column or row begin earlier if there are not enough results.
template <typename Tile>
inline void begin_tile(int32 *__restrict state, const int32 *__restrict words) {
    constexpr int32 width = Tile::width;
    const int32 number = words[FIRST_TILE] + state[NUMBER], band = words[MORE_ROWS] + 1;
    const int32 bands = (words[RESULT_ROWS] + band - 1) / band, parts = (words[RESULT_COLUMNS] + width - 1) / width;
    const int32 row = within(number % bands * band, 0, words[RESULT_ROWS] - band);
    const int32 column = within(number / bands % parts * width, 0, words[RESULT_COLUMNS] - width);
    state[NUMBER] = state[NUMBER] + 1 == words[TILES] ? 0 : state[NUMBER] + 1;
    state[ROWS] = words[MORE_ROWS] * Tile::window.down + Tile::window.rows;
    state[TOP] = row * Tile::window.down - Tile::window.top;
    state[LEFT] = column * Tile::window.across - Tile::window.left;
    state[OLDEST] = 0;
}

// Put a row of the image into the ring; the first one begins a tile.
template <typename Tile>
inline void keep_row(const typename Tile::T *__restrict object, typename Tile::Kept *__restrict ring,
                     int32 *__restrict state, const int32 *__restrict words) {
    using Kept = typename Tile::Kept;
    constexpr int32 pixels = Tile::pixels, channels = Tile::channels, lanes = Tile::lanes;
    if (state[ROWS] == 0) begin_tile<Tile>(state, words);
    --state[ROWS];
    const int32 row = state[TOP]++, left = state[LEFT], columns = words[IMAGE_COLUMNS], oldest = state[OLDEST];
    const bool inside = 0 <= row && row < words[IMAGE_ROWS];
    const int32 begin = inside ? within(-left, 0, pixels) : pixels;
    const int32 end = inside ? within(columns - left, begin, pixels) : pixels;
    // Objects of the first and last tiles of a row begin inside the image.
    const typename Tile::T *from = object + (left - within(left, 0, columns > pixels ? columns - pixels : 0)) * channels;
    constexpr Kept nothing = Tile::is_maximum ? LEAST_RANK<Kept> : Kept(0);
    ring += oldest;
    state[OLDEST] = oldest + Tile::row < Tile::row * Tile::window.rows ? oldest + Tile::row : 0;
    const auto copy = [&](int32 i) { aie::store_v(ring + i, kept<Tile>(aie::load_v<lanes>(from + i))); };
    const auto clear = [&](int32 i) { aie::store_v(ring + i, aie::broadcast<Kept, lanes>(nothing)); };
    if (end - begin == pixels) {  // The compiler knows the number of rounds.
        for (int32 i = 0; i < pixels * channels; i += lanes) copy(i);
        return;
    }
    for (int32 i = 0; i < begin * channels; i += lanes) clear(i);
    for (int32 i = begin * channels; i < end * channels; i += lanes) copy(i);
    for (int32 i = end * channels; i < pixels * channels; i += lanes) clear(i);
}

// Combine a total with one more element of the window.
template <typename Tile, typename Total, unsigned N>
inline Total combined(const Total &total, const aie::vector<typename Tile::Kept, N> &x,
                      const aie::vector<typename Tile::Kept, N> &weight) {
    constexpr bool is_brief = std::is_same_v<typename Tile::Kept, bfloat16>;
    if constexpr (Tile::is_maximum) return aie::max(total, x);
    else if constexpr (Tile::combine == Combine::SUM && is_brief)
        return nt::value(aie::mac(Sum<N>(total), x, bfloat16(1.0f)));
    else if constexpr (Tile::combine == Combine::SUM) return aie::add(total, x);
    else if constexpr (is_brief) return nt::value(aie::mac(Sum<N>(total), x, weight));
    else return nt::add(total, nt::mul(x, weight));
}

template <typename Tile>
inline void clear_totals(typename Tile::Total *__restrict totals) {
    using Total = typename Tile::Total;
    constexpr Total nothing = Tile::is_maximum ? LEAST_RANK<typename Tile::Rank> : 0;
    for (unsigned i = 0; i < Tile::width * Tile::channels; i += Tile::lanes)
        aie::store_v(totals + i, aie::broadcast<Total, Tile::lanes>(nothing));
}

// Combine the rows of the ring with the totals of a row of results. Weights are in the order of the window's elements,
// each with all channels.
template <typename Tile>
inline void combine_rows(const typename Tile::Kept *__restrict ring, const typename Tile::T *__restrict weights,
                         typename Tile::Total *__restrict totals, const int32 *__restrict state) {
    constexpr unsigned lanes = Tile::lanes, channels = Tile::channels, columns = Tile::window.columns;
    unsigned place = state[OLDEST];
    for (int row = 0; row < Tile::window.rows; ++row, weights += columns * channels) {
        for (unsigned channel = 0; channel < channels; channel += lanes) {
            const auto *from = ring + place + channel;
            auto *to = totals + channel;
            aie::vector<typename Tile::Kept, lanes> factors[columns];
            if constexpr (Tile::combine == Combine::PRODUCT) {
                NT_UNROLL
                for (unsigned i = 0; i < columns; ++i)
                    factors[i] = aie::load_v<lanes>(weights + i * channels + channel);
            }
            for (unsigned x = 0; x < Tile::width; ++x, from += Tile::window.across * channels, to += channels) {
                auto total = aie::load_v<lanes>(to);
                NT_UNROLL
                for (unsigned i = 0; i < columns; ++i)
                    total = combined<Tile>(total, aie::load_v<lanes>(from + i * channels), factors[i]);
                aie::store_v(to, total);
            }
        }
        place = place + Tile::row < Tile::row * Tile::window.rows ? place + Tile::row : 0;
    }
}

// Store the numbers of the largest ranks.
template <typename Tile>
inline void store_maxima(const typename Tile::Total *__restrict totals, typename Tile::T *__restrict result) {
    using I = typename Tile::Rank;
    for (unsigned i = 0; i < Tile::width * Tile::channels; i += Tile::lanes) {
        const auto ranks = aie::add(aie::load_v<Tile::lanes>(totals + i), RANK_STEP<I>);
        aie::store_v(result + i, reordered(ranks).template cast_to<typename Tile::T>());
    }
}

// Store the totals, divided by the number of elements that count.
template <typename Tile, typename P, typename Stored>
inline void store_means(const float *__restrict totals, Stored *__restrict result, const int32 *__restrict state,
                        const int32 *__restrict words) {
    static constexpr auto inverses = [] {
        struct {
            float of[50];
        } result{};
        for (int i = 1; i < 50; ++i) result.of[i] = 1.0f / static_cast<float>(i);
        return result;
    }();
    constexpr Window window = Tile::window;
    const auto counted = [](int32 first, int32 size, int32 least, int32 most) {
        return (first + size < most ? first + size : most) - (first < least ? least : first);
    };
    const int32 rows =
        counted(state[TOP] - window.rows, window.rows, -window.above, words[IMAGE_ROWS] + window.below);
    int32 left = state[LEFT];
    for (unsigned x = 0; x < Tile::width; ++x, left += window.across) {
        const int32 columns = counted(left, window.columns, -window.before, words[IMAGE_COLUMNS] + window.after);
        const auto inverse = constant<16>(inverses.of[rows * columns]);
        for (unsigned i = 0; i < Tile::channels; i += 16, totals += 16, result += 16)
            nt::store(result, nt::mul<P>(aie::load_v<16>(totals), inverse));
    }
}

}  // namespace nt
