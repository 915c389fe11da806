// The subset of AMD's aie_api that the kernels use, for the host's compiler: same names, same lanes, same rounding.
//
// With this folder's parent on the include path, g++ and clang++ compile the source of a core unchanged, and the
// simulator runs it. Functions that the array does not have do not compile here either. Operations that the array
// executes wrongly without an error, such as an access at an unaligned address, fail here.
//
// Known differences: sums of products are rounded after each term here, except in products of bfloat16 matrices on
// aie2. The array's order and rounding within one instruction are not documented otherwise. A product of float vectors
// is exact and rounded once here; the array composes it of products of bfloat16.
#pragma once

#include "accum.hpp"
#include "memory.hpp"
#include "mmul.hpp"
#include "operations.hpp"
#include "shuffle.hpp"
#include "types.hpp"
#include "vector.hpp"

// Marks for the tracing unit.
inline void event0() {}
inline void event1() {}
