// Registers: vectors of 128 to 1024 bits, 2048 on aie2p, and masks of one bit per lane.
#pragma once

#include <cstring>

#include "types.hpp"

namespace aie {

template <unsigned N>
class mask : public nt_host::Timed {
  public:
    bool lane[N];

    constexpr explicit mask(bool initial = false) {
        for (unsigned i = 0; i < N; ++i) lane[i] = initial;
    }
    template <typename... Words>
    static mask from_uint32(unsigned first, Words... rest) {
        const unsigned words[] = {first, static_cast<unsigned>(rest)...};
        return from_words(words, sizeof...(rest) + 1, 32);
    }
    template <typename... Words>
    static mask from_uint64(std::uint64_t first, Words... rest) {
        const std::uint64_t words[] = {first, static_cast<std::uint64_t>(rest)...};
        return from_words(words, sizeof...(rest) + 1, 64);
    }

    static constexpr unsigned size() { return N; }
    bool test(unsigned i) const { return lane[i]; }
    void set(unsigned i) { lane[i] = true; }
    void clear(unsigned i) { lane[i] = false; }

    unsigned to_uint32() const requires(N <= 32) { return static_cast<unsigned>(word(0, N)); }
    std::uint64_t to_uint64() const requires(N == 64) { return word(0, N); }

    unsigned count() const {
        unsigned result = 0;
        for (unsigned i = 0; i < N; ++i) result += lane[i];
        return result;
    }
    bool empty() const { return count() == 0; }
    bool full() const { return count() == N; }

    mask operator&(const mask &other) const {
        mask result;
        result.follow(later(other));
        for (unsigned i = 0; i < N; ++i) result.lane[i] = lane[i] & other.lane[i];
        return result;
    }
    mask operator|(const mask &other) const {
        mask result;
        result.follow(later(other));
        for (unsigned i = 0; i < N; ++i) result.lane[i] = lane[i] | other.lane[i];
        return result;
    }
    mask operator~() const {
        mask result;
        result.follow(later(*this));
        for (unsigned i = 0; i < N; ++i) result.lane[i] = !lane[i];
        return result;
    }
    mask &operator&=(const mask &other) { return *this = *this & other; }
    mask &operator|=(const mask &other) { return *this = *this | other; }
    bool operator==(const mask &other) const { return std::memcmp(lane, other.lane, N) == 0; }

    template <unsigned M>
    mask<M> extract(unsigned index) const {
        mask<M> result;
        for (unsigned i = 0; i < M; ++i) result.lane[i] = lane[index * M + i];
        return result;
    }
    template <unsigned M>
    mask &insert(unsigned index, const mask<M> &part) {
        for (unsigned i = 0; i < M; ++i) lane[index * M + i] = part.lane[i];
        return *this;
    }

  private:
    // Scalar instructions combine masks.
    nt_host::Timed later(const mask &other) const { return nt_host::issue(nt_host::MASK, 0, *this, other); }
    template <typename Word>
    static mask from_words(const Word *words, unsigned count, unsigned bits) {
        mask result;
        for (unsigned i = 0; i < N && i < count * bits; ++i) result.lane[i] = words[i / bits] >> (i % bits) & 1;
        return result;
    }
    std::uint64_t word(unsigned first, unsigned count) const {
        std::uint64_t result = 0;
        for (unsigned i = 0; i < count; ++i) result |= static_cast<std::uint64_t>(lane[first + i]) << i;
        return result;
    }
};

template <typename T, unsigned N>
class vector;

namespace detail {

template <unsigned bits>
inline constexpr bool is_vector_size_v = bits == 128 || bits == 256 || bits == 512 || bits == 1024 ||
                                         (__AIE_ARCH__ != 20 && bits == 2048);

template <typename T>
inline constexpr bool is_element_v =
    is_float_v<T> || std::is_same_v<T, int8> || std::is_same_v<T, uint8> || std::is_same_v<T, int16> ||
    std::is_same_v<T, uint16> || std::is_same_v<T, int32> || std::is_same_v<T, uint32>;

template <typename T>
struct is_vector : std::false_type {};
template <typename T, unsigned N>
struct is_vector<vector<T, N>> : std::true_type {};

}  // namespace detail

template <typename V>
concept Vector = detail::is_vector<V>::value;
template <typename E>
concept Elem = detail::is_element_v<E>;

// 512 bits, what one instruction takes.
template <typename T>
inline constexpr unsigned native_vector_length_v = 64 / sizeof(T);

template <typename T, unsigned N>
class vector : public nt_host::Timed {
    static_assert(detail::is_element_v<T>, "the array has no vectors of this element type");
    static_assert(detail::is_vector_size_v<sizeof(T) * 8 * N>, "vectors have 128, 256, 512 or 1024 bits, or 2048 on aie2p");

