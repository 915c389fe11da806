// Transposition of a tile of 1- or 2-byte elements, which no DMA can do.
#pragma once

#include <aie_api/aie.hpp>

namespace nt {

// result[column * pitch + row] = source[row * columns + column].
//
// Blocks of 16 rows by one vector of columns go through four rounds of a perfect shuffle. Each round interleaves the
// first half of the vectors with the second, which rotates the bits of an element's place (row, column) by one: after
// log2(16) rounds, the row is the lower part of the place. Elements at the edges are copied one by one.
//
// Aligned: true if columns are multiples of a vector, and rows, pitch and the place of `result` multiples of 16.
template <typename T, bool Aligned>
inline void transpose(const T *__restrict source, T *__restrict result, int32 rows, int32 columns, int32 pitch) {
    constexpr int32 lanes = 64 / sizeof(T);
    constexpr int32 block = 16;
    const int32 whole_rows = rows / block * block, whole_columns = columns / lanes * lanes;
    for (int32 row = 0; row < whole_rows; row += block)
        for (int32 column = 0; column < whole_columns; column += lanes) {
            aie::vector<T, lanes> values[block], shuffled[block];
            for (int32 i = 0; i < block; ++i) {
                const T *vector = source + (row + i) * columns + column;
                values[i] = Aligned ? aie::load_v<lanes>(vector) : aie::load_unaligned_v<lanes>(vector);
            }
            for (int32 round = 0; round < 4; ++round) {
                for (int32 i = 0; i < block / 2; ++i) {
                    auto [low, high] = aie::interleave_zip(values[i], values[i + block / 2], 1);
                    shuffled[2 * i] = low;
                    shuffled[2 * i + 1] = high;
                }
                for (int32 i = 0; i < block; ++i) values[i] = shuffled[i];
            }
            constexpr int32 parts = lanes / block;
            for (int32 i = 0; i < lanes; ++i) {
                T *vector = result + (column + i) * pitch + row;
                const auto rows_of_column = values[i / parts].template extract<block>(i % parts);
                if constexpr (Aligned)
                    aie::store_v(vector, rows_of_column);
                else
                    aie::store_unaligned_v(vector, rows_of_column);
            }
        }
    if constexpr (Aligned) return;
    for (int32 row = 0; row < rows; ++row)
        for (int32 column = row < whole_rows ? whole_columns : 0; column < columns; ++column)
            result[column * pitch + row] = source[row * columns + column];
}

}  // namespace nt
