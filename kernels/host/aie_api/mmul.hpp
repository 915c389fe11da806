// Products of small matrices, in the shapes that each generation has.
#pragma once

#include "block_vector.hpp"

// Products of 8x8x8 bfloat16 on aie2p multiply block floats if a program defines this macro before the include, as in
// aie_api.
#ifndef AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16
#define AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 0
#endif

namespace aie {

namespace detail {

struct MmulShape {
    unsigned m, k, n;
    constexpr bool operator==(const MmulShape &) const = default;
};

template <typename A, typename B>
constexpr bool has_mmul(MmulShape shape) {
    const auto among = [shape](auto... shapes) { return ((shape == shapes) || ...); };
    using Shape = MmulShape;
    if constexpr ((is_float_v<A> || is_float_v<B>) && !std::is_same_v<A, B>) {
        return false;
    } else if constexpr (std::is_same_v<A, float>) {
        // aie_api has 4x8x4, 4x1x4 and 4x1x8, but Peano only declares what their `mac` calls on aie2.
        return false;
    } else if constexpr (std::is_same_v<A, bfloat16>) {
        // 8x8x8 is built from several products on aie2; on aie2p it exists here only with shared exponents.
        return __AIE_ARCH__ == 20
                   ? among(Shape{4, 8, 4}, Shape{4, 8, 8}, Shape{8, 8, 8}, Shape{4, 16, 4}, Shape{4, 16, 8},
                           Shape{8, 8, 4}, Shape{8, 1, 8})
                   : among(Shape{8, 8, 4}, Shape{4, 8, 4}, Shape{4, 8, 8}, Shape{8, 1, 8}) ||
                         (AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 && shape == Shape{8, 8, 8});
    } else if constexpr (sizeof(A) == 1 && sizeof(B) == 1) {
        return __AIE_ARCH__ == 20
                   ? among(Shape{4, 8, 4}, Shape{4, 16, 4}, Shape{4, 8, 8}, Shape{8, 8, 8}, Shape{8, 8, 4},
                           Shape{2, 8, 8}, Shape{1, 16, 8}, Shape{2, 16, 8}, Shape{4, 16, 8}, Shape{8, 16, 8})
                   : among(Shape{2, 8, 8}, Shape{4, 8, 8}, Shape{4, 16, 8}, Shape{8, 16, 8}, Shape{8, 8, 8});
    } else if constexpr (sizeof(A) == 2 && sizeof(B) == 2) {
        return __AIE_ARCH__ == 20
                   ? among(Shape{4, 2, 8}, Shape{8, 2, 8}, Shape{2, 4, 8}, Shape{4, 4, 8}, Shape{4, 4, 4},
                           Shape{2, 8, 8}, Shape{4, 8, 8}, Shape{8, 1, 8})
                   : among(Shape{4, 2, 8}, Shape{8, 2, 8}, Shape{2, 4, 8}, Shape{4, 4, 8}, Shape{2, 8, 8},
                           Shape{4, 8, 8}, Shape{8, 1, 8});
    } else if constexpr (sizeof(A) == 2 && sizeof(B) == 1) {
        return __AIE_ARCH__ == 20
                   ? among(Shape{4, 8, 4}, Shape{4, 4, 8}, Shape{8, 4, 4}, Shape{8, 4, 8}, Shape{4, 4, 4},
                           Shape{2, 8, 8}, Shape{2, 16, 8}, Shape{4, 16, 8})
                   : among(Shape{4, 4, 8}, Shape{8, 4, 8}, Shape{4, 8, 8}, Shape{2, 16, 8}, Shape{4, 16, 8});
    } else if constexpr (sizeof(A) == 4 && sizeof(B) == 4) {
        return __AIE_ARCH__ == 20
                   ? among(Shape{4, 2, 4}, Shape{4, 4, 4}, Shape{8, 2, 4}, Shape{4, 1, 8})
                   : among(Shape{4, 2, 8}, Shape{4, 4, 8}, Shape{4, 4, 4}, Shape{8, 2, 8}, Shape{4, 1, 8});
    }
    return false;
}

// int16 products fill 64 bits, save for the shapes whose inner extent is at most 2.
template <typename A, typename B, unsigned K>
using mmul_tag_t = std::conditional_t<
    is_float_v<A>, accfloat,
    std::conditional_t<sizeof(A) + sizeof(B) <= 3 || (sizeof(A) + sizeof(B) == 4 && K <= 2), acc32, acc64>>;

// Products per instruction, if instructions are counted; bfloat16 of aie2p takes several instructions. The command that
// counts defines the macros from dataflow/array.py.
template <typename A, typename B>
constexpr unsigned products_per_instruction([[maybe_unused]] bool shared_exponents) {
#ifdef NT_HOST_COUNT
    if constexpr (std::is_same_v<A, bfloat16>) return shared_exponents ? NT_HOST_BFP16 : NT_HOST_BFLOAT16;
    if constexpr (sizeof(A) == 4) return NT_HOST_INT32;
    return sizeof(A) + sizeof(B) == 2 ? NT_HOST_INT8 : sizeof(A) + sizeof(B) == 3 ? NT_HOST_INT8 / 2 : NT_HOST_INT16;
#else
    return 1;
#endif
}

}  // namespace detail

// C = A B or C += A B, with A of M x K, B of K x N and C of M x N, each row after row in one register.
template <unsigned M_, unsigned K_, unsigned N_, typename A, typename B = A, typename Tag = accauto>
class mmul {
    static_assert(detail::has_mmul<A, B>({M_, K_, N_}), "the array has no product of matrices of this shape and type");

