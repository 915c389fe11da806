// Scalar types, the state of a core, and rounding, as the array's aie_api has them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "../nt_host.hpp"

#ifndef __AIE_ARCH__
#error "compile with -D__AIE_ARCH__=20 for aie2 or 21 for aie2p"
#endif

#include "units.hpp"

using int8 = std::int8_t;
using uint8 = std::uint8_t;
using int16 = std::int16_t;
using uint16 = std::uint16_t;
using int32 = std::int32_t;
using uint32 = std::uint32_t;

struct accfloat {};
struct acc32 {};
struct acc64 {};
struct accauto {};

// The upper half of a float32. The conversion of a number rounds to nearest even, as the compiler's does.
struct bfloat16 {
    uint16 bits;

    bfloat16() = default;
    constexpr bfloat16(float value) : bits(rounded(std::bit_cast<uint32>(value))) {}
    constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32>(bits) << 16); }

    static constexpr bfloat16 from_bits(uint16 bits) {
        bfloat16 result;
        result.bits = bits;
        return result;
    }

  private:
    static constexpr uint16 rounded(uint32 bits) {
        if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16>(bits >> 16 | 0x40);
        return static_cast<uint16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
};

namespace aie {

enum class rounding_mode : unsigned {
    floor,
    ceil,
    positive_inf,
    negative_inf,
    symmetric_inf,
    symmetric_zero,
    conv_even,
    conv_odd,
    symmetric_floor,
    symmetric_ceil,
};

enum class saturation_mode : unsigned { none = 0, saturate = 1, symmetric = 3 };

}  // namespace aie

namespace nt_host {

// Control registers of a core. On the array they keep their values from one kernel function to the next; the simulator
// resets them before every call, so that a function that relies on another one fails.
struct CoreState {
    aie::rounding_mode rounding = aie::rounding_mode::floor;
    aie::saturation_mode saturation = aie::saturation_mode::none;
};

inline thread_local CoreState core_state;

}  // namespace nt_host

namespace aie {

inline void set_rounding(rounding_mode mode) { nt_host::core_state.rounding = mode; }
inline rounding_mode get_rounding() { return nt_host::core_state.rounding; }
inline void set_saturation(saturation_mode mode) { nt_host::core_state.saturation = mode; }
inline saturation_mode get_saturation() { return nt_host::core_state.saturation; }

namespace detail {

template <typename T>
inline constexpr bool is_float_v = std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

template <auto value>
using constant = std::integral_constant<decltype(value), value>;

// Call `body` with the rounding mode as a compile-time constant, so that loops in it vectorise.
template <typename Body>
inline void with_rounding(Body &&body) {
    switch (get_rounding()) {
        case rounding_mode::floor: return body(constant<rounding_mode::floor>{});
        case rounding_mode::ceil: return body(constant<rounding_mode::ceil>{});
        case rounding_mode::positive_inf: return body(constant<rounding_mode::positive_inf>{});
        case rounding_mode::negative_inf: return body(constant<rounding_mode::negative_inf>{});
        case rounding_mode::symmetric_inf: return body(constant<rounding_mode::symmetric_inf>{});
        case rounding_mode::symmetric_zero: return body(constant<rounding_mode::symmetric_zero>{});
        case rounding_mode::conv_even: return body(constant<rounding_mode::conv_even>{});
        case rounding_mode::conv_odd: return body(constant<rounding_mode::conv_odd>{});
        case rounding_mode::symmetric_floor: return body(constant<rounding_mode::symmetric_floor>{});
        case rounding_mode::symmetric_ceil: return body(constant<rounding_mode::symmetric_ceil>{});
    }
}

// True if a number between two integers rounds up. `odd` describes the lower one; `rest`, `half` and `above_half`
// compare the distance from it with 0 and a half.
template <rounding_mode mode>
constexpr bool steps_up(bool odd, bool negative, bool rest, bool above_half, bool half) {
    using enum rounding_mode;
    if constexpr (mode == floor) {
        return false;
    } else if constexpr (mode == ceil) {
        return rest;
    } else if constexpr (mode == symmetric_floor) {
        return rest && negative;
    } else if constexpr (mode == symmetric_ceil) {
        return rest && !negative;
    } else {
        const bool tie_steps_up = mode == positive_inf || (mode == symmetric_inf && !negative) ||
                                  (mode == symmetric_zero && negative) || (mode == conv_even && odd) ||
                                  (mode == conv_odd && !odd);
        return above_half || (half && tie_steps_up);
    }
}

// value / 2^shift, rounded; a negative shift multiplies.
template <rounding_mode mode>
constexpr std::int64_t shifted(std::int64_t value, int shift) {
    if (shift <= 0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << -shift);
    const std::int64_t below = value >> shift;
    const std::int64_t rest = value - static_cast<std::int64_t>(static_cast<std::uint64_t>(below) << shift);
    const std::int64_t half = std::int64_t{1} << (shift - 1);
    return below + steps_up<mode>(below & 1, value < 0, rest != 0, rest > half, rest == half);
}

// Bits of a float32 to bits of a bfloat16. An addition to the bits changes the magnitude, whatever the sign.
template <rounding_mode mode>
constexpr uint16 rounded_bfloat16(uint32 bits) {
    const uint32 odd = bits >> 16 & 1, negative = bits >> 31;
    using enum rounding_mode;
    uint32 bias = 0;
    if constexpr (mode == floor) bias = negative * 0xffff;
    if constexpr (mode == ceil) bias = (1 - negative) * 0xffff;
    if constexpr (mode == positive_inf) bias = 0x8000 - negative;
    if constexpr (mode == negative_inf) bias = 0x7fff + negative;
    if constexpr (mode == symmetric_inf) bias = 0x8000;
    if constexpr (mode == symmetric_zero) bias = 0x7fff;
    if constexpr (mode == conv_even) bias = 0x7fff + odd;
    if constexpr (mode == conv_odd) bias = 0x8000 - odd;
    if constexpr (mode == symmetric_ceil) bias = 0xffff;
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16>(nan ? (bits >> 16 | 0x40) : (bits + bias) >> 16);
}

// Narrowing of an integer result as the saturation mode says.
template <typename To>
constexpr To narrowed(std::int64_t value, saturation_mode mode) {
    if (mode != saturation_mode::none) {
        constexpr std::int64_t most = std::numeric_limits<To>::max();
        std::int64_t least = std::numeric_limits<To>::min();
        if (mode == saturation_mode::symmetric && least < 0) least = -most;
        value = value < least ? least : value > most ? most : value;
    }
    return static_cast<To>(value);
}

}  // namespace detail
}  // namespace aie
