// Loads and stores with conversion between the type in memory and the type in registers.
//
// bfloat16 in memory is float in registers; stores round in the core's rounding mode. bool is uint8, 0 or 1, in memory
// and a mask in registers. All other types are the same in both.
#pragma once

#include "arithmetic.hpp"

namespace nt {

template <typename Register, typename Stored, unsigned N>
inline auto loaded(const aie::vector<Stored, N> &v) {
    if constexpr (std::is_same_v<Register, Stored>) {
        return v;
    } else if constexpr (std::is_same_v<Stored, bfloat16>) {
        return cast<Register>(value(Sum<N>(v)));
    } else {
        return cast<Register>(v);
    }
}

template <typename Stored, typename V>
inline auto stored(const V &v) {
    if constexpr (std::is_same_v<Stored, bfloat16>) {
        return aie::accum<accfloat, V::size()>(cast<float>(v)).template to_vector<bfloat16>();
    } else {
        return cast<Stored>(v);
    }
}

template <typename Stored, unsigned N>
inline auto stored(const Bfloat<N> &v) {
    if constexpr (std::is_same_v<Stored, bfloat16>) {
        return v;
    } else {
        return stored<Stored>(widened(v));
    }
}

template <typename Register, unsigned N, typename Stored>
inline auto load(const Stored *p) {
    return loaded<Register>(aie::load_v<N>(p));
}
template <typename Register, unsigned N, typename Stored>
inline auto load_unaligned(const Stored *p) {
    return loaded<Register>(aie::load_unaligned_v<N>(p));
}
template <typename Stored, typename V>
inline void store(Stored *p, const V &v) {
    aie::store_v(p, stored<Stored>(v));
}
template <typename Stored, typename V>
inline void store_unaligned(Stored *p, const V &v) {
    aie::store_unaligned_v(p, stored<Stored>(v));
}

// Load the first `count` elements; the other lanes are `fill`. Memory after the elements is not accessed, because it
// may belong to a transfer in progress.
template <typename Register, unsigned N, typename Stored>
inline auto load_partial(const Stored *p, unsigned count, std::type_identity_t<Stored> fill) {
    auto v = aie::broadcast<Stored, N>(fill);
    for (unsigned i = 0; i < count; ++i) v.set(p[i], i);
    return loaded<Register>(v);
}
template <typename Stored, typename V>
inline void store_partial(Stored *p, const V &v, unsigned count) {
    const auto converted = stored<Stored>(v);
    for (unsigned i = 0; i < count; ++i) p[i] = converted.get(i);
}

}  // namespace nt
