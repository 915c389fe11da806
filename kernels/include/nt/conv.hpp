// Convolutions as products of pixels and weights. Windows are not copied: each step of a sum reads the pixels that one
// element of the kernel meets.
//
// The R rows of a block product are pixels in one column of R image rows. Their results are `lane_rows` rows apart. A
// strip holds all pixels that the core's results need, [channels / 8][rows][columns][R][8], so the blocks of every
// element of the kernel are aligned. It is filled from a box of the image, [channels / 8][rows][columns][8], which the
// cores of a column share. Pixels outside of the image are zeros there. Weights are [channels / 8][kernel][N / T][8][T].
// A box of int8 is [channels / 16][rows][columns][16], because the smallest vector has 16 bytes. An object of weights
// begins with row operands, N words each, and a head. Those of the first object of a run serve the whole run.
#pragma once

#include "gemm.hpp"
#include "loops.hpp"
#include "memory.hpp"

namespace nt {

// Product: the product of all pixels of a result tile with the weights of one object.
template <typename Product_, unsigned lane_rows_, unsigned width_, unsigned kernel_rows_, unsigned kernel_columns_,
          unsigned stride_rows_, unsigned stride_columns_, unsigned gap_rows_, unsigned gap_columns_,
          unsigned result_rows_, unsigned result_columns_>
struct ConvTile {
    using Product = Product_;
    using Operand = typename Product::Operand;
    static constexpr unsigned lane_rows = lane_rows_, width = width_;
    static constexpr unsigned kernel_rows = kernel_rows_, kernel_columns = kernel_columns_;
    static constexpr unsigned stride_rows = stride_rows_, stride_columns = stride_columns_;
    static constexpr unsigned gap_rows = gap_rows_, gap_columns = gap_columns_;
    // Extents of the result that the cores of a column compute together.
    static constexpr unsigned result_rows = result_rows_, result_columns = result_columns_;

