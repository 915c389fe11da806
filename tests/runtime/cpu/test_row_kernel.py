"""Generated kernels against NumPy: maps, reductions along and across rows, in every layout and dtype."""

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_harness import LEVELS, run, target

from npu_tensor.ops.expression import Program, ProgramBuilder, Symbol
from npu_tensor.runtime.cpu.loop_kernel import length_class, loop_kernel
from npu_tensor.runtime.cpu.map_kernel import LoopOperand, LoopSpec, tile_count
from npu_tensor.runtime.cpu.row_kernel import SCRATCH_LENGTH

LENGTHS = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 70, 129, 1000]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
DTYPES = ("float32", "float64", *INTEGERS)


def program(function: Callable[..., Symbol | list[Symbol]], *dtypes: str, scalars: str = "") -> Program:
    """Record `function` of one load per dtype and, if `scalars` names a dtype, a run-time number."""
    builder = ProgramBuilder()
    operands = [builder.load(slot, dtype) for slot, dtype in enumerate(dtypes)]
    if scalars:
        operands.append(builder.scalar(len(dtypes), scalars))
    results = function(*operands)
    return builder.program(results if isinstance(results, list) else [results])


def emit(name: str, *operands: Symbol) -> Symbol:
    return operands[0].builder.emit(name, operands)


def softmax(x: Symbol) -> Symbol:
    e = np.exp(x - emit("row_max", x))
    return e / emit("row_sum", e)


def softmax_reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64))
    return e / e.sum(-1, keepdims=True)


def random(shape: tuple[int, ...], seed: int = 0, dtype: str = "float32") -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        information = np.iinfo(dtype)
        return generator.integers(information.min, information.max, shape, dtype, endpoint=True)
    return generator.normal(0, 2, shape).astype(dtype)


@contextmanager
def guarded(size: int, at_end: bool) -> Iterator[np.ndarray]:
    """Bytes that end (`at_end`) or begin at the edge of memory that must not be accessed."""
    page = mmap.PAGESIZE
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    everything = np.frombuffer(memory, np.uint8)
    address = everything.ctypes.data
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    edges = (address, address + (pages + 1) * page)
    for edge in edges:
        assert protect(edge, page, 0) == 0
    start = page + (pages * page - size if at_end else 0)
    try:
        yield everything[start : start + size]
    finally:
        for edge in edges:
            protect(edge, page, mmap.PROT_READ | mmap.PROT_WRITE)


# ---------------------------------------------------------------------- maps


@pytest.mark.parametrize("level", LEVELS)
def test_a_flat_map_of_any_length_writes_its_elements_and_no_others(level: str) -> None:
    formula = program(lambda a, b, c: (a * b + c) / np.sqrt(abs(a) + 1), "float32", "float32", "float32")
    for length in range(71):
        a, b, c = (random((length,), seed) for seed in range(3))
        result = np.full(length + 32, 7, np.float32)
        run(level, formula, [result[:length], a, b, c], shape=(length,))
        exact = (a * b.astype(np.float64) + c) / np.sqrt(np.abs(a.astype(np.float64)) + 1)
        np.testing.assert_allclose(result[:length], exact, rtol=1e-5, atol=1e-6)
        assert (result[length:] == 7).all()


@pytest.mark.parametrize("level", LEVELS)
def test_any_part_of_a_map_can_be_computed_by_itself(level: str) -> None:
    add = program(lambda a, b: a + b, "float32", "float32")
    a, bias = random((6, 21)), np.broadcast_to(random((21,), 1), (6, 21))
    for begin, end in ((0, 0), (5, 5), (0, 1), (3, 20), (20, 22), (21, 42), (30, 126), (1, 125), (125, 126)):
        result = np.zeros((6, 21), np.float32)
        run(level, add, [result, a, bias], begin, end)
        expected = np.zeros(126, np.float32)
        expected[begin:end] = (a + bias).ravel()[begin:end]
        np.testing.assert_array_equal(result.ravel(), expected)


