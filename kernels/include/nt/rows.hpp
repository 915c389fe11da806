// Loops over the vectors of a row, and reductions: a class for each row_* primitive of the expression language. An
// object of a class is the state of a reduction, with a partial result in every lane. The states of a row's parts are
// merged.
#pragma once

#include <aie_api/aie.hpp>

#include <limits>
#include <type_traits>
#include <utility>

#include "vector_math.hpp"

namespace nt {

// Lanes of a vector that belong to the row.
struct all_lanes {};
struct first_lanes {
    int32 count;
};

// 0, 1, 2, ... in an integer type of as many lanes as a 512-bit register has.
template <unsigned N>
using lane_integer = std::conditional_t<N == 16, int32, std::conditional_t<N == 32, int16, int8>>;

template <unsigned N>
inline aie::vector<lane_integer<N>, N> lane_numbers() {
    alignas(64) static constexpr auto numbers = [] {
        struct {
            lane_integer<N> at[N];
        } result{};
        for (unsigned i = 0; i < N; ++i) result.at[i] = i;
        return result;
    }();
    return aie::load_v<N>(numbers.at);
}

// Positions in the row of the lanes of a vector that begins at `start`.
template <unsigned N>
inline aie::vector<int32, N> positions(int32 start) {
    static_assert(N == 16, "positions are int32");
    return nt::add(lane_numbers<N>(), nt::broadcast<int32, N>(start));
}

// Call body(start, lanes, part) for the vectors of `count` elements, of which the first `length` belong to the row.
//
// Whole: all elements of all rows belong to it. Otherwise every vector gets its number of lanes in the row, which takes
// less machine code than a second body for the last vector. Parts: partial results between which a reduction
// alternates, so that no sum waits for the previous one. Rounds: promised number of rounds of `Parts` vectors: 0, 4 or
// 16.
template <unsigned N, bool Whole, unsigned Parts, unsigned Rounds, class Body>
inline void for_row(int32 count, int32 length, Body body) {
    const auto vector = [&](int32 start, auto part) {
        if constexpr (Whole)
            body(start, all_lanes{}, part);
        else
            body(start, first_lanes{length - start}, part);
    };
    const auto vectors = [&]<unsigned... part>(int32 start, std::integer_sequence<unsigned, part...>) {
        (vector(start + static_cast<int32>(part * N), std::integral_constant<unsigned, part>{}), ...);
    };
    constexpr std::integral_constant<unsigned, 0> first;
    const int32 end = count - static_cast<int32>((Parts - 1) * N);
    int32 start = 0;
    if constexpr (Rounds == 16) {
        NT_AT_LEAST_16
        for (; start < end; start += Parts * N) vectors(start, std::make_integer_sequence<unsigned, Parts>{});
    } else if constexpr (Rounds == 4) {
        NT_AT_LEAST_4
        for (; start < end; start += Parts * N) vectors(start, std::make_integer_sequence<unsigned, Parts>{});
    }
    if constexpr (Rounds == 0 || Parts > 1)
        for (; start < count; start += N) vector(start, first);
}

// `v` with `outside` in the lanes that do not belong to the row.
template <class T, unsigned N>
inline aie::vector<T, N> inside(const aie::vector<T, N> &v, T, all_lanes) {
    return v;
}
template <class T, unsigned N>
inline aie::vector<T, N> inside(const aie::vector<T, N> &v, T outside, first_lanes lanes) {
    using Integer = lane_integer<N>;
    const int32 most = lanes.count < static_cast<int32>(N) ? lanes.count : N;
    const Integer count = most < 0 ? 0 : most;
    return nt::select(nt::lt(lane_numbers<N>(), nt::broadcast<Integer, N>(count)), v, nt::broadcast<T, N>(outside));
}

// The number that loses every comparison for the maximum (or minimum).
template <class T, bool Maximum>
inline constexpr T worst() {
    using limits = std::numeric_limits<T>;
    if constexpr (limits::has_infinity)
        return Maximum ? -limits::infinity() : limits::infinity();
    else
        return Maximum ? limits::lowest() : limits::max();
}

template <class T, unsigned N>
struct row_sum {
    using vector = aie::vector<T, N>;
    vector total = nt::broadcast<T, N>(T(0));

    template <class Lanes>
    void add(const vector &v, int32, Lanes lanes) {
        total = nt::add(total, inside(v, T(0), lanes));
    }
    void merge(const row_sum &part) { total = nt::add(total, part.total); }
    vector value() const { return nt::sum_lanes(total); }
};

template <class T, unsigned N>
struct row_prod {
    using vector = aie::vector<T, N>;
    vector total = nt::broadcast<T, N>(T(1));

