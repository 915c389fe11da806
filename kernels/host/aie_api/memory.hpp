// Loads and stores. The array reads from the address rounded down where it should be aligned; here that fails.
#pragma once

#include <cstddef>

#include "vector.hpp"

namespace aie {

// Bytes that the address of an aligned access must be a multiple of.
template <typename T, unsigned N>
inline constexpr unsigned vector_ldst_align_v = sizeof(T) * N <= 16                         ? 16
                                                : sizeof(T) * N <= 32 || __AIE_ARCH__ == 20 ? 32
                                                                                            : 64;
inline constexpr unsigned vector_decl_align = __AIE_ARCH__ == 20 ? 32 : 64;

namespace detail {

template <unsigned N, typename T>
inline void check_alignment(const T *pointer) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % vector_ldst_align_v<T, N>)
        nt_host::fail("a vector access at an address that is not a multiple of its alignment");
}

template <unsigned N, typename T>
vector<T, N> read(const T *pointer) {
    vector<T, N> result;
    result.loaded(sizeof result.data);
    std::memcpy(result.data, pointer, sizeof result.data);
    return result;
}

}  // namespace detail

template <unsigned N, typename T>
vector<T, N> load_v(const T *pointer) {
    detail::check_alignment<N>(pointer);
    return detail::read<N>(pointer);
}
template <typename T, unsigned N>
void store_v(T *pointer, const vector<T, N> &v) {
    detail::check_alignment<N>(pointer);
    nt_host::stored(sizeof v.data, v);
    std::memcpy(pointer, v.data, sizeof v.data);
}

// `aligned` is what the address is known to be a multiple of, in elements.
template <unsigned N, typename T>
vector<T, N> load_unaligned_v(const T *pointer, unsigned aligned = 1) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % (aligned * sizeof(T)))
        nt_host::fail("load_unaligned_v: the address is not aligned as promised");
    vector<T, N> result = detail::read<N>(pointer);
    result.unaligned(sizeof result.data);
    return result;
}
template <typename T, unsigned N>
void store_unaligned_v(T *pointer, const vector<T, N> &v, unsigned aligned = 1) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % (aligned * sizeof(T)))
        nt_host::fail("store_unaligned_v: the address is not aligned as promised");
    nt_host::stored_unaligned(sizeof v.data);
    nt_host::stored(sizeof v.data, v);
    std::memcpy(pointer, v.data, sizeof v.data);
}

// Walks over memory by whole vectors; `*it++` reads, `*it++ = v` writes.
template <typename T, unsigned N>
class vector_iterator {
    using Value = std::remove_const_t<T>;

  public:
    class reference {
      public:
        explicit reference(T *pointer) : pointer_(pointer) {}
        operator vector<Value, N>() const { return load_v<N>(pointer_); }
        void operator=(const vector<Value, N> &v) const { store_v(pointer_, v); }

      private:
        T *pointer_;
    };
    explicit vector_iterator(T *pointer) : pointer_(pointer) {}
    auto operator*() const {
        if constexpr (std::is_const_v<T>) {
            return load_v<N>(pointer_);
        } else {
            return reference(pointer_);
        }
    }
    vector_iterator &operator++() { return *this += 1; }
    vector_iterator operator++(int) {
        vector_iterator old = *this;
        ++*this;
        return old;
    }
    vector_iterator &operator--() { return *this += -1; }
    vector_iterator &operator+=(std::ptrdiff_t n) {
        pointer_ += n * static_cast<std::ptrdiff_t>(N);
        return *this;
    }
    vector_iterator operator+(std::ptrdiff_t n) const {
        vector_iterator result = *this;
        return result += n;
    }
    bool operator==(const vector_iterator &) const = default;

  private:
    T *pointer_;
};

template <unsigned N, typename T>
auto begin_vector(T *pointer) {
    return vector_iterator<T, N>(pointer);
}
template <unsigned N, typename T>
auto cbegin_vector(const T *pointer) {
    return vector_iterator<const T, N>(pointer);
}
// The promise that no other pointer reaches the memory matters to the array's compiler only.
template <unsigned N, typename T>
auto begin_restrict_vector(T *pointer) {
    return vector_iterator<T, N>(pointer);
}
template <unsigned N, typename T>
auto cbegin_restrict_vector(const T *pointer) {
    return vector_iterator<const T, N>(pointer);
}

}  // namespace aie