@pytest.mark.parametrize(
    ("level", "dtype"),
    [
        pytest.param(level, dtype, marks=[pytest.mark.slow] if level == "avx2" and dtype in INTEGERS else [])
        for level in LEVELS
        for dtype in DTYPES
    ],
)
def test_maps_read_and_write_every_layout(level: str, dtype: str) -> None:
    """Every layout of an operand in every dtype; those of another operand and of the result take turns."""
    formula = program(lambda a, b, c: a + b - c, dtype, dtype, dtype)
    for inner in (1, 5, 16, 37):
        shape = (2, 3, inner)
        layouts = {
            "rows": np.broadcast_to(random((2, 3, 1), 1, dtype), shape),
            "one row": np.broadcast_to(random((inner,), 2, dtype), shape),
            "transposed": random((inner, 3, 2), 3, dtype).transpose(2, 1, 0),
            "reversed": random(shape, 4, dtype)[::-1, :, ::-1],
            "every second": random((2, 3, 2 * inner), 5, dtype)[..., ::2],
        }
        first = random(shape, 6, dtype)
        for turn, b in enumerate(layouts.values(), DTYPES.index(dtype)):
            c = layouts["transposed" if turn % 2 else "one row"]
            result = np.zeros((inner, 2, 3), dtype).transpose(1, 2, 0) if turn // 2 % 2 else np.zeros(shape, dtype)
            run(level, formula, [result, first, b, c])
            np.testing.assert_allclose(result, first + b - c, rtol=2e-7, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="uses mprotect")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGERS, "bool", "bfloat16"])
def test_reversed_and_every_second_element(level: str, dtype: str) -> None:
    """The kernel does not read before or after the elements: the pages there are not accessible."""
    register = {"bfloat16": "float32"}.get(dtype, dtype)
    for length in (1, 2, 15, 16, 17, 50, 64, 129):
        source = random((2 * length,), length, "bool" if dtype == "bool" else "float32")
        source = source.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        itemsize = source.itemsize
        for access, stride, at_end in (("reversed", -1, False), ("reversed", -1, True), ("alternate", 2, True)):
            count = length if stride < 0 else 2 * length - 1
            with guarded(count * itemsize, at_end) as memory:
                raw = memory.view(np.uint16 if dtype == "bfloat16" else dtype)
                raw[:] = source[:count].view(raw.dtype)
                view = source[:count][::stride]
                result = np.full(length + 16, 7, raw.dtype)
                formula = program((lambda x: ~x) if dtype == "bool" else (lambda x: x + x), register)
                run(level, formula, [result[:length], raw[::stride]], accesses=["contiguous", access],
                    dtypes=[dtype, dtype])  # fmt: skip
                with np.errstate(over="ignore"):
                    expected = ~view if dtype == "bool" else view + view
                np.testing.assert_array_equal(result[:length], expected.view(raw.dtype), err_msg=f"{access} {length}")
                assert (result[length:] == raw.dtype.type(7)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGERS])
def test_tiles_of_transposed_operands(level: str, dtype: str) -> None:
    """Sizes below, at and above one tile and one block; two transposed operands among others."""
    formula = program(lambda a, b, c, d: a + b - c + d, *[dtype] * 4)
    accesses = ["contiguous", "transposed", "contiguous", "transposed", "row"]
    for rows, inner in ((16, 16), (17, 31), (64, 64), (65, 16), (16, 150), (131, 79)):
        shape = (2, rows, inner)
        a = random((2, inner, rows), 1, dtype).swapaxes(1, 2)
        b = random(shape, 2, dtype)
        c = random((inner + 3, 2, rows + 5), 3, dtype)[:inner, :, 5:].transpose(1, 2, 0)
        d = np.broadcast_to(random((2, rows, 1), 4, dtype), shape)
        memory = np.full((2, rows, inner + 3), 7, dtype)
        run(level, formula, [memory[..., :inner], a, b, c, d], accesses=accesses)
        np.testing.assert_allclose(memory[..., :inner], a + b - c + d, rtol=2e-7, atol=2e-6)
        assert (memory[..., inner:] == 7).all()


