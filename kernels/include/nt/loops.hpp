// Hints for loops. Compilers other than Peano ignore those of the last two groups.
#pragma once

// Unrolls a loop over parts. Registers cannot be indexed, and constants must be known at compile time, because a core
// has no floating-point unit for scalars.
#if defined(__clang__)
#define NT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NT_UNROLL
#endif

// Lets the instructions of `count` rounds overlap in a loop that Peano does not pipeline.
#define NT_PRAGMA(text) _Pragma(#text)
#if defined(__AIECC__)
#define NT_UNROLL_BY(count) NT_PRAGMA(clang loop unroll_count(count))
#else
#define NT_UNROLL_BY(count)
#endif

// Promises at least 2, 4 or 16 rounds of a loop whose length the compiler does not know. Without a promise, Peano
// overlaps no rounds (llvm-aie's PERF_OPT_GUIDE.md); with one, at most the promised number. An addition of bfloat16
// takes 4 cycles per round with 4 and one cycle with 16 (mlir-aie's levers.md, S29).
#if defined(__AIECC__)
#define NT_AT_LEAST_2 _Pragma("clang loop min_iteration_count(2)")
#define NT_AT_LEAST_4 _Pragma("clang loop min_iteration_count(4)")
#define NT_AT_LEAST_16 _Pragma("clang loop min_iteration_count(16)")
#else
#define NT_AT_LEAST_2
#define NT_AT_LEAST_4
#define NT_AT_LEAST_16
#endif
