"""Matrix products of the CPU device against NumPy in float64 (floats) and int64 (integers).

Scratch memory begins as NaN and operands lie among NaN (integers: their largest number), so that whatever is
read without being part of the product shows in the result.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tensor.config import config
from npu_tensor.errors import DTypeError
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program, ProgramBuilder
from npu_tensor.runtime.cpu import gemm
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.gemm import Computed, Gemm, Matrix, Scattered
from npu_tensor.runtime.cpu.gemm_micro import Blocking, choose_unit, usual_blocking
from npu_tensor.runtime.cpu.pool import Pool
from npu_tensor.runtime.cpu.target import CpuTarget, host_target
from npu_tensor.runtime.memory import ALIGNMENT

LEVELS = ["", "avx512bf16,avx512vnni", "avx2", "sse2"]
FLOAT_DTYPES = ["float32", "bfloat16", "float16"]
INTEGER_DTYPES = ["int8", "uint8", "int16", "int32", "int64"]
# Half the distance from 1 to the next number: the relative error of one rounding.
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


class Machine(NamedTuple):
    target: CpuTarget
    engine: Engine
    pool: Pool


@cache
def machine(level: str) -> Machine:
    target = host_target(level)
    # Products are dropped at once, and most of them have a structure that another one has had.
    engine = Engine(target.create_target_machine(), target.feature_string, config.cache_dir)
    return Machine(target, engine, Pool(engine))


def usual(dtype_a: str, dtype_b: str, target: CpuTarget) -> Blocking:
    return usual_blocking(choose_unit(dtype_a, dtype_b, target), target)


class Scratch:
    def __init__(self, nbytes: int) -> None:
        self.memory = np.full(nbytes + ALIGNMENT, 0xFF, np.uint8)
        self.address = -(-self.memory.ctypes.data // ALIGNMENT) * ALIGNMENT


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" else np.dtype(name)


def poison(dtype: np.dtype) -> float:
    return np.iinfo(dtype).max if dtype.kind in "iu" else math.nan


def among_poison(values: np.ndarray, order: Sequence[int], gap: int = 0) -> np.ndarray:
    """A copy whose axes lie in memory in `order`, outermost first, with `gap` poisoned elements between
    innermost elements and 3 after each row."""
    shape = [values.shape[axis] for axis in order]
    step = gap + 1
    memory = np.full([*shape[:-1], shape[-1] * step + 3], poison(values.dtype), values.dtype)
    inside = memory[..., : shape[-1] * step : step]
    inside[...] = values.transpose(order)
    return inside.transpose(np.argsort(order))


def guarded(values: np.ndarray, at_end: bool) -> np.ndarray:
    """A contiguous copy that touches a protected page."""
    page = mmap.PAGESIZE
    middle = -(-values.nbytes // page) * page
    memory = mmap.mmap(-1, middle + 2 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None)
    for guard in (first, first + page + middle):
        assert library.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    offset = page + (middle - values.nbytes if at_end else 0)
    copy = np.frombuffer(memory, values.dtype, values.size, offset).reshape(values.shape)
    copy[...] = values
    return copy


def element_strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def dtype_name(array: np.ndarray) -> str:
    return array.dtype.name


def described(operand: np.ndarray | float) -> Matrix:
    if isinstance(operand, np.ndarray):
        return Matrix(dtype_name(operand), element_strides(operand))
    return Matrix("float64")


def addresses(operands: Sequence[Any]) -> list[Any]:
    return [x.ctypes.data if isinstance(x, np.ndarray) else x for x in operands]


@pytest.fixture(autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that may read their operands where they are do so, or none does."""
    chosen = getattr(request, "param", "direct")
    if chosen == "streamed":
        monkeypatch.setattr(gemm, "_STREAMED_BYTES", 0)
    if chosen == "packed":
        monkeypatch.setattr(gemm, "_THIN_ROWS", 0)
        monkeypatch.setattr(gemm, "_THIN_COLUMNS", 0)
        monkeypatch.setattr(gemm, "_SMALL_PRODUCT", 0)


in_every_form = pytest.mark.parametrize("form", ["direct", "streamed", "packed"], indirect=True)