@pytest.mark.parametrize("level", LEVELS)
def test_any_part_of_the_tiles_can_be_computed_by_itself(level: str) -> None:
    x = random((3, 100, 140))
    size = tile_count((3, 140), 100)
    assert size == 3 * 3 * 2
    for begin, end in ((0, 0), (4, 4), (0, 1), (1, 3), (5, 14), (17, 18), (0, size)):
        result = np.full((3, 140, 100), 7, np.float32)
        formula = program(lambda a: -a, "float32")
        run(level, formula, [result, x.swapaxes(1, 2)], begin, end, accesses=["contiguous", "transposed"])
        expected = np.full((3, 140, 100), 7, np.float32)
        for tile in range(begin, end):
            matrix, row, column = tile // 6, tile // 2 % 3 * 64, tile % 2 * 64
            part = (matrix, slice(row, row + 64), slice(column, column + 64))
            expected[part] = -x.swapaxes(1, 2)[part]
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("level", [*LEVELS, "-avx512bf16"])
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("streaming", [False, True])
def test_16_bit_floats_are_computed_in_float32_and_rounded_once(level: str, name: str, streaming: bool) -> None:
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.float16
    formula = program(lambda a, b: a * b + a, "float32", "float32")
    memory = np.zeros(4096 + 64, np.uint16)
    start = -memory.ctypes.data % 64 // 2
    for length, shift in ((1, 0), (64, 0), (1000, 0), (1000, 1), (4000, 32)):
        a, b = (random((length,), seed).astype(dtype) for seed in range(2))
        result = memory[start + shift :][:length]
        run(
            level,
            formula,
            [result, a.view(np.uint16), b.view(np.uint16)],
            dtypes=[name] * 3,
            nontemporal=streaming,
        )
        wide = a.astype(np.float64) * b.astype(np.float64) + a.astype(np.float64)
        np.testing.assert_allclose(
            result.view(dtype).astype(np.float64),
            wide,
            rtol=0.0041 if dtype != np.float16 else 5e-4,
            atol=1e-6,
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_streaming_stores_write_the_same(level: str, dtype: str) -> None:
    add = program(lambda a, b: a + b, dtype, dtype)
    memory = np.zeros(2048, dtype)
    start = -memory.ctypes.data % 64 // memory.itemsize
    for length, shift in ((0, 0), (5, 0), (64, 0), (1000, 0), (999, 3)):
        a, b = random((length,), 0, dtype), random((length,), 1, dtype)
        result = memory[start + shift :][:length]
        run(level, add, [result, a, b], nontemporal=True)
        np.testing.assert_array_equal(result, a + b)


def test_an_output_may_be_an_input() -> None:
    add = program(lambda a, b: a + b, "float32", "float32")
    for length in (5, 64, 1000):
        a, b = random((length,)), random((length,), 1)
        expected = a + b
        run("", add, [a, a, b])
        np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps_and_shifts_are_defined_for_every_count(level: str, dtype: str) -> None:
    bits = np.iinfo(dtype).bits
    a, b = random((300,), 0, dtype), random((300,), 1, dtype)
    count = np.arange(300).astype(dtype) % (bits + 5)
    references: dict[str, Any] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    with np.errstate(over="ignore"):
        for name, reference in references.items():
            result = np.empty_like(a)
            run(level, program(lambda x, y, name=name: emit(name, x, y), dtype, dtype), [result, a, b])
            np.testing.assert_array_equal(result, reference(a, b), err_msg=name)
    for name, shift in (("shift_left", lambda x, n: x << n), ("shift_right", lambda x, n: x >> n)):
        result = np.empty_like(a)
        run(level, program(lambda x, y, name=name: emit(name, x, y), dtype, dtype), [result, a, count])
        exact = [shift(int(x), int(n)) & (2**bits - 1) for x, n in zip(a, count, strict=True)]
        np.testing.assert_array_equal(
            result, np.array(exact, np.uint64).astype(f"uint{bits}").view(dtype), err_msg=name
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_comparisons_select_and_logic(level: str, dtype: str) -> None:
    a, b = random((200,), 0, dtype), random((200,), 1, dtype)
    b[::3] = a[::3]
    if dtype.startswith("float"):
        a[5:20:5], b[10:30:5], a[40:60], b[50:70] = np.nan, np.nan, np.inf, -np.inf
    comparisons = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                   "ge": np.greater_equal}  # fmt: skip
    for name, reference in comparisons.items():
        holds, chosen = np.empty(200, bool), np.empty_like(a)
        formula = program(
            lambda x, y, name=name: [~emit(name, x, y) ^ (x == x), np.where(emit(name, x, y), x, y)],
            dtype,
            dtype,
        )
        run(level, formula, [holds, chosen, a, b])
        np.testing.assert_array_equal(holds, ~reference(a, b) ^ (a == a), err_msg=name)
        np.testing.assert_array_equal(chosen, np.where(reference(a, b), a, b), err_msg=name)
    for name in ("maximum", "minimum"):
        run(level, program(lambda x, y, name=name: emit(name, x, y), dtype, dtype), [chosen, a, b])
        np.testing.assert_array_equal(chosen, getattr(np, name)(a, b), err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", ["float32", "float64", *INTEGERS, "bool"])
def test_casts(level: str, source: str) -> None:
    x = random((100,), 0, source)
    floats = source.startswith("float")
    if floats:
        x[:6] = [0.0, -0.0, 0.99, -0.99, 100.5, -100.5]
    for result_dtype in ("float32", "float64", *INTEGERS, "bool"):
        result = np.empty(x.shape, result_dtype)
        values = np.maximum(x, 0) if floats and result_dtype == "uint8" else x
        run(level, program(lambda x, to=result_dtype: x.astype(to), source), [result, values])
        np.testing.assert_array_equal(result, values.astype(result_dtype), err_msg=result_dtype)
    if floats:
        extreme = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38] * 20, source)
        for result_dtype in INTEGERS:
            limits = np.iinfo(result_dtype)
            result = np.empty(extreme.shape, result_dtype)
            run(level, program(lambda x, to=result_dtype: x.astype(to), source), [result, extreme])
            expected = [0, limits.max, limits.min, limits.max, limits.min] * 20
            np.testing.assert_array_equal(result, np.array(expected, result_dtype), err_msg=result_dtype)


