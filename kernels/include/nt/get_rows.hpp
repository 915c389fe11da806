// Selection of rows of a table that arrives as a stream.
#pragma once

#include <aie_api/aie.hpp>

#include "loops.hpp"

namespace nt {

// Copy neighbours in whole vectors; the last vector overlaps the previous one.
inline void copy_words(const int32 *__restrict source, int32 *__restrict result, int32 words) {
    constexpr int32 lanes = 16;
    if (words < lanes) {
        for (int32 i = 0; i < words; ++i) result[i] = source[i];
        return;
    }
    const auto copy = [&](int32 i) { aie::store_unaligned_v(result + i, aie::load_unaligned_v<lanes>(source + i)); };
    if (words >= 4 * lanes) {
        NT_AT_LEAST_4
        for (int32 i = 0; i + lanes <= words; i += lanes) copy(i);
    } else {
        for (int32 i = 0; i + lanes <= words; i += lanes) copy(i);
    }
    const int32 last = words - lanes;
    aie::store_unaligned_v(result + last, aie::load_unaligned_v<lanes>(source + last));
}

// result[i] = the row with the number indices[i], if it is among the `rows` rows of `table`. These begin with the row
// *position, or with the row `last` where the last object overlaps the one before it. Other rows of the result are
// left as they are.
inline void get_rows(const int32 *__restrict table, const int32 *__restrict indices, int32 *__restrict result,
                     int32 *__restrict position, int32 words, int32 rows, int32 count, int32 last) {
    const int32 first = *position < last ? *position : last;
    *position += rows;
    for (int32 i = 0; i < count; ++i) {
        const int32 row = indices[i] - first;
        if (row >= 0 && row < rows) copy_words(table + row * words, result + i * words, words);
    }
}

}  // namespace nt