    static constexpr unsigned met(unsigned results, unsigned stride, unsigned kernel, unsigned gap) {
        return (results - 1) * stride + (kernel - 1) * gap + 1;
    }
    static constexpr unsigned strip_rows = met(lane_rows, stride_rows, kernel_rows, gap_rows);
    static constexpr unsigned strip_columns = met(width, stride_columns, kernel_columns, gap_columns);
    static constexpr unsigned box_rows = met(result_rows, stride_rows, kernel_rows, gap_rows);
    static constexpr unsigned box_columns = met(result_columns, stride_columns, kernel_columns, gap_columns);
    static constexpr unsigned channel_blocks = Product::K / (8 * kernel_rows * kernel_columns);
    // Channels of a pixel that lie together in a box, and blocks of them.
    static constexpr unsigned piece = sizeof(Operand) == 1 ? 16 : 8, piece_blocks = piece / 8;
    static_assert(Product::S == 8 && Product::M == Product::R * lane_rows * width && width % Product::block_rows == 0);
};

// State of a core: the results where its box begins before it is moved into the image, the first pixel of the strip, the
// first pixel of the box, the core's number in its column and the number of this column, and words of a head.
//
// Two numbers share a word of a head, a row in the upper half and a column in the lower one. SHARED: columns of the array
// that share the boxes, a power of two. LAST: results with which the last boxes begin. EXTENTS: those of the image. OWNS:
// for each core, its place in a box of results, and the padding before the image, in four bytes.
enum ConvState {
    BOX_ROW, BOX_COLUMN, STRIP_ROW, STRIP_COLUMN, PIXEL_TOP, PIXEL_LEFT, CORE, COLUMN, SHARED, LAST, EXTENTS, OWNS
};

inline void keep_head(const int32 *__restrict head, int32 *__restrict state) {
    for (unsigned i = SHARED; i < OWNS + 4; ++i) state[i] = head[i - SHARED];
}

inline int32 upper(int32 word) { return word >> 16; }
inline int32 lower(int32 word) { return word & 0xffff; }
inline int32 smaller(int32 a, int32 b) { return a < b ? a : b; }
inline int32 larger(int32 a, int32 b) { return a > b ? a : b; }

// Begins a tile of the result: the next box is below, else at the top of the next columns.
template <typename Tile>
inline void start_tile(typename Tile::Product::Sum *__restrict sums, int32 *__restrict state, int32 is_first) {
    clear_sums<typename Tile::Product>(sums);
    const int32 last_row = upper(state[LAST]), last_column = lower(state[LAST]), own = state[OWNS + state[CORE]];
    int32 row = is_first ? 0 : state[BOX_ROW], column = is_first ? 0 : state[BOX_COLUMN];
    for (int32 steps = is_first ? state[COLUMN] & (state[SHARED] - 1) : state[SHARED]; steps > 0; --steps) {
        if (row < last_row) {
            row += Tile::result_rows;
            continue;
        }
        row = 0;
        column = column < last_column ? column + int32(Tile::result_columns) : 0;
    }
    state[BOX_ROW] = row;
    state[BOX_COLUMN] = column;
    row = smaller(row, last_row) * int32(Tile::stride_rows) - (own >> 8 & 0xff);
    column = smaller(column, last_column) * int32(Tile::stride_columns) - (own & 0xff);
    state[STRIP_ROW] = row + (own >> 24 & 0xff) * int32(Tile::stride_rows);
    state[STRIP_COLUMN] = column + (own >> 16 & 0xff) * int32(Tile::stride_columns);
    // The host reads whole boxes from within the image.
    state[PIXEL_TOP] = larger(smaller(row, upper(state[EXTENTS]) - int32(Tile::box_rows)), 0);
    state[PIXEL_LEFT] = larger(smaller(column, lower(state[EXTENTS]) - int32(Tile::box_columns)), 0);
}

template <unsigned N, typename T>
inline void store_zeros(T *to, int32 count) {
    constexpr unsigned lanes = sizeof(T) == 1 ? 16 : 8;
    for (int32 i = 0; i < count; ++i, to += N) {
        unroll<N / lanes>([&](auto part) { aie::store_v(to + part * lanes, aie::zeros<T, lanes>()); });
    }
}

// Copies a piece of the pixels of R rows into columns of a strip. Blocks of one piece are `apart` elements from each
// other.
template <unsigned R, typename T>
inline void copy_column(const T *const (&rows)[R], T *__restrict to, int32 x, [[maybe_unused]] unsigned apart) {
    if constexpr (sizeof(T) == 1) {
        unroll<R / 4>([&](auto quarter) {
            const auto row = [&](unsigned lane) { return aie::load_v<16>(rows[quarter * 4 + lane] + x * 16); };
            const auto lanes = aie::concat(row(0), row(1), row(2), row(3));
            T *block = to + (x * R + quarter * 4) * 8;
            aie::store_v(block, aie::filter_even(lanes, 8));
            aie::store_v(block + apart, aie::filter_odd(lanes, 8));
        });
    } else {
        unroll<R>([&](auto lane) { aie::store_v(to + (x * R + lane) * 8, aie::load_v<8>(rows[lane] + x * 8)); });
    }
}

// Copies the core's part of a box. A row outside of the image is read from `zeros`.
template <typename Tile>
inline void fill_strip(const typename Tile::Operand *__restrict box, const typename Tile::Operand *__restrict zeros,
                       typename Tile::Operand *__restrict strip, const int32 *__restrict state) {
    constexpr unsigned R = Tile::Product::R, P = Tile::piece, apart = Tile::strip_rows * Tile::strip_columns * R * 8;
    const auto store_borders = [](typename Tile::Operand *to, int32 count) {
        unroll<Tile::piece_blocks>([&](auto block) { store_zeros<R * 8>(to + block * apart, count); });
    };
    const int32 height = upper(state[EXTENTS]), column = state[STRIP_COLUMN], columns = Tile::strip_columns;
    const int32 from = smaller(larger(-column, 0), columns);
    const int32 to = larger(smaller(lower(state[EXTENTS]) - column, columns), from);
    const int32 shift = column - state[PIXEL_LEFT], count = to - from;
    for (unsigned piece = 0; piece < Tile::channel_blocks / Tile::piece_blocks; ++piece) {
        for (unsigned k = 0; k < Tile::strip_rows; ++k) {
            const typename Tile::Operand *rows[R];
            unroll<R>([&](auto lane) {
                const int32 row = state[STRIP_ROW] + int32(lane * Tile::lane_rows * Tile::stride_rows + k);
                const bool inside = row >= 0 && row < height;
                const int32 pixel = (row - state[PIXEL_TOP]) * int32(Tile::box_columns) + shift + from;
                rows[lane] = inside ? box + pixel * int32(P) : zeros;
            });
            store_borders(strip, from);
            strip += from * R * 8;
            if (count >= 4) {
                NT_AT_LEAST_4
                for (int32 x = 0; x < count; ++x) copy_column(rows, strip, x, apart);
            } else {
                for (int32 x = 0; x < count; ++x) copy_column(rows, strip, x, apart);
            }
            store_borders(strip + count * R * 8, columns - to);
            strip += (columns - from) * R * 8;
        }
        strip += (Tile::piece_blocks - 1) * apart;
        box += Tile::box_rows * Tile::box_columns * P;
    }
}

// Distances in a strip from the pixels of a result to those that a step of the sum reads, in blocks.
template <typename Tile>
struct ConvSteps {
    static constexpr unsigned count = Tile::channel_blocks * Tile::kernel_rows * Tile::kernel_columns;
    int16 at[count];