def compute(
    product: Gemm, pool: Pool, outputs: Sequence[int], a: list[Any], b: list[Any], *operands: int | float
) -> None:
    """Run a product of operands at addresses."""
    packings = product.packings[: 1 if product.strips else 2]
    buffers = [packing.run(pool.launch, Scratch, of) for packing, of in zip(packings, (a, b), strict=False)]
    packed = [[buffer.address] for buffer in buffers]
    a, b = [*packed, a, b][:2] if not product.strips else (*packed, b)
    product(pool.launch, outputs, a, b, *operands)


def multiply(
    level: str,
    a: np.ndarray,
    b: np.ndarray,
    outputs: Sequence[str],
    epilogue: Program | None = None,
    operands: Sequence[np.ndarray | float] = (),
    blocking: Blocking | None = None,
) -> list[np.ndarray]:
    """Run a product; all arrays have the same leading batch dimensions (strides may be 0)."""
    target, engine, pool = machine(level)
    batch, m, k, n = a.shape[:-2], a.shape[-2], a.shape[-1], b.shape[-1]
    memory = [np.full((*batch, m, n + 5), 77, numpy_dtype(dtype)) for dtype in outputs]
    results = [array[..., :n] for array in memory]

    new = partial(
        Gemm,
        engine,
        target,
        blocking or usual(dtype_name(a), dtype_name(b), target),
        (m, n, k),
        a=described(a),
        b=described(b),
        outputs=[described(result) for result in results],
        epilogue=epilogue,
        operands=[described(operand) for operand in operands],
        batch=batch,
    )
    first: list[np.ndarray] = []
    for product in (new(strips=True), new(strips=False)):
        for array in memory:
            array.fill(77)
        compute(product, pool, addresses(results), addresses([a]), addresses([b]), *addresses(operands))
        for array in memory:
            assert (array[..., n:] == 77).all(), "written past the end of a row"
        for result, other in zip(results, first, strict=False):
            np.testing.assert_array_equal(result, other)
        first = first or [result.copy() for result in results]
    return results