    template <class Lanes>
    void add(const vector &v, int32, Lanes lanes) {
        total = nt::mul(total, inside(v, T(1), lanes));
    }
    void merge(const row_prod &part) { total = nt::mul(total, part.total); }
    vector value() const {
        return nt::combine_lanes(total, [](const auto &a, const auto &b) { return nt::mul(a, b); });
    }
};

// Floats are compared by their ranks; NaN is better than any number.
template <class T, unsigned N, bool Maximum>
struct row_extreme {
    static constexpr bool ranks = std::is_same_v<T, float>;
    using vector = aie::vector<T, N>;
    using kept_vector = aie::vector<std::conditional_t<ranks, int32, T>, N>;
    kept_vector best = kept(nt::broadcast<T, N>(worst<T, Maximum>()));

    static kept_vector kept(const vector &v) {
        if constexpr (ranks)
            return nt::rank<Maximum>(v);
        else
            return v;
    }
    static kept_vector better(const kept_vector &a, const kept_vector &b) {
        if constexpr (ranks || Maximum)
            return nt::maximum(a, b);
        else
            return nt::minimum(a, b);
    }
    template <class Lanes>
    void add(const vector &v, int32, Lanes lanes) {
        best = better(best, kept(inside(v, worst<T, Maximum>(), lanes)));
    }
    void merge(const row_extreme &part) { best = better(best, part.best); }
    vector value() const {
        if constexpr (ranks)
            return nt::unranked<Maximum>(nt::max_lanes(best));
        else if constexpr (Maximum)
            return nt::max_lanes(best);
        else
            return nt::min_lanes(best);
    }
};
template <class T, unsigned N>
using row_max = row_extreme<T, N, true>;
template <class T, unsigned N>
using row_min = row_extreme<T, N, false>;

// The first NaN is better than any number. A better element is kept as a larger one.
template <class T, unsigned N, bool Maximum>
struct row_place {
    static constexpr bool ranks = std::is_same_v<T, float>;
    static constexpr int32 nowhere = std::numeric_limits<int32>::max();
    using vector = aie::vector<T, N>;
    using kept_vector = aie::vector<std::conditional_t<ranks, int32, T>, N>;
    using index_vector = aie::vector<int32, N>;
    kept_vector best = kept(nt::broadcast<T, N>(worst<T, Maximum>()));
    index_vector place = nt::broadcast<int32, N>(nowhere);

    static kept_vector kept(const vector &v) {
        if constexpr (ranks)
            return nt::minimum(nt::rank<Maximum>(v), nt::broadcast<int32, N>(NAN_RANK));  // all NaNs are alike
        else if constexpr (Maximum)
            return v;
        else
            return nt::bit_not(v);
    }
    void take(const aie::mask<N> &where, const kept_vector &found, const index_vector &places) {
        best = nt::select(where, found, best);
        place = nt::select(where, places, place);
    }
    template <class Lanes>
    void add(const vector &v, int32 start, Lanes lanes) {
        const kept_vector found = kept(inside(v, worst<T, Maximum>(), lanes));
        take(nt::gt(found, best), found, positions<N>(start));
    }
    void merge(const row_place &part) {
        const auto earlier = nt::bit_and(nt::eq(part.best, best), nt::lt(part.place, place));
        take(nt::bit_or(nt::gt(part.best, best), earlier), part.best, part.place);
    }
    // No place is found if all elements lose every comparison; then the first place is returned.
    index_vector value() const {
        const auto wins = nt::eq(best, nt::max_lanes(best));
        const index_vector first = nt::min_lanes(nt::select(wins, place, nt::broadcast<int32, N>(nowhere)));
        return nt::select(nt::eq(first, nt::broadcast<int32, N>(nowhere)), nt::broadcast<int32, N>(0), first);
    }
};
template <class T, unsigned N>
using row_argmax = row_place<T, N, true>;
template <class T, unsigned N>
using row_argmin = row_place<T, N, false>;

// The same functions for values that are computed once per row. Large ones are called, not inlined.
namespace once {
using namespace nt;
#define NT_UNARY(name)                     \
    template <class P, class V>            \
    [[gnu::noinline]] V name(const V &x) { \
        return nt::name<P>(x);             \
    }
#define NT_BINARY(name)                                \
    template <class P, class V>                        \
    [[gnu::noinline]] V name(const V &a, const V &b) { \
        return nt::name<P>(a, b);                      \
    }
NT_UNARY(sqrt)
NT_UNARY(exp)
NT_UNARY(expm1)
NT_UNARY(log)
NT_UNARY(log1p)
NT_UNARY(log2)
NT_UNARY(log10)
NT_UNARY(sin)
NT_UNARY(cos)
NT_UNARY(tanh)
NT_UNARY(atan)
NT_UNARY(erf)
NT_BINARY(div)
NT_BINARY(pow)
#undef NT_UNARY
#undef NT_BINARY
}  // namespace once

}  // namespace nt
