// Products of matrices in blocks of the shapes that the core multiplies at once.
//
// A tile of the result is M x N sums that stay in the core's memory over all steps in K. A call adds the product of a
// slice of A, `block_rows` x R rows, and of B's K x N. Every operand lies in blocks: A as [K/S][rows][S], B as
// [K/S][N/T][S][T], or [K/S][N][S] if its memory order is that of its transpose, and the sums as [M/R][N/T][R][T].
//
// Xilinx/mlir-aie issue 3778 (open, cause unknown) reports wrong sums of int8 on aie2, in a loop over 4x8x8 products
// compiled by Peano. It is not known whether it concerns this loop; nothing here has run on an NPU.
#pragma once

#include <aie_api/aie.hpp>

#include <type_traits>
#include <utility>

#include "precision.hpp"

namespace nt {

// One block product is R x S by S x T. A register block of block_rows x block_columns of them is summed at once.
template <unsigned R_, unsigned S_, unsigned T_, unsigned block_rows_, unsigned block_columns_, unsigned M_,
          unsigned K_, unsigned N_, bool transposed_, typename Operand_, typename Sum_>
struct GemmTile {
    static constexpr unsigned R = R_, S = S_, T = T_, block_rows = block_rows_, block_columns = block_columns_;
    static constexpr unsigned M = M_, K = K_, N = N_, slice = block_rows * R * N;
    static constexpr bool transposed = transposed_;
    using Operand = Operand_;
    using Sum = Sum_;
    // The factors of float products are sums of bfloat16 numbers.
    static constexpr bool splits = std::is_same_v<Operand, float>;
    using Factor = std::conditional_t<splits, bfloat16, Operand>;
    // Products of 8x8x8 bfloat16 on aie2p: eight numbers along K share an exponent, their mantissas are rounded.
    static constexpr bool shares_exponents = std::is_same_v<Operand, bfloat16> && R * T == 64 && __AIE_ARCH__ != 20;
    using Product = aie::mmul<R, S, T, Factor, Factor>;
    static_assert(M % (block_rows * R) == 0 && K % S == 0 && N % (block_columns * T) == 0);
};

// Call function(0), function(1), ... with constants, so that indexed arrays stay in registers.
template <unsigned count, typename Function>
inline __attribute__((always_inline)) void unroll(Function function) {
    [&]<unsigned... index>(std::integer_sequence<unsigned, index...>) {
        (function(std::integral_constant<unsigned, index>{}), ...);
    }(std::make_integer_sequence<unsigned, count>{});
}

// Return the position of this call and advance it by `step`, back to 0 at `end`. A worker's loop cannot pass its round
// to a kernel function, so the function counts.
inline unsigned advance(int32 *cursor, unsigned step, unsigned end) {
    const unsigned position = *cursor;
    *cursor = position + step == end ? 0 : position + step;
    return position;
}

template <typename Tile>
inline void clear_sums(typename Tile::Sum *__restrict sums) {
    const auto zero = aie::zeros<typename Tile::Sum, 16>();
    for (unsigned i = 0; i < Tile::M * Tile::N; i += 16) aie::store_v(sums + i, zero);
}

// Float sums begin in the accumulators. Integers are added at the end: accumulators take no vector of equal width.
template <typename Tile>
inline typename Tile::Product started(const typename Tile::Sum *sums) {
    using Product = typename Tile::Product;
    if constexpr (std::is_same_v<typename Tile::Sum, float>) {
        return Product(aie::load_v<Product::size_C>(sums));
    } else {
        return Product(aie::zeros<typename Product::accum_type::value_type, Product::size_C>());
    }
}

template <typename Tile>
inline void finish(const typename Tile::Product &product, typename Tile::Sum *sums) {
    if constexpr (std::is_same_v<typename Tile::Sum, float>) {
        aie::store_v(sums, product.template to_vector<float>());
    } else {
        const auto added = product.to_accum();
        unroll<Tile::Product::size_C / 16>([&](auto i) {
            const auto found = added.template extract<16>(i).template to_vector<int32>();
            aie::store_v(sums + i * 16, aie::add(aie::load_v<16>(sums + i * 16), found));
        });
    }
}

// Convert a block to the form of its products.
template <typename Tile, unsigned N>
inline auto factor(const aie::vector<typename Tile::Operand, N> &block) {
    if constexpr (Tile::splits) {
        return split<full::parts>(block);
    } else {
        return block;
    }
}

template <typename Product, typename T, unsigned A, unsigned B>
inline void accumulate(Product &sum, const aie::vector<T, A> &a, const aie::vector<T, B> &b) {
    sum.mac(a, b);
}
// The six products that count in float32, from the smallest; aie_api's own product of float blocks calls an intrinsic
// on aie2, mac_4x8_8x4_conf, that Peano declares and does not define. An operand that is infinite, or becomes so when
// rounded to bfloat16, makes its sums NaN.
template <typename Product, unsigned A, unsigned B>
inline void accumulate(Product &sum, const Split<3, A> &a, const Split<3, B> &b) {
    Product product;
    product.mul(a[2], b[0]);
    product.mac(a[1], b[1]);
    product.mac(a[0], b[2]);
    product.mac(a[1], b[0]);
    product.mac(a[0], b[1]);
    product.mac(a[0], b[0]);
    sum = Product(aie::add(product.to_accum(), sum.to_accum()));
}

// Add the products of a register block in one step of K. The blocks of A are `apart` elements from each other, those of
// B are adjacent.
template <typename Tile>
inline __attribute__((always_inline)) void add_step(typename Tile::Product (&c)[Tile::block_rows][Tile::block_columns],
                                                    const typename Tile::Operand *left, unsigned apart,
                                                    const typename Tile::Operand *right) {
    using Product = typename Tile::Product;
    decltype(factor<Tile>(aie::load_v<Product::size_A>(left))) lefts[Tile::block_rows];
    unroll<Tile::block_rows>([&](auto i) { lefts[i] = factor<Tile>(aie::load_v<Product::size_A>(left + i * apart)); });
    unroll<Tile::block_columns>([&](auto k) {
        auto loaded = aie::load_v<Product::size_B>(right + k * Product::size_B);
        if constexpr (Tile::transposed) loaded = aie::transpose(loaded, Tile::T, Tile::S);
        const auto found = factor<Tile>(loaded);
        unroll<Tile::block_rows>([&](auto i) { accumulate(c[i][k], lefts[i], found); });
    });
}

// Add a slice of A times B to the sums of the slice's rows. The cursor counts the slices.
template <typename Tile>
inline void multiply(const typename Tile::Operand *__restrict a, const typename Tile::Operand *__restrict b,
                     typename Tile::Sum *__restrict sums, int32 *__restrict cursor) {
    using Product = typename Tile::Product;
    constexpr unsigned rows = Tile::block_rows, columns = Tile::block_columns, width = Tile::N / Tile::T;
    if constexpr (Tile::splits || Tile::shares_exponents) aie::set_rounding(aie::rounding_mode::conv_even);
    sums += advance(cursor, Tile::slice, Tile::M * Tile::N);
    const auto block = [=](unsigned j, unsigned i, unsigned k) { return sums + (i * width + j + k) * Product::size_C; };
    Product c[rows][columns];
    unroll<rows>([&](auto i) { unroll<columns>([&](auto k) { c[i][k] = started<Tile>(block(0, i, k)); }); });
    for (unsigned j = 0; j < width; j += columns) {
        const auto *left = a;
        const auto *right = b + j * Product::size_B;
        for (unsigned step = 0; step < Tile::K / Tile::S; ++step) {
            add_step<Tile>(c, left, Product::size_A, right);
            left += rows * Product::size_A;
            right += width * Product::size_B;
        }
        // A core loads and stores in the same cycle: the next sums are loaded while these are stored. The last ones are
        // loaded again.
        const unsigned next = j + columns < width ? j + columns : j;
        unroll<rows>([&](auto i) {
            unroll<columns>([&](auto k) {
                finish<Tile>(c[i][k], block(j, i, k));
                c[i][k] = started<Tile>(block(next, i, k));
            });
        });
    }
}

// The same for cores that only have products of lanes, such as aie2p for bfloat16: aie_api builds those of matrices
// from more moves than products. Here each number of A is broadcast to 32 columns. A vector of B has two rows of K,
// which a shuffle separates. A register block has 4 rows of 64 columns, or 8 of 32. Every broadcast is used at once,
// because the 12 vector registers hold few of them beside the rows of B.
template <typename Tile>
inline void multiply_lanes(const bfloat16 *__restrict a, const bfloat16 *__restrict b, float *__restrict sums,
                           int32 *__restrict cursor) {
    constexpr unsigned pairs = Tile::N % 64 ? 1 : 2, rows = 8 / pairs, slice_rows = Tile::block_rows * Tile::R;
    constexpr unsigned R = Tile::R, S = Tile::S, T = Tile::T, block = R * T;
    static_assert(S == 2 && T == 16 && slice_rows % rows == 0 && Tile::N % (2 * T * pairs) == 0);
    sums += advance(cursor, Tile::slice, Tile::M * Tile::N);
    for (unsigned i = 0; i < slice_rows; i += rows) {
        for (unsigned j = 0; j < Tile::N; j += 2 * T * pairs) {
            // A row of two adjacent blocks of sums.
            const auto at = [=](unsigned row, unsigned pair) {
                return sums + (i + row) / R * R * Tile::N + (i + row) % R * T + j * R + pair * 2 * block;
            };
            Sum<2 * T> c[rows][pairs];
            unroll<rows>([&](auto row) {
                unroll<pairs>([&](auto pair) {
                    const float *from = at(row, pair);
                    c[row][pair] = Sum<2 * T>(aie::concat(aie::load_v<T>(from), aie::load_v<T>(from + block)));
                });
            });
            const bfloat16 *left = a + i * S, *right = b + j * S;
            for (unsigned step = 0; step < Tile::K / S; ++step, left += slice_rows * S, right += Tile::N * S) {
                Bfloat<2 * T> lines[S][pairs];
                unroll<pairs>([&](auto pair) {
                    const auto *from = right + pair * 2 * T * S;
                    const auto both = aie::interleave_unzip(aie::load_v<2 * T>(from), aie::load_v<2 * T>(from + 2 * T),
                                                            Tile::transposed ? 1 : T);
                    lines[0][pair] = both.first, lines[1][pair] = both.second;
                });
                unroll<rows>([&](auto row) {
                    unroll<S>([&](auto k) {
                        const auto factor = aie::broadcast<bfloat16, 2 * T>(left[row * S + k]);
                        unroll<pairs>([&](auto pair) {
                            c[row][pair] = aie::mac(c[row][pair], factor, lines[k][pair]);
                        });
                    });
                });
            }
            unroll<rows>([&](auto row) {
                unroll<pairs>([&](auto pair) {
                    const Float<2 * T> found = value(c[row][pair]);
                    aie::store_v(at(row, pair), found.template extract<T>(0));
                    aie::store_v(at(row, pair) + block, found.template extract<T>(1));
                });
            });
        }
    }
}

// Read a row operand from an object of B, in the order in which the memtile has written it. Repeat every T of its N
// words until they fill a vector of 16: the order in which the sums of a row of blocks are read.
template <typename Tile>
inline void spread_row(const int32 *__restrict object, int32 *__restrict row) {
    constexpr unsigned group = Tile::S * sizeof(typename Tile::Operand) / 4;
    constexpr unsigned line = Tile::T * sizeof(typename Tile::Operand) / 4, wide = line * (Tile::N / Tile::T);
    for (unsigned j = 0; j < Tile::N; ++j) {
        // Transposed: word j begins row j. Else: the words lie row after row, and a block has T elements of each row.
        const unsigned from = Tile::transposed
                                  ? j * group
                                  : j % wide / line * (line * Tile::S) + j / wide * line + j % line;
        const int32 word = object[from];
        int32 *to = row + j / Tile::T * 16 + j % Tile::T;
        for (unsigned i = 0; i < 16; i += Tile::T) to[i] = word;
    }
}

// The same for a column operand, whose words begin the rows of the slices of A that follow the last step. Each word is
// repeated T times: the order in which the sums of a row are read.
template <typename Tile>
inline void spread_column(const int32 *__restrict slice, int32 *__restrict column, int32 *__restrict cursor) {
    constexpr unsigned group = Tile::S * sizeof(typename Tile::Operand) / 4, rows = Tile::block_rows * Tile::R;
    column += advance(cursor, rows * Tile::T, Tile::M * Tile::T);
    for (unsigned i = 0; i < rows; ++i) {
        for (unsigned j = 0; j < Tile::T; ++j) column[i * Tile::T + j] = slice[i * group];
    }
}

// Repeat every T of the N words at the start of an object until they fill a vector of 16: the order of the sums.
template <typename Tile>
inline void spread_words(const int32 *__restrict object, int32 *__restrict row) {
    for (unsigned j = 0; j < Tile::N; ++j) {
        int32 *to = row + j / Tile::T * 16 + j % Tile::T;
        for (unsigned i = 0; i < 16; i += Tile::T) to[i] = object[j];
    }
}

}  // namespace nt
