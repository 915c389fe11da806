// Rotary position embedding: pairs of features turned by an angle that is proportional to the row's position.
#pragma once

#include "vector_math.hpp"

namespace nt {

// Cosines and sines of one position, each as the sum of two bfloat16 numbers: what is left of 2^-17 vanishes when the
// result is rounded to bfloat16. `Pairs` is a multiple of 32.
template <unsigned Pairs>
struct RopeTable {
  bfloat16 *cosine, *cosine_rest, *sine, *sine_rest;

  explicit RopeTable(bfloat16 *memory)
      : cosine(memory), cosine_rest(memory + Pairs), sine(memory + 2 * Pairs), sine_rest(memory + 3 * Pairs) {}

  // turns[i] is the angle of position 1 in units of 2^-32 turns. Times the position, modulo 2^32, it is the angle
  // within one turn: the error is 2^-33 turns times the position, and no range reduction is needed.
  void fill(int32 position, const int32 *turns, float magnitude) {
    constexpr unsigned lanes = 16;
    for (unsigned i = 0; i < Pairs; i += lanes) {
      const Int<lanes> turned = nt::mul(aie::load_v<lanes>(turns + i), aie::broadcast<int32, lanes>(position));
      const Float<lanes> angle = nt::mul(cast<float>(turned), constant<lanes>(1.4629180792671596e-9f)); // 2 pi / 2^32
      const Float<lanes> size = constant<lanes>(magnitude);
      const auto cosines = split<2>(nt::mul<half>(nt::cos<half>(angle), size));
      const auto sines = split<2>(nt::mul<half>(nt::sin<half>(angle), size));
      aie::store_v(cosine + i, cosines.part[0]);
      aie::store_v(cosine_rest + i, cosines.part[1]);
      aie::store_v(sine + i, sines.part[0]);
      aie::store_v(sine_rest + i, sines.part[1]);
    }
  }
};

// The pairs (a, b) from number `i` on, turned: a cos - b sin and a sin + b cos.
template <unsigned lanes, unsigned Pairs>
inline void turn(Bfloat<lanes> a, Bfloat<lanes> b, const RopeTable<Pairs> &table, unsigned i, Sum<lanes> &first,
                 Sum<lanes> &second) {
  const Bfloat<lanes> cosine = aie::load_unaligned_v<lanes>(table.cosine + i);
  const Bfloat<lanes> cosine_rest = aie::load_unaligned_v<lanes>(table.cosine_rest + i);
  const Bfloat<lanes> sine = aie::load_unaligned_v<lanes>(table.sine + i);
  const Bfloat<lanes> sine_rest = aie::load_unaligned_v<lanes>(table.sine_rest + i);
  first = aie::mac(aie::mul(a, cosine), a, cosine_rest);
  first = aie::msc(aie::msc(first, b, sine), b, sine_rest);
  second = aie::mac(aie::mul(a, sine), a, sine_rest);
  second = aie::mac(aie::mac(second, b, cosine), b, cosine_rest);
}

// One row of `Features`, of which the first `Dims` form pairs: neighbours, or else the halves of `Dims`.
template <bool Neighbours, unsigned Features, unsigned Dims, unsigned Pairs, typename Stored>
inline void rotate_row(const bfloat16 *__restrict x, const RopeTable<Pairs> &table, Stored *__restrict y) {
  constexpr unsigned half_dims = Dims / 2;
  constexpr unsigned lanes = half_dims >= 32 ? 32 : 16;
  constexpr unsigned step = Neighbours ? 2 : 1, distance = Neighbours ? 1 : half_dims;
  Sum<lanes> first, second;
  if constexpr (half_dims < lanes) {
    Bfloat<lanes> a = aie::zeros<bfloat16, lanes>(), b = a;
    for (unsigned i = 0; i < half_dims; ++i) {
      a.set(x[step * i], i);
      b.set(x[step * i + distance], i);
    }
    turn(a, b, table, 0, first, second);
    const auto firsts = first.template to_vector<Stored>(), seconds = second.template to_vector<Stored>();
    for (unsigned i = 0; i < half_dims; ++i) {
      y[step * i] = firsts.get(i);
      y[step * i + distance] = seconds.get(i);
    }
  } else {
    // The last vector overlaps the one before it.
    for (unsigned start = 0; start < half_dims; start += lanes) {
      const unsigned i = start + lanes <= half_dims ? start : half_dims - lanes;
      if constexpr (Neighbours) {
        auto [a, b] = aie::interleave_unzip(aie::load_unaligned_v<lanes>(x + 2 * i),
                                            aie::load_unaligned_v<lanes>(x + 2 * i + lanes), 1);
        turn(a, b, table, i, first, second);
        auto [low, high] = aie::interleave_zip(first.template to_vector<Stored>(), second.template to_vector<Stored>(), 1);
        aie::store_unaligned_v(y + 2 * i, low);
        aie::store_unaligned_v(y + 2 * i + lanes, high);
      } else {
        turn(aie::load_unaligned_v<lanes>(x + i), aie::load_unaligned_v<lanes>(x + half_dims + i), table, i, first,
             second);
        aie::store_unaligned_v(y + i, first.template to_vector<Stored>());
        aie::store_unaligned_v(y + half_dims + i, second.template to_vector<Stored>());
      }
    }
  }
  for (unsigned i = Dims; i < Features; ++i)
    y[i] = Stored(static_cast<float>(x[i]));
}

} // namespace nt
