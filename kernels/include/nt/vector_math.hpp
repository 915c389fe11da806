// Every primitive of npu_tensor/ops/expression.py as a function of namespace nt, for the cores of both generations.
//
// Registers are aie::vector<T, N> of at most 512 bits; bool is aie::mask<N>. A function that rounds to bfloat16 or
// computes with floats expects aie::set_rounding(aie::rounding_mode::conv_even) at the beginning of the kernel.
// Functions with a template parameter P take nt::full (the default) or nt::half, see precision.hpp. Denormal operands
// and results may count as zeros, as they do in the array's arithmetic.
#pragma once

#include "approximate.hpp"
#include "arithmetic.hpp"
#include "division.hpp"
#include "exponential.hpp"
#include "memory.hpp"
#include "power.hpp"
#include "precision.hpp"
#include "trigonometric.hpp"