def random_matrix(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return rng.standard_normal(shape).astype(kind)


def check_floats(result: np.ndarray, a: np.ndarray, b: np.ndarray, sums: str = "float32") -> None:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = wide_a @ wide_b
    k = a.shape[-1]
    # Every sum of k products in any order: at most k roundings of at most the sum of magnitudes.
    bound = k * ROUNDING[sums] * (np.abs(wide_a) @ np.abs(wide_b))
    bound += ROUNDING[dtype_name(result)] * (np.abs(expected) + bound)
    error = np.abs(result.astype(np.float64) - expected)
    assert (error <= bound).all(), f"error {error.max()}, {(error / bound).max()} of the bound"


def check_integers(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(result, expected.astype(result.dtype))


@in_every_form
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype_b", FLOAT_DTYPES)
@pytest.mark.parametrize("dtype_a", FLOAT_DTYPES)
def test_floats(level: str, dtype_a: str, dtype_b: str) -> None:
    rng = np.random.default_rng(1)
    a, b = random_matrix(rng, (45, 83), dtype_a), random_matrix(rng, (83, 70), dtype_b)
    results = multiply(level, a, b, ["float32", dtype_a])
    for result in results:
        check_floats(result, a, b)


@pytest.mark.parametrize("level", LEVELS)
def test_float64_of_integral_numbers_is_exact(level: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-(2**20), 2**20, shape).astype(np.float64) for shape in ((31, 50), (50, 29)))
    (result,) = multiply(level, a, b, ["float64"])
    check_integers(result, a, b)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype_b", INTEGER_DTYPES)
@pytest.mark.parametrize("dtype_a", INTEGER_DTYPES)
def test_integers_wrap_and_are_exact(level: str, dtype_a: str, dtype_b: str) -> None:
    if (dtype_a == "int64") != (dtype_b == "int64"):
        with pytest.raises(DTypeError):
            choose_unit(dtype_a, dtype_b, machine(level).target)
        return
    rng = np.random.default_rng(3)
    a, b = random_matrix(rng, (17, 131), dtype_a), random_matrix(rng, (131, 35), dtype_b)
    (result,) = multiply(level, a, b, ["int64" if dtype_a == "int64" else "int32"])
    check_integers(result, a, b)


@pytest.mark.parametrize("level", LEVELS)
def test_extreme_int8(level: str) -> None:
    for x, y in ((-128, -128), (-128, 127), (127, -128)):
        a, b = np.full((3, 1000), x, np.int8), np.full((1000, 33), y, np.int8)
        (result,) = multiply(level, a, b, ["int32"])
        assert (result == x * y * 1000).all()


@in_every_form
@settings(max_examples=100, deadline=None)
@given(
    level=st.sampled_from(LEVELS),
    dtype=st.sampled_from(["float32", "bfloat16", "int8", "int16"]),
    m=st.integers(0, 70),
    n=st.integers(0, 70),
    k=st.integers(0, 150),
    order_a=st.permutations(range(2)),
    order_b=st.permutations(range(2)),
    gap_a=st.integers(0, 1),
    gap_b=st.integers(0, 1),
    seed=st.integers(0, 9),
)
def test_sizes_and_layouts(
    level: str,
    dtype: str,
    m: int,
    n: int,
    k: int,
    order_a: list[int],
    order_b: list[int],
    gap_a: int,
    gap_b: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    a = among_poison(random_matrix(rng, (m, k), dtype), order_a, gap_a)
    b = among_poison(random_matrix(rng, (k, n), dtype), order_b, gap_b)
    integral = numpy_dtype(dtype).kind == "i"
    (result,) = multiply(level, a, b, ["int32" if integral else "float32"])
    (check_integers if integral else check_floats)(result, a, b)


@in_every_form
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_large_enough_for_several_blocks_and_threads(dtype: str, transposed: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(4)
    a = random_matrix(rng, (300, 1100), dtype)
    b = random_matrix(rng, (1100, 260), dtype)
    a, b = (np.asfortranarray(x) if flip else x for x, flip in zip((a, b), transposed, strict=True))
    integral = dtype == "int8"
    (result,) = multiply("", a, b, ["int32" if integral else "float32"])
    if integral:
        check_integers(result, a, b)
    else:
        check_floats(result, a, b)


@in_every_form
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((3, 4, 9, 20), (1, 1, 20, 33)),  # one B for all
        ((1, 1, 9, 20), (3, 4, 20, 33)),  # one A for all
        ((3, 1, 9, 20), (1, 4, 20, 33)),
        ((3, 4, 9, 20), (1, 4, 20, 33)),
        ((5, 1, 20), (1, 20, 33)),  # one row each
        ((2, 0, 9, 20), (2, 0, 20, 33)),
    ],
)
def test_batch(level: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    a, b = random_matrix(rng, shape_a, "bfloat16"), random_matrix(rng, shape_b, "bfloat16")
    batch = np.broadcast_shapes(shape_a[:-2], shape_b[:-2])
    a, b = np.broadcast_to(a, (*batch, *shape_a[-2:])), np.broadcast_to(b, (*batch, *shape_b[-2:]))
    (result,) = multiply(level, a, b, ["float32"])
    check_floats(result, a, b)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_few_rows_over_a_cache(level: str, dtype: str) -> None:
    """Attention of a token: the heads of a group are rows, and caches lie as (positions, heads, features)."""
    rng = np.random.default_rng(9)
    for rows, features in ((1, 64), (2, 80), (3, 64), (3, 75), (4, 128), (5, 67), (8, 64), (16, 64)):
        for positions in (3, 41):
            cache = random_matrix(rng, (positions, 2, features), dtype).transpose(1, 0, 2)
            query, weights = (random_matrix(rng, (2, rows, depth), "float32") for depth in (features, positions))
            for a, b in ((query, cache.swapaxes(-1, -2)), (weights, cache)):
                (result,) = multiply(level, a, b, ["float32"])
                check_floats(result, a, b)


@in_every_form
def test_shared_weights_and_rows_that_do_not_go_on() -> None:
    """Such a batch must not be taken for one taller matrix."""
    rng = np.random.default_rng(10)
    a = random_matrix(rng, (3, 12, 20), "float32")[:, :9]
    b = np.broadcast_to(random_matrix(rng, (20, 33), "float32"), (3, 20, 33))
    (result,) = multiply("", a, b, ["float32"])
    check_floats(result, a, b)


@in_every_form
@pytest.mark.skipif(sys.platform != "linux", reason="uses mprotect")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_outside_the_operands_is_accessed(level: str, dtype: str, at_end: bool) -> None:
    """The operands begin or end at a page that cannot be accessed; a fault ends the process."""
    rng = np.random.default_rng(11)
    (m, k), n = (29, 37), 45
    integral = dtype == "int8"
    for axes_a, axes_b, sign in itertools.product(((0, 1), (1, 0)), ((0, 1), (1, 0)), (1, -1)):
        a = guarded(random_matrix(rng, (m, k), dtype).transpose(axes_a), at_end).transpose(axes_a)
        b = guarded(random_matrix(rng, (k, n), dtype).transpose(axes_b), at_end).transpose(axes_b)
        a, b = a[:, ::sign], b[::sign]
        (result,) = multiply(level, a, b, ["int32" if integral else "float32"])
        (check_integers if integral else check_floats)(result, a, b)


def multiply_computed(
    level: str, dtype: str, program: Program, inputs: Sequence[Sequence[np.ndarray | float]], n: int
) -> np.ndarray:
    """The float32 product of two computed matrices, without or with batch dimensions."""
    target, engine, pool = machine(level)
    first = next(x for x in inputs[0] if isinstance(x, np.ndarray))
    (*batch, m, k) = first.shape
    result = np.full((*batch, m, n), 77, np.float32)

    a, b = (Computed(dtype, program, tuple(map(described, matrices))) for matrices in inputs)
    blocking, out = usual(dtype, dtype, target), described(result)
    product = Gemm(engine, target, blocking, (m, n, k), a=a, b=b, outputs=[out], batch=tuple(batch))
    compute(product, pool, addresses([result]), *map(addresses, inputs))
    return result


def reciprocal_program() -> Program:
    """scale / x * y: infinite or NaN wherever it is computed of zeros."""
    builder = ProgramBuilder()
    x, y, scale = builder.load(0, "float32"), builder.load(1, "float32"), builder.scalar(2, "float32")
    return builder.program([scale / x * y])


@in_every_form
@settings(max_examples=60, deadline=None)
@given(
    level=st.sampled_from(LEVELS),
    dtype=st.sampled_from(FLOAT_DTYPES),
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    k=st.integers(1, 150),
    order_a=st.permutations(range(2)),
    order_b=st.permutations(range(2)),
    thin=st.sampled_from([None, 0, 1]),
)
def test_computed_operands(
    level: str, dtype: str, m: int, n: int, k: int, order_a: list[int], order_b: list[int], thin: int | None
) -> None:
    """Prologues equal stored operands, with vectors along either direction and inputs that repeat rows or columns."""
    rng = np.random.default_rng(13)

    def matrix(shape: tuple[int, int], order: list[int], dtype: str) -> np.ndarray:
        values = rng.uniform(1, 2, shape).astype(numpy_dtype(dtype))
        return among_poison(values, order)

    inputs, stored = [], []
    for shape, order in (((m, k), order_a), ((k, n), order_b)):
        x, y = matrix(shape, order, dtype), matrix(shape, order, "float32")
        if thin is not None:
            y = np.broadcast_to(y[:1] if thin == 0 else y[:, :1], shape)
        inputs.append((x, y, 3.0))
        stored.append((np.float32(3) / x.astype(np.float32) * y).astype(x.dtype))
    result = multiply_computed(level, dtype, reciprocal_program(), inputs, n)
    check_floats(result, *stored)


@in_every_form
@pytest.mark.skipif(sys.platform != "linux", reason="uses mprotect")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_outside_the_inputs_of_a_computed_operand_is_accessed(level: str, dtype: str, at_end: bool) -> None:
    rng = np.random.default_rng(14)
    (m, k), n = (29, 37), 45
    for axes_a, axes_b in itertools.product(((0, 1), (1, 0)), repeat=2):
        inputs, stored = [], []
        for shape, axes in (((m, k), axes_a), ((k, n), axes_b)):
            x, y = (
                guarded(rng.uniform(1, 2, shape).astype(numpy_dtype(dtype)).transpose(axes), at_end).transpose(axes)
                for _ in range(2)
            )
            inputs.append((x, y, 3.0))
            stored.append((np.float32(3) / x.astype(np.float32) * y.astype(np.float32)).astype(x.dtype))
        check_floats(multiply_computed(level, dtype, reciprocal_program(), inputs, n), *stored)


@in_every_form
@pytest.mark.parametrize("rows", [1, 7])
def test_batch_of_computed_operands(rows: int) -> None:
    """Some inputs are shared by the batch, some repeat rows; a batch of rows must not become one matrix blindly."""
    rng = np.random.default_rng(15)
    x = rng.uniform(1, 2, (3, 2, rows, 40)).astype(np.float32)
    by_column = np.asfortranarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)
    y = np.broadcast_to(rng.uniform(1, 2, (1, 2, 1, 40)).astype(np.float32), x.shape)
    w, v = (np.broadcast_to(rng.uniform(1, 2, (40, 33)).astype(np.float32), (3, 2, 40, 33)) for _ in range(2))
    cases = [(x, y), (x, np.broadcast_to(y[0, 0, 0], x.shape))]
    if rows > 1:
        cases.append((by_column, np.broadcast_to(by_column[..., :1], x.shape)))
    for left in cases:
        result = multiply_computed("", "float32", reciprocal_program(), [(*left, 3.0), (w, v, 3.0)], 33)
        check_floats(result, *(np.float32(3) / one * two for one, two in (left, (w, v))))


def gelu_program() -> Program:
    """(gelu(sum + bias) * scale + residual, sum): operands bias, scale (a number) and residual."""
    builder = ProgramBuilder()
    total, bias = builder.load(0, "float32"), builder.load(1, "float32")
    scale, residual = builder.scalar(2, "float32"), builder.load(3, "float32")
    x = total + bias
    activated = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return builder.program([activated * scale + residual, total])


@in_every_form
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bias_per", ["column", "row"])
def test_epilogue(level: str, bias_per: str) -> None:
    rng = np.random.default_rng(8)
    m, n, k = 37, 77, 60
    a, b = random_matrix(rng, (m, k), "bfloat16"), random_matrix(rng, (k, n), "bfloat16")
    bias = random_matrix(rng, (1, n) if bias_per == "column" else (m, 1), "bfloat16")
    residual = among_poison(random_matrix(rng, (m, n), "float16"), (0, 1))
    result, total = multiply(
        level, a, b, ["bfloat16", "float32"], gelu_program(), [np.broadcast_to(bias, (m, n)), 0.75, residual]
    )
    check_floats(total, a, b)
    x = total.astype(np.float64) + bias.astype(np.float64)
    gelu = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    expected = 0.75 * gelu + residual.astype(np.float64)
    error = np.abs(result.astype(np.float64) - expected)
    # One rounding to bfloat16; the arithmetic before it has float32's precision.
    assert (error <= ROUNDING["bfloat16"] * 1.001 * np.abs(expected) + 1e-5).all()


@pytest.mark.parametrize("level", LEVELS)
def test_quantized_epilogue(level: str) -> None:
    """int8 product -> float32 scale per column -> saturated int8."""
    rng = np.random.default_rng(9)
    a, b = random_matrix(rng, (18, 64), "int8"), random_matrix(rng, (64, 40), "int8")
    scale = rng.uniform(1e-3, 1e-2, (1, 40)).astype(np.float32)
    program = Program(
        (
            Instruction("load", (), "int32", 0),
            Instruction("cast", (0,), "float32"),
            Instruction("load", (), "float32", 1),
            Instruction("mul", (1, 2), "float32"),
            Instruction("rint", (3,), "float32"),
            Instruction("cast", (4,), "int8"),
        ),
        (5,),
    )
    (result,) = multiply(level, a, b, ["int8"], program, [np.broadcast_to(scale, (18, 40))])
    sums = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32)
    np.testing.assert_array_equal(result, np.clip(np.rint(sums * scale), -128, 127).astype(np.int8))


