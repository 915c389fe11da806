// What compilers are told of loops.
#pragma once

// Before loops over parts: registers cannot be indexed, and constants must be known when compiling, because a core has
// no floating-point unit for scalars.
#if defined(__clang__)
#define NT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NT_UNROLL  // for the host it does not matter
#endif

// Before loops that Peano does not pipeline: a round computes `count` vectors, whose instructions overlap.
#define NT_PRAGMA(text) _Pragma(#text)
#if defined(__AIECC__)
#define NT_UNROLL_BY(count) NT_PRAGMA(clang loop unroll_count(count))
#else
#define NT_UNROLL_BY(count)
#endif

// Before loops of at least so many rounds, of which the compiler does not know the number: only then Peano lets rounds
// overlap (llvm-aie's PERF_OPT_GUIDE.md), and no more of them than are promised: an addition of bfloat16 takes 4 cycles a
// round with 4 and one with 16 (mlir-aie's levers.md, S29). Other compilers do not know the hint.
#if defined(__AIECC__)
#define NT_AT_LEAST_4 _Pragma("clang loop min_iteration_count(4)")
#define NT_AT_LEAST_16 _Pragma("clang loop min_iteration_count(16)")
#else
#define NT_AT_LEAST_4
#define NT_AT_LEAST_16
#endif
