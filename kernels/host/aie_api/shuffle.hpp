// Moving lanes within and between vectors.
#pragma once

#include <utility>

#include "vector.hpp"

namespace aie {

namespace detail {

// result[i] = v[source(i)]
template <unsigned M, typename T, unsigned N, typename Source>
vector<T, M> gather(const vector<T, N> &v, Source source) {
    vector<T, M> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), v));
    for (unsigned i = 0; i < M; ++i) result.data[i] = v.data[source(i)];
    return result;
}

inline void check_chunk(unsigned chunk, unsigned lanes) {
    if (chunk == 0 || (chunk & (chunk - 1)) || chunk > lanes)
        nt_host::fail("a chunk is a power of two within a vector");
}

}  // namespace detail

template <typename T, unsigned N, typename... Rest>
auto concat(const vector<T, N> &first, const Rest &...rest) {
    vector<T, N * (1 + sizeof...(Rest))> result;
    unsigned index = 0;
    result.insert(index, first);
    (result.insert(++index, rest), ...);
    return result;
}

template <typename T, unsigned N>
vector<T, N> reverse(const vector<T, N> &v) {
    return detail::gather<N>(v, [](unsigned i) { return N - 1 - i; });
}

// Lane i moves to lane i + n; the first n come from the top of `fill`.
template <typename T, unsigned N>
vector<T, N> shuffle_up_fill(const vector<T, N> &v, const vector<T, N> &fill, unsigned n) {
    if (n > N) nt_host::fail("a shift by more lanes than the vector has");
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), v, fill));
    std::memcpy(result.data, fill.data + (N - n), n * sizeof(T));
    std::memcpy(result.data + n, v.data, (N - n) * sizeof(T));
    return result;
}
// Lane i + n moves to lane i; the last n come from the bottom of `fill`.
template <typename T, unsigned N>
vector<T, N> shuffle_down_fill(const vector<T, N> &v, const vector<T, N> &fill, unsigned n) {
    if (n > N) nt_host::fail("a shift by more lanes than the vector has");
    vector<T, N> result;
    result.follow(nt_host::issue(nt_host::LANES, nt_host::pieces(N, native_vector_length_v<T>), v, fill));
    std::memcpy(result.data, v.data + n, (N - n) * sizeof(T));
    std::memcpy(result.data + (N - n), fill.data, n * sizeof(T));
    return result;
}
template <typename T, unsigned N>
vector<T, N> shuffle_up_rotate(const vector<T, N> &v, unsigned n) {
    return shuffle_up_fill(v, v, n);
}
template <typename T, unsigned N>
vector<T, N> shuffle_down_rotate(const vector<T, N> &v, unsigned n) {
    return shuffle_down_fill(v, v, n);
}
template <typename T, unsigned N>
vector<T, N> shuffle_up_replicate(const vector<T, N> &v, unsigned n) {
    return shuffle_up_fill(v, broadcast<T, N>(v.data[0]), n);
}
template <typename T, unsigned N>
vector<T, N> shuffle_down_replicate(const vector<T, N> &v, unsigned n) {
    return shuffle_down_fill(v, broadcast<T, N>(v.data[N - 1]), n);
}
// Lanes that move in are undefined on the array; here all their bits are ones.
template <typename T, unsigned N>
vector<T, N> shuffle_up(const vector<T, N> &v, unsigned n) {
    vector<T, N> undefined;
    std::memset(undefined.data, 0xff, sizeof undefined.data);
    return shuffle_up_fill(v, undefined, n);
}
template <typename T, unsigned N>
vector<T, N> shuffle_down(const vector<T, N> &v, unsigned n) {
    vector<T, N> undefined;
    std::memset(undefined.data, 0xff, sizeof undefined.data);
    return shuffle_down_fill(v, undefined, n);
}

// The lanes of both vectors, chunks in turn: first and second half of a0 b0 a1 b1 ...
template <typename T, unsigned N>
std::pair<vector<T, N>, vector<T, N>> interleave_zip(const vector<T, N> &a, const vector<T, N> &b, unsigned chunk) {
    detail::check_chunk(chunk, N);
    const auto time = nt_host::issue(nt_host::LANES, nt_host::pieces(2 * N, native_vector_length_v<T>), a, b);
    T all[2 * N];
    for (unsigned i = 0; i < N; ++i) {
        const unsigned target = i / chunk * 2 * chunk + i % chunk;
        all[target] = a.data[i];
        all[target + chunk] = b.data[i];
    }
    std::pair<vector<T, N>, vector<T, N>> result;
    result.first.follow(time);
    result.second.follow(time);
    std::memcpy(result.first.data, all, sizeof result.first.data);
    std::memcpy(result.second.data, all + N, sizeof result.second.data);
    return result;
}

// The even and the odd chunks of a followed by b: the inverse of interleave_zip.
template <typename T, unsigned N>
std::pair<vector<T, N>, vector<T, N>> interleave_unzip(const vector<T, N> &a, const vector<T, N> &b, unsigned chunk) {
    detail::check_chunk(chunk, N);
    const auto time = nt_host::issue(nt_host::LANES, nt_host::pieces(2 * N, native_vector_length_v<T>), a, b);
    T all[2 * N];
    std::memcpy(all, a.data, sizeof a.data);
    std::memcpy(all + N, b.data, sizeof b.data);
    std::pair<vector<T, N>, vector<T, N>> result;
    result.first.follow(time);
    result.second.follow(time);
    for (unsigned i = 0; i < N; ++i) {
        const unsigned source = i / chunk * 2 * chunk + i % chunk;
        result.first.data[i] = all[source];
        result.second.data[i] = all[source + chunk];
    }
    return result;
}

template <typename T, unsigned N>
vector<T, N / 2> filter_even(const vector<T, N> &v, unsigned chunk = 1) {
    detail::check_chunk(chunk, N / 2);
    return detail::gather<N / 2>(v, [=](unsigned i) { return i / chunk * 2 * chunk + i % chunk; });
}
template <typename T, unsigned N>
vector<T, N / 2> filter_odd(const vector<T, N> &v, unsigned chunk = 1) {
    detail::check_chunk(chunk, N / 2);
    return detail::gather<N / 2>(v, [=](unsigned i) { return i / chunk * 2 * chunk + i % chunk + chunk; });
}

// `v` holds a matrix of rows x columns, row after row; the result holds its columns.
template <typename T, unsigned N>
vector<T, N> transpose(const vector<T, N> &v, unsigned rows, unsigned columns) {
    if (rows * columns != N) nt_host::fail("transpose: the matrix does not fill the vector");
    return detail::gather<N>(v, [=](unsigned i) { return i % rows * columns + i / rows; });
}

}  // namespace aie