  public:
    using value_type = T;
    alignas(sizeof(T) * N < 64 ? sizeof(T) * N : 64) T data[N];

    vector() = default;

    static constexpr unsigned size() { return N; }
    static constexpr unsigned type_bits() { return sizeof(T) * 8; }
    static constexpr unsigned bits() { return type_bits() * N; }
    static constexpr unsigned bytes() { return sizeof(T) * N; }
    static constexpr bool is_signed() { return std::numeric_limits<T>::is_signed; }
    static constexpr bool is_floating_point() { return detail::is_float_v<T>; }

    T get(unsigned index) const { return data[checked(index)]; }
    void set(T value, unsigned index) { data[checked(index)] = value; }
    T operator[](unsigned index) const { return get(index); }
    T &operator[](unsigned index) { return data[checked(index)]; }

    // The new value becomes lane 0, the others move up by one.
    vector &push(T value) {
        for (unsigned i = N - 1; i > 0; --i) data[i] = data[i - 1];
        data[0] = value;
        return *this;
    }

    template <unsigned M>
    vector<T, M> extract(unsigned index) const {
        static_assert(M <= N);
        if (index >= N / M) nt_host::fail("vector::extract: the part lies outside of the vector");
        vector<T, M> result;
        result.follow(*this);
        for (unsigned i = 0; i < M; ++i) result.data[i] = data[index * M + i];
        return result;
    }
    template <unsigned M>
    vector &insert(unsigned index, const vector<T, M> &part) {
        static_assert(M <= N);
        if (index >= N / M) nt_host::fail("vector::insert: the part lies outside of the vector");
        follow(part);
        for (unsigned i = 0; i < M; ++i) data[index * M + i] = part.data[i];
        return *this;
    }
    // The lanes above are undefined on the array; here all their bits are ones.
    template <unsigned M>
    vector<T, M> grow() const {
        static_assert(M >= N);
        vector<T, M> result;
        result.follow(*this);
        std::memset(result.data, 0xff, sizeof result.data);
        std::memcpy(result.data, data, sizeof data);
        return result;
    }

    // The same bits as lanes of another type.
    template <typename To>
    auto cast_to() const {
        vector<To, N * sizeof(T) / sizeof(To)> result;
        result.follow(*this);
        std::memcpy(result.data, data, sizeof data);
        return result;
    }

    // 8-bit lanes as 16-bit ones, and back.
    auto unpack() const {
        static_assert(sizeof(T) == 1 && !is_floating_point(), "unpack takes 8-bit integers");
        using To = std::conditional_t<is_signed(), int16, uint16>;
        vector<To, N> result;
        result.follow(nt_host::issue(nt_host::UNPACK, nt_host::pieces(N, 32), *this));
        for (unsigned i = 0; i < N; ++i) result.data[i] = data[i];
        return result;
    }
    auto pack() const {
        static_assert(sizeof(T) == 2 && !is_floating_point(), "pack takes 16-bit integers");
        using To = std::conditional_t<is_signed(), int8, uint8>;
        vector<To, N> result;
        result.follow(nt_host::issue(nt_host::PACK, nt_host::pieces(N, 32), *this));
        const saturation_mode mode = get_saturation();
        for (unsigned i = 0; i < N; ++i) result.data[i] = detail::narrowed<To>(data[i], mode);
        return result;
    }

  private:
    static unsigned checked(unsigned index) {
        if (index >= N) nt_host::fail("a lane outside of the vector");
        return index;
    }
};

template <typename To, Vector V>
auto vector_cast(const V &v) {
    return v.template cast_to<To>();
}

template <typename T, unsigned N = native_vector_length_v<T>>
vector<T, N> broadcast(T value) {
    nt_host::broadcasted(value);
    vector<T, N> result;
    for (unsigned i = 0; i < N; ++i) result.data[i] = value;
    return result;
}

}  // namespace aie
