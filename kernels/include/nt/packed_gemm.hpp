// Products with a B that the host has packed into blocks of bfp16: eight numbers along K share an exponent, in 9 bytes.
//
// B is stored in the order in which it is read: [N/T/block_columns][K/S][block_columns][T][9 bytes]. One load unit of
// the core reads blocks, the other one widens A.
#pragma once

#include "gemm.hpp"

namespace nt {

// Add a slice of A times B to the sums of the slice's rows. The cursor counts the slices.
template <typename Tile>
inline void multiply_packed(const bfloat16 *__restrict a, const uint8 *__restrict b, float *__restrict sums,
                            int32 *__restrict cursor) {
    constexpr unsigned rows = Tile::block_rows, columns = Tile::block_columns, width = Tile::N / Tile::T;
    using Sums = aie::accum<accfloat, 64>;
    static_assert(Tile::R == 8 && Tile::S == 8 && Tile::T == 8);
    aie::set_rounding(aie::rounding_mode::conv_even);
    sums += advance(cursor, Tile::slice, Tile::M * Tile::N);
    const auto block = [=](unsigned j, unsigned i, unsigned k) { return sums + (i * width + j + k) * Sums::size(); };
    const auto load = [&](unsigned j, unsigned i, unsigned k) { return Sums(aie::load_v<64>(block(j, i, k))); };
    Sums c[rows][columns];
    unroll<rows>([&](auto i) { unroll<columns>([&](auto k) { c[i][k] = load(0, i, k); }); });
    aie::block_vector_input_buffer_stream<bfp16ebs8, 64> blocks(reinterpret_cast<const bfp16ebs8 *>(b));
    for (unsigned j = 0; j < width; j += columns) {
        const bfloat16 *left = a;
        for (unsigned step = 0; step < Tile::K / Tile::S; ++step, left += rows * 64) {
            aie::block_vector<bfp16ebs8, 64> lefts[rows];
            unroll<rows>([&](auto i) {
                lefts[i] = Sums(aie::load_v<64>(left + i * 64)).template to_vector<bfp16ebs8>();
            });
            unroll<columns>([&](auto k) {
                const aie::block_vector<bfp16ebs8, 64> right = blocks.pop();
                unroll<rows>([&](auto i) { c[i][k] = mac_8x8_8x8T(lefts[i], right, c[i][k]); });
            });
        }
        // A core loads and stores in the same cycle: the next sums are loaded while these are stored, as in `multiply`.
        const unsigned next = j + columns < width ? j + columns : j;
        unroll<rows>([&](auto i) {
            unroll<columns>([&](auto k) {
                aie::store_v(block(j, i, k), c[i][k].template to_vector<float>());
                c[i][k] = load(next, i, k);
            });
        });
    }
}

}  // namespace nt
