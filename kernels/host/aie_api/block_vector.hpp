// Blocks of eight numbers that share an exponent, which aie2p multiplies: an exponent and eight mantissas, 9 bytes.
#pragma once

#include "accum.hpp"

namespace aie {

namespace detail {

// The numbers of a block of bfp16ebs8: integers of 8 bits times 2^(exponent - 133).
struct Block {
    float numbers[8];

    Block() = default;
    template <typename T>
    Block(const T *mantissas, int exponent) {
        for (unsigned i = 0; i < 8; ++i) numbers[i] = __builtin_ldexpf(static_cast<float>(mantissas[i]), exponent - 133);
    }
};

// Convert eight numbers, `stride` apart, to a block, as the core does. The exponent is the largest exponent field among
// them. Mantissas are rounded in the core's rounding mode; if one becomes 128, the exponent is increased and all are
// rounded anew. Subnormal numbers are 0. The source is a published series of probes on silicon, in all rounding modes.
// Its results for infinity and NaN (exponent 255, never 0) are not reproduced where such a number meets a 0.
template <rounding_mode mode, typename T>
inline Block share_exponent(const T *from, unsigned stride) {
    uint32 bits[8];
    int exponents[8], largest = 0;
    for (unsigned i = 0; i < 8; ++i) {
        bits[i] = std::bit_cast<uint32>(static_cast<float>(from[i * stride]));
        exponents[i] = static_cast<int>(bits[i] >> 23 & 0xff);
        if (exponents[i] > largest) largest = exponents[i];
    }
    std::int64_t mantissas[8];
    for (bool fits = false; !fits; largest += !fits) {
        fits = true;
        for (unsigned i = 0; i < 8; ++i) {
            // 1.fraction with 23 bits; the shift by 17 leaves 6. A shift by 40 leaves none.
            const std::int64_t magnitude = exponents[i] ? 0x800000 | (bits[i] & 0x7fffff) : 0;
            const int places = 17 + largest - exponents[i];
            mantissas[i] = shifted<mode>(bits[i] >> 31 ? -magnitude : magnitude, places < 40 ? places : 40);
            fits = fits && mantissas[i] <= 127;
        }
    }
    return Block(mantissas, largest);
}

}  // namespace detail

#if __AIE_ARCH__ != 20
}  // namespace aie

struct bfp16ebs8 {
    unsigned char bytes[9];
};

namespace aie {

// N numbers in blocks of eight consecutive ones.
template <typename T, unsigned N>
class block_vector : public nt_host::Timed {
  public:
    detail::Block blocks[N / 8];
};

// Stream of consecutive block vectors from any address.
template <typename T, unsigned N>
class block_vector_input_buffer_stream {
  public:
    explicit block_vector_input_buffer_stream(const T *pointer) : pointer_(pointer) {}
    block_vector<T, N> pop() {
        block_vector<T, N> result;
        result.loaded(sizeof(T) * N / 8);
        for (detail::Block &block : result.blocks) {
            block = detail::Block(reinterpret_cast<const std::int8_t *>(pointer_->bytes + 1), pointer_->bytes[0]);
            ++pointer_;
        }
        return result;
    }

  private:
    const T *pointer_;
};

namespace detail {

// Rounds in the core's rounding mode.
template <unsigned N>
block_vector<bfp16ebs8, N> to_blocks(const accum<accfloat, N> &sums) {
    block_vector<bfp16ebs8, N> result;
    result.follow(nt_host::issue(nt_host::NARROW, nt_host::pieces(N, 64), sums));
    with_rounding([&](auto mode) {
        for (unsigned i = 0; i < N / 8; ++i) result.blocks[i] = share_exponent<mode>(sums.data + 8 * i, 1);
    });
    return result;
}

}  // namespace detail
}  // namespace aie

// C += A B, with rows of A and columns of B as blocks.
inline aie::accum<accfloat, 64> mac_8x8_8x8T(const aie::block_vector<bfp16ebs8, 64> &a,
                                                  const aie::block_vector<bfp16ebs8, 64> &b,
                                                  aie::accum<accfloat, 64> c) {
    c.follow(nt_host::issue(nt_host::PRODUCT, 1, c, a, b));
    for (unsigned k = 0; k < 8; ++k) {
        float right[8];
        for (unsigned j = 0; j < 8; ++j) right[j] = b.blocks[j].numbers[k];
        for (unsigned i = 0; i < 8; ++i)
            for (unsigned j = 0; j < 8; ++j) c.data[i * 8 + j] += a.blocks[i].numbers[k] * right[j];
    }
    return c;
}

namespace aie {
#endif

}  // namespace aie