    constexpr ConvSteps() : at() {
        for (unsigned step = 0; step < count; ++step) {
            const unsigned column = step % Tile::kernel_columns, line = step / Tile::kernel_columns;
            const unsigned row = line / Tile::kernel_rows * Tile::strip_rows + line % Tile::kernel_rows * Tile::gap_rows;
            at[step] = row * Tile::strip_columns + column * Tile::gap_columns;
        }
    }
};

// Adds the products of a strip and the weights to the sums of all results, [lane_rows][width][N / T][R][T].
template <typename Tile>
inline void multiply_windows(const typename Tile::Operand *__restrict strip,
                             const typename Tile::Operand *__restrict weights,
                             typename Tile::Product::Sum *__restrict sums) {
    using Gemm = typename Tile::Product;
    using Product = typename Gemm::Product;
    using Sum = typename Gemm::Sum;
    static constexpr ConvSteps<Tile> steps;
    constexpr unsigned rows = Gemm::block_rows, columns = Gemm::block_columns, width = Gemm::N / Gemm::T;
    constexpr unsigned apart = Tile::stride_columns * Product::size_A;
    if constexpr (Gemm::splits || Gemm::shares_exponents) aie::set_rounding(aie::rounding_mode::conv_even);
    const auto at = [](Sum *block, unsigned i, unsigned k) { return block + (i * width + k) * Product::size_C; };
    Product c[rows][columns];
    unroll<rows>([&](auto i) { unroll<columns>([&](auto k) { c[i][k] = started<Gemm>(at(sums, i, k)); }); });
    for (unsigned y = 0; y < Tile::lane_rows; ++y) {
        const auto *pixels = strip + y * Tile::stride_rows * Tile::strip_columns * Product::size_A;
        for (unsigned x = 0; x < Tile::width; x += rows, pixels += rows * apart) {
            for (unsigned j = 0; j < width; j += columns) {
                const auto *right = weights + j * Product::size_B;
                for (unsigned step = 0; step < steps.count; ++step, right += width * Product::size_B) {
                    add_step<Gemm>(c, pixels + steps.at[step] * int32(Product::size_A), apart, right);
                }
                // The next sums are loaded while these are stored, as in nt/gemm.hpp; the last ones are loaded again.
                const bool crosses = j + columns == width, ends = crosses && x + rows == Tile::width;
                Sum *next = sums + (crosses ? width * (rows - 1) + columns : columns) * Product::size_C;
                if (ends && y + 1 == Tile::lane_rows) next = sums;
                unroll<rows>([&](auto i) {
                    unroll<columns>([&](auto k) {
                        finish<Gemm>(c[i][k], at(sums, i, k));
                        c[i][k] = started<Gemm>(at(next, i, k));
                    });
                });
                sums = next;
            }
        }
    }
}

// Combines the core's part of another image, a piece of each pixel at a time, with the results [lane_rows][width]
// [N / T][R][T]. The box is ordered as that of the image; its first row and column are those of the box of results, and
// its first channel is that of the result `first`.
template <typename Tile, typename Result, typename Function>
inline void combine_image(const typename Tile::Operand *__restrict box, Result *__restrict results,
                          const int32 *__restrict state, int32 first, Function combine) {
    using Product = typename Tile::Product;
    constexpr unsigned R = Product::R, T = Product::T, P = Tile::piece, pixel = R * Product::N;
    constexpr unsigned most = Product::N / P, own_pieces = Tile::channel_blocks / Tile::piece_blocks;
    constexpr unsigned pieces = own_pieces < most ? own_pieces : most;
    static_assert(R % 4 == 0 && (T == 8 || (T == 4 && R == 4 && P == 8)));
    const int32 own = state[OWNS + state[CORE]];
    box += ((own >> 24 & 0xff) * int32(Tile::box_columns) + (own >> 16 & 0xff)) * int32(P);
    results += first * int32(R);
    for (unsigned piece = 0; piece < pieces; ++piece) {
        for (unsigned y = 0; y < Tile::lane_rows; ++y) {
            const auto *from = box + (piece * Tile::box_rows + y) * Tile::box_columns * P;
            Result *to = results + y * Tile::width * pixel + piece * R * P;
            NT_AT_LEAST_2
            for (unsigned x = 0; x < Tile::width; ++x, from += P, to += pixel) {
                unroll<R / 4>([&](auto quarter) {
                    const auto row = [&](unsigned lane) {
                        return aie::load_v<P>(from + (quarter * 4 + lane) * Tile::lane_rows * Tile::box_columns * P);
                    };
                    const auto lanes = aie::concat(row(0), row(1), row(2), row(3));
                    if constexpr (P == 16) {
                        const auto lower = aie::filter_even(lanes, 8), higher = aie::filter_odd(lanes, 8);
                        unroll<2>([&](auto half) {
                            combine(lower.template extract<16>(half), to + quarter * 32 + half * 16);
                            combine(higher.template extract<16>(half), to + R * 8 + quarter * 32 + half * 16);
                        });
                    } else if constexpr (T == 8) {
                        combine(loaded<float>(lanes.template extract<16>(0)), to + quarter * 32);
                        combine(loaded<float>(lanes.template extract<16>(1)), to + quarter * 32 + 16);
                    } else {
                        combine(loaded<float>(aie::filter_even(lanes, 4)), to);
                        combine(loaded<float>(aie::filter_odd(lanes, 4)), to + 16);
                    }
                });
            }
        }
    }
}

}  // namespace nt