@pytest.mark.parametrize("level", LEVELS)
def test_run_time_numbers_and_positions(level: str) -> None:
    builder = ProgramBuilder()
    position = builder.emit("index").astype("float32")
    formula = builder.program([builder.load(0, "float32") * builder.scalar(1, "float32") + position])
    x, result = random((3, 37)), np.zeros((3, 37), np.float32)
    run(level, formula, [result, x, 2.5])
    np.testing.assert_allclose(result, x.astype(np.float64) * 2.5 + np.arange(37), rtol=1e-6, atol=1e-6)

    builder = ProgramBuilder()
    formula = builder.program([builder.load(0, "int16") + builder.scalar(1, "int16")])
    numbers, total = random((50,), 0, "int16"), np.zeros(50, np.int16)
    with np.errstate(over="ignore"):
        run(level, formula, [total, numbers, -1234])
        np.testing.assert_array_equal(total, numbers + np.int16(-1234))


# ---------------------------------------------------------------------- rows

REFERENCES = {
    "row_sum": lambda x: x.sum(-1, dtype=x.dtype if x.dtype.kind in "iu" else np.float64),
    "row_prod": lambda x: x.prod(-1, dtype=x.dtype if x.dtype.kind in "iu" else np.float64),
    "row_max": lambda x: x.max(-1),
    "row_min": lambda x: x.min(-1),
    "row_argmax": lambda x: x.argmax(-1),
    "row_argmin": lambda x: x.argmin(-1),
}