  public:
    static constexpr unsigned M = M_, K = K_, N = N_;
    static constexpr unsigned size_A = M * K, size_B = K * N, size_C = M * N;
    using accum_type = accum<
        std::conditional_t<std::is_same_v<Tag, accauto>, detail::mmul_tag_t<A, B, K>, Tag>, size_C>;

    mmul() = default;
    mmul(const accum_type &c) : c_(c) {}
    template <typename T>
    mmul(const vector<T, size_C> &c, int shift = 0) : c_(c, shift) {}

    static constexpr unsigned size() { return size_C; }
    accum_type to_accum() const { return c_; }
    operator accum_type() const { return c_; }
    template <typename T>
    vector<T, size_C> to_vector(int shift = 0) const {
        return c_.template to_vector<T>(shift);
    }

    void mul(const vector<A, size_A> &a, const vector<B, size_B> &b) {
        for (unsigned i = 0; i < size_C; ++i) c_.data[i] = 0;
        c_.follow(nt_host::Timed());
        mac(a, b);
    }
    void mac(const vector<A, size_A> &a, const vector<B, size_B> &b) {
        constexpr auto instruction = detail::is_float_v<A> ? nt_host::PRODUCT : nt_host::INTEGER_PRODUCT;
        constexpr unsigned each = detail::products_per_instruction<A, B>(shared_exponents);
        c_.follow(nt_host::issue(instruction, nt_host::pieces(M * K * N, each), c_, a, b));
        if constexpr (shared_exponents) {
            mac_shared(a, b);
            return;
        }
        if constexpr (aligned_sums) {
            mac_aligned(a, b);
            return;
        }
        using Lane = decltype(detail::lane<typename accum_type::value_type>(A{}));
        typedef Lane Row __attribute__((vector_size(sizeof(Lane) * N)));
        Row right[K], sum[M];
        std::memcpy(sum, c_.data, sizeof sum);
        // Without the hints, compilers at -O2 do not unroll the loops, and keep the sums in memory.
#pragma GCC unroll 16
        for (unsigned k = 0; k < K; ++k)
#pragma GCC unroll 16
            for (unsigned j = 0; j < N; ++j) right[k][j] = lane(b.data[k * N + j]);
#pragma GCC unroll 16
        for (unsigned i = 0; i < M; ++i)
#pragma GCC unroll 16
            for (unsigned k = 0; k < K; ++k) sum[i] += lane(a.data[i * K + k]) * right[k];
        std::memcpy(c_.data, sum, sizeof sum);
    }

  private:
    static constexpr bool shared_exponents =
        AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 && __AIE_ARCH__ != 20 && std::is_same_v<A, bfloat16> && M == 8 && N == 8;

    static constexpr bool aligned_sums = __AIE_ARCH__ == 20 && std::is_same_v<A, bfloat16> && K % 8 == 0;

    // Eight products and a sum at a time.
    void mac_aligned(const vector<A, size_A> &a, const vector<B, size_B> &b) {
        using Row = typename detail::Aligned<N>::Row;
        Row right[K], terms[9];
#pragma GCC unroll 16
        for (unsigned k = 0; k < K; ++k)
#pragma GCC unroll 16
            for (unsigned j = 0; j < N; ++j) right[k][j] = static_cast<float>(b.data[k * N + j]);
        for (unsigned i = 0; i < M; ++i) {
#pragma GCC unroll 16
            for (unsigned j = 0; j < N; ++j) terms[8][j] = c_.data[i * N + j];
            for (unsigned first = 0; first < K; first += 8) {
#pragma GCC unroll 16
                for (unsigned k = 0; k < 8; ++k)
                    terms[k] = static_cast<double>(static_cast<float>(a.data[i * K + first + k])) * right[first + k];
                const Row total = detail::Aligned<N>::sum(terms);
#pragma GCC unroll 16
                for (unsigned j = 0; j < N; ++j) terms[8][j] = static_cast<float>(total[j]);
            }
#pragma GCC unroll 16
            for (unsigned j = 0; j < N; ++j) c_.data[i * N + j] = static_cast<float>(terms[8][j]);
        }
    }

    // Rows of A and columns of B have 8 elements along K; each becomes a block.
    void mac_shared(const vector<A, size_A> &a, const vector<B, size_B> &b) {
        float left[M][K], right[K][N];
        detail::with_rounding([&](auto mode) {
            for (unsigned i = 0; i < M; ++i) {
                const auto block = detail::share_exponent<mode>(&a.data[i * K], 1);
                for (unsigned k = 0; k < K; ++k) left[i][k] = block.numbers[k];
            }
            for (unsigned j = 0; j < N; ++j) {
                const auto block = detail::share_exponent<mode>(&b.data[j], N);
                for (unsigned k = 0; k < K; ++k) right[k][j] = block.numbers[k];
            }
        });
        for (unsigned i = 0; i < M; ++i)
            for (unsigned k = 0; k < K; ++k)
                for (unsigned j = 0; j < N; ++j) c_.data[i * N + j] += left[i][k] * right[k][j];
    }

    template <typename T>
    static auto lane(T value) {
        return detail::lane<typename accum_type::value_type>(value);
    }

    accum_type c_;
};

}  // namespace aie