@in_every_form
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_nan_and_infinity_stay_where_they_belong(level: str, dtype: str, transposed: bool) -> None:
    kind = numpy_dtype(dtype)
    a, b = np.ones((20, 33), kind), np.ones((33, 50), kind)
    a[3, 32], a[7, 0], a[19, 32], b[5, 49] = math.nan, math.inf, -math.inf, math.nan
    order = "F" if transposed else "C"
    (result,) = multiply(level, np.asarray(a, order=order), np.asarray(b, order=order), ["float32"])
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("dtype", "extents", "kernel", "step"),
    [
        ("float32", (9, 22), (3, 3), 1),
        ("bfloat16", (5, 16), (2, 2), 1),
        ("float64", (4, 40), (1, 12), 1),
        ("float32", (7, 33), (3, 2), 2),
        ("float32", (7, 7), (3, 3), 1),
        ("int16", (9, 11), (3, 8), 1),
        ("int16", (5, 40), (2, 16), 1),
        ("int8", (9, 15), (3, 8), 1),
    ],
)
@pytest.mark.parametrize(
    ("which", "along_k", "strips"),
    [(0, False, False), (0, True, True), (1, False, False), (1, True, False), (1, False, True), (1, True, True)],
)
def test_windows_are_read_where_they_are(
    level: str,
    dtype: str,
    extents: tuple[int, int],
    kernel: tuple[int, int],
    step: int,
    which: int,
    along_k: bool,
    strips: bool,
) -> None:
    """Windows of an image as operand A or B, with their places along K or their elements."""
    target, engine, pool = machine(level)
    rng = np.random.default_rng(0)
    image = guarded(random_matrix(rng, (2, *extents), dtype), at_end=along_k)
    view = np.lib.stride_tricks.sliding_window_view(image, kernel, (1, 2))[:, :, ::step]  # (channels, *places, *kernel)
    places, elements = (1, 2), (0, 3, 4)
    lines, of_k = (elements, places) if along_k else (places, elements)
    first, second = (lines, of_k) if which == 0 else (of_k, lines)
    layouts = [
        Layout(tuple(view.shape[axis] for axis in axes), tuple(element_strides(view)[axis] for axis in axes))
        for axes in (first, second)
    ]
    rows, columns = (math.prod(layout.shape) for layout in layouts)
    scattered = Scattered(dtype, (), *layouts)
    own = view.transpose(*first, *second).reshape(rows, columns)
    other = random_matrix(rng, (10, rows) if which else (columns, 10), dtype)
    a, b = (other, own) if which else (own, other)
    (m, k), n = a.shape, b.shape[1]
    exact = dtype.startswith("int")
    result = np.full((m, n + 5), 77, numpy_dtype("int32" if exact else "float64" if dtype == "float64" else "float32"))
    product = Gemm(
        engine,
        target,
        usual(dtype, dtype, target),
        (m, n, k),
        a=described(other) if which else scattered,
        b=scattered if which else described(other),
        outputs=[described(result)],
        threads=2,
        strips=strips,
    )
    compute(product, pool, addresses([result]), *map(addresses, [[other], [image]] if which else [[image], [other]]))
    if exact:
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result[:, :n], (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))
    else:
        check_floats(result[:, :n], a, b, dtype_name(result))
    assert (result[:, n:] == 77).all()


@in_every_form
def test_output_may_be_the_memory_of_an_operand_of_the_epilogue() -> None:
    target, engine, pool = machine("")
    rng = np.random.default_rng(12)
    a, b, c = (random_matrix(rng, (90, 90), "float32") for _ in range(3))
    builder, square, shape = ProgramBuilder(), described(a), (90, 90, 90)
    program = builder.program([builder.load(0, "float32") - builder.load(1, "float32")])
    more = {"outputs": [square], "epilogue": program, "operands": [square]}
    product = Gemm(engine, target, usual("float32", "float32", target), shape, a=square, b=square, **more)
    result = c.copy()
    compute(product, pool, addresses([result]), addresses([a]), addresses([b]), *addresses([result]))
    np.testing.assert_allclose(result, a.astype(np.float64) @ b - c, rtol=1e-5, atol=1e-4)