def reduce(level: str, name: str, x: np.ndarray, columns: bool = False, **options: Any) -> np.ndarray:
    dtype = "int64" if "arg" in name else x.dtype
    result = np.full((*x.shape[:-1], 1), 99, dtype)
    view = np.lib.stride_tricks.as_strided(result, x.shape, (*result.strides[:-1], 0))
    run(level, program(lambda a: emit(name, a), str(x.dtype)), [view, x], columns=columns, shape=x.shape, **options)
    return result[..., 0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", REFERENCES)
def test_reductions_of_every_length(level: str, columns: bool, name: str) -> None:
    for length in LENGTHS[1:]:
        x = random((3, length), length) if name != "row_prod" else random((3, length), length) / 4 + 1
        if columns:
            x = np.ascontiguousarray(x.T).T
        np.testing.assert_allclose(reduce(level, name, x, columns), REFERENCES[name](x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64"])
def test_short_rows_of_a_promised_length(level: str, dtype: str) -> None:
    """All reductions of every length in float32; in the other dtypes, two of every length, which take turns."""
    for number, length in enumerate((1, 2, 3, 4, 5, 8, 13, 16, 31, 48, 57, 64)):
        x = random((9, length), length, dtype)
        x[::2] = x[::2, ::-1]
        if dtype.startswith("float"):
            x[4, length // 2], x[5, -1], x[6] = np.nan, -np.inf, np.inf
        for turn, (name, reference) in enumerate(REFERENCES.items(), number):
            if dtype != "float32" and turn % 3:
                continue
            with np.errstate(invalid="ignore"):
                expected = reference(x)
            result = reduce(level, name, x, length=length)
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=f"{name} {length}")


@pytest.mark.parametrize("level", LEVELS)
def test_short_rows_write_their_elements_and_no_others(level: str) -> None:
    formula = program(lambda a, b: [a - emit("row_max", a) * b, emit("row_sum", a)], "float32", "float32")
    for length in (1, 3, 8, 15, 17, 32, 50):
        a, b = random((5, length + 2))[:, 2:], random((length,), 1)
        memory, totals = np.full((5, length + 20), 7, np.float32), np.full((5, 2), 7, np.float32)
        view = np.lib.stride_tricks.as_strided(totals, a.shape, (8, 0))
        run(level, formula, [memory[:, :length], view, a, np.broadcast_to(b, a.shape)], 1, 4, length=length)
        expected = np.full_like(memory, 7)
        expected[1:4, :length] = (a - a.max(-1, keepdims=True) * b)[1:4]
        np.testing.assert_allclose(memory, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(totals[1:4, 0], a[1:4].sum(-1, dtype=np.float64), rtol=1e-5, atol=1e-5)
        assert (totals[:, 1] == 7).all()
        assert (totals[[0, 4]] == 7).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float64", *INTEGERS])
@pytest.mark.parametrize("columns", [False, True])
def test_reductions_of_every_dtype(level: str, dtype: str, columns: bool) -> None:
    """The layouts take turns."""
    x = random((5, 83), 0, dtype)
    for number, layout in enumerate((x, np.ascontiguousarray(x.T).T, random((5, 249), 1, dtype)[:, ::3])):
        for turn, (name, reference) in enumerate(REFERENCES.items(), number + DTYPES.index(dtype)):
            if turn % 3 == 0:
                result = reduce(level, name, layout, columns)
                np.testing.assert_allclose(result, reference(layout), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
def test_empty_rows_have_neutral_results(level: str, columns: bool) -> None:
    x = np.zeros((4, 0), np.float32)
    for name, neutral in (("row_sum", 0), ("row_prod", 1), ("row_max", -np.inf), ("row_min", np.inf)):
        for options in ({}, {"length": 0}):
            result = reduce(level, name, x, columns, **options)
            np.testing.assert_array_equal(result, np.full(4, neutral, np.float32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
def test_nan_wins_and_the_first_of_equals_is_found(level: str, columns: bool) -> None:
    x = np.random.default_rng(0).integers(0, 4, (40, 150)).astype(np.float32)
    x[10:20][np.random.default_rng(1).random((10, 150)) < 0.03] = np.nan
    x[20], x[21], x[22] = -np.inf, np.inf, np.nan
    x[23, :] = -np.inf
    x[23, 149] = np.nan
    for name in ("row_max", "row_min", "row_argmax", "row_argmin"):
        np.testing.assert_array_equal(reduce(level, name, x, columns), REFERENCES[name](x), err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_rows_asked_for_are_computed(level: str) -> None:
    x = random((3, 7, 33))
    for begin, end in ((0, 0), (2, 9), (20, 21), (0, 21)):
        for columns in (False, True):
            result = np.full((3, 7, 1), 99, np.float32)
            view = np.lib.stride_tricks.as_strided(result, x.shape, (*result.strides[:-1], 0))
            run(
                level,
                program(lambda a: emit("row_max", a), "float32"),
                [view, x],
                begin,
                end,
                columns=columns,
            )
            expected = np.full(21, 99, np.float32)
            expected[begin:end] = x.max(-1).ravel()[begin:end]
            np.testing.assert_array_equal(result.ravel(), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
def test_softmax(level: str, columns: bool) -> None:
    formula = program(softmax, "float32")
    for rows, length in ((1, 1), (3, 2), (2, 16), (5, 70), (70, 5), (3, 1000), (2, SCRATCH_LENGTH + 5)):
        x = random((rows, length)) * 5
        x = np.ascontiguousarray(x.T).T if columns else x
        result = np.zeros_like(x)
        run(level, formula, [result, x], columns=columns)
        np.testing.assert_allclose(result, softmax_reference(x), rtol=3e-6, atol=1e-9)
        if length <= 1000:
            again = np.zeros_like(x)
            run(level, formula, [again, x], columns=columns, length=length)
            np.testing.assert_allclose(again, softmax_reference(x), rtol=3e-6, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
def test_reductions_of_reductions_with_results_of_both_kinds(level: str, columns: bool) -> None:
    """Mean, variance and normalized elements in one kernel, from an expensive function of the input."""

    def normalize(x: Symbol) -> list[Symbol]:
        y = np.tanh(x)
        mean = emit("row_sum", y) / 77
        variance = emit("row_sum", (y - mean) * (y - mean)) / 77
        return [mean, (y - mean) / np.sqrt(variance + 1e-3), variance]

    x = random((6, 77)) * 3
    x = np.ascontiguousarray(x.T).T if columns else x
    mean, variance, result = np.zeros((6, 1), np.float32), np.zeros((6, 1), np.float32), np.zeros_like(x)
    per_row = [np.lib.stride_tricks.as_strided(array, x.shape, (4, 0)) for array in (mean, variance)]
    run(
        level,
        program(normalize, "float32"),
        [per_row[0], result, per_row[1], x],
        columns=columns,
        shape=x.shape,
    )
    y = np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(mean[:, 0], y.mean(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance[:, 0], y.var(-1), rtol=1e-5)
    exact = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
def test_long_float32_sums_lose_little(level: str, columns: bool) -> None:
    x = np.random.default_rng(0).random((2, 1_000_001), np.float32)
    x = np.ascontiguousarray(x.T).T if columns else x
    np.testing.assert_allclose(reduce(level, "row_sum", x, columns), x.sum(-1, dtype=np.float64), rtol=1.2e-7)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("inner", [1, 3, 16, 70, 300])
def test_rows_of_several_runs(level: str, inner: int) -> None:
    """Sum, position and elements, of operands that vary along any of the dimensions of a row."""

    def combine(a: Symbol, b: Symbol, c: Symbol, d: Symbol) -> list[Symbol]:
        x = a * b + c * d
        return [emit("row_sum", x) * d, emit("row_argmax", x), x - emit("row_max", x) * d]

    shape = (3, 5, 4, inner)
    a, b, d = random((3, 5, 1, 1)), random((4, inner), 1), random((3, 1, 1, 1), 2)
    c = random((4, 3, 5, inner), 3).transpose(1, 2, 0, 3)
    inputs = [np.broadcast_to(x, shape) for x in (a, b, c, d)]
    total, place, elements = np.zeros((3, 1, 1, 1), np.float32), np.zeros((3, 1, 1, 1), np.int64), np.zeros(shape, "f4")
    per_row = [np.lib.stride_tricks.as_strided(x, shape, (x.itemsize, 0, 0, 0)) for x in (total, place)]
    run(level, program(combine, *["float32"] * 4), [*per_row, elements, *inputs], shape=shape, runs=2)
    exact = a.astype(np.float64) * b + c * d.astype(np.float64)
    np.testing.assert_allclose(total.ravel(), exact.sum((1, 2, 3)) * d.ravel(), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(place.ravel(), exact.reshape(3, -1).argmax(-1))
    np.testing.assert_allclose(elements, exact - exact.max((1, 2, 3), keepdims=True) * d, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------- targets


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("made", [program(softmax, "float32"), program(lambda x: emit("row_sum", x), "float32")])
def test_lengths_of_one_class_share_their_code(made: Program, columns: bool, level: str) -> None:
    """Kernels are kept by class: a wrong one would run code for rows of another length."""
    per_row = len(made.instructions) == 2
    result = LoopOperand("float32", "row" if per_row and not columns else "contiguous")
    operands = (result, LoopOperand("float32", "contiguous"))
    lanes = target(level).lanes
    lengths = {*LENGTHS, *range(1, 5 * lanes), 4095, 4096, 4097, 16383, 16384, 16385, 20000, 65536, 65537}

    def text(length: int | None) -> str:
        return loop_kernel(LoopSpec(made, operands, 1, columns=columns, length=length), target(level))

    for length in lengths - {0}:
        known = length_class(made, length, lanes, columns)
        assert known is not None
        assert known >= length
        assert text(length) == text(known)
