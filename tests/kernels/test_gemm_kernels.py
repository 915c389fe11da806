"""Matrix products on the simulated array, against float64, against one rounding of float32 sums, and exact integers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import kernel_tasks
import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_tasks import clipped, nmse, target, task_of
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.core_memory import BANK_BYTES, BANKS, CoreMemory, placed
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import DEFAULT_STACK, Design, Source
from npu_tensor.dtypes import DType
from npu_tensor.kernels import gemm
from npu_tensor.kernels.gemm.design import configuration, design
from npu_tensor.kernels.gemm.epilogue import Epilogue
from npu_tensor.kernels.gemm.tiling import LANES, PACK_SECONDS, GemmProblem, Tiling, bank_conflicts, ranked, search
from npu_tensor.kernels.offer import Located, Offer, Target
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.task import Fusion, Refusal, Task

Array = np.ndarray[Any, Any]
View = Callable[[Any], Any]

pytestmark = needs_compiler

SIMULATED = {arch: SimulatedArray(array) for arch, array in ARRAYS.items()}
WHOLE = [("aie2", 4), ("aie2p", 8)]
PLAIN = Epilogue((), ("const auto v0 = nt::load<float, 16>(sums + j);",), "v0")
PLAIN_INT = Epilogue((), ("const auto v0 = nt::load<int32, 16>(sums + j);",), "v0")

# GGML's limits for a product, and for one that differs only in the last place of a rounding.
CLOSE, ROUNDED_ONCE = 5e-4, 1e-6


def with_constant_b(task: Task) -> Task:
    """The task with a B that no run changes."""
    marked = [each._replace(persistent=True) if number == 1 else each for number, each in enumerate(task.inputs)]
    return task._replace(inputs=tuple(marked))


def simulate(result: nt.Tensor, operands: Sequence[nt.Tensor | float], on: Target, constant: bool = False) -> Array:
    """The product as its offer computes it. operands: what each input of the task lies in, in order."""
    task = with_constant_b(task_of(result)) if constant else task_of(result)
    buffers = [operand if isinstance(operand, float) else operand.numpy() for operand in operands]
    return kernel_tasks.simulate(task, gemm.claim(task, on), on, buffers)[0].reshape(result.shape)


def numpy(tensor: nt.Tensor) -> Array:
    return np.asarray(tensor.numpy())


def wide(tensor: nt.Tensor) -> Array:
    return numpy(tensor).astype(np.float64)


def normal(*shape: int, dtype: DType = nt.bfloat16, seed: int = 0) -> nt.Tensor:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)
    return nt.from_numpy(values).to(dtype).realize()


def integers(*shape: int, dtype: str = "int8", seed: int = 0) -> nt.Tensor:
    limits = np.iinfo(dtype)
    values = np.random.default_rng([seed, *shape]).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return nt.from_numpy(values).realize()


# --- through claim


@pytest.mark.parametrize(("arch", "columns"), [("aie2", 1), ("aie2", 3), ("aie2", 4), ("aie2p", 2), ("aie2p", 5)])
def test_products_on_any_number_of_columns(arch: str, columns: int) -> None:
    a, weights = normal(130, 300), normal(199, 300)
    result = simulate(nt.linear(a, weights), [a, weights], target(arch, columns))
    assert nmse(result, wide(a) @ wide(weights).T) <= CLOSE
    once = (numpy(a).astype(np.float32) @ numpy(weights).astype(np.float32).T).astype(ml_dtypes.bfloat16)
    assert nmse(result, once) <= ROUNDED_ONCE


@pytest.mark.parametrize(("arch", "columns"), WHOLE)
def test_operands_in_any_order(arch: str, columns: int) -> None:
    """Each of A and B by rows or by columns, and every other row of a larger matrix."""
    on = target(arch, columns)
    a, at, b, bt = normal(40, 56), normal(56, 40), normal(56, 72), normal(72, 56)
    tall = normal(80, 56, seed=1)
    lefts: list[tuple[nt.Tensor, View]] = [(a, lambda x: x), (at, lambda x: x.T), (tall, lambda x: x[::2])]
    rights: list[tuple[nt.Tensor, View]] = [(b, lambda x: x), (bt, lambda x: x.T)]
    for left, select in lefts:
        for right, turn in rights:
            result = simulate(select(left) @ turn(right), [left, right], on)
            assert nmse(result, select(wide(left)) @ turn(wide(right))) <= CLOSE


@pytest.mark.parametrize(("arch", "columns"), WHOLE)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_integers_are_exact(arch: str, columns: int, dtype: str) -> None:
    """With sums that leave int32 for int16, and wrap around."""
    x, weights = integers(33, 70, dtype=dtype), integers(50, 70, dtype=dtype, seed=1)
    result = simulate(nt.mul_mat(weights, x), [x, weights], target(arch, columns))
    expected = numpy(x).astype(np.int64) @ numpy(weights).astype(np.int64).T
    assert result.dtype == np.int32
    assert np.array_equal(result, expected.astype(np.int32))
    assert dtype == "int8" or np.abs(expected).max() > 2**31


def test_integer_results_of_the_operands_dtype_wrap() -> None:
    x, y = integers(20, 30), integers(30, 24, seed=1)
    result = simulate(x @ y, [x, y], target("aie2p", 8))
    assert np.array_equal(result, (numpy(x).astype(np.int64) @ numpy(y).astype(np.int64)).astype(np.int8))


@pytest.mark.parametrize(("arch", "columns"), WHOLE)
def test_integer_sums_are_rescaled(arch: str, columns: int) -> None:
    """By a number, and by one number per output after an integer bias: int8 results as NumPy rounds them."""
    random = np.random.default_rng(3)
    x, weights = integers(70, 200), integers(130, 200, seed=1)
    bias = nt.from_numpy(random.integers(-9999, 9999, 130).astype(np.int32)).realize()
    scale = nt.from_numpy((random.random(130) * 2e-4).astype(np.float32)).realize()
    sums = numpy(x).astype(np.int32) @ numpy(weights).astype(np.int32).T

    one = (nt.mul_mat(weights, x).to(nt.float32) * 1e-4).round().clip(-128, 127).to(nt.int8)
    result = simulate(one, [x, weights, 1e-4], target(arch, columns))
    assert np.array_equal(result, clipped(sums * np.float32(1e-4)))
    many = ((nt.mul_mat(weights, x) + bias).to(nt.float32) * scale).round().clip(-128, 127).to(nt.int8)
    result = simulate(many, [x, weights, bias, scale], target(arch, columns))
    assert np.array_equal(result, clipped((sums + numpy(bias)) * numpy(scale)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 6, 20, 24), (2, 6, 24, 33)),
        ((2, 6, 20, 24), (24, 33)),  # one product with more rows
        ((20, 24), (3, 24, 33)),
        ((2, 1, 20, 24), (1, 3, 24, 33)),
        ((2, 6, 20, 24), (2, 1, 24, 33)),
    ],
)
def test_batches(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = normal(*a), normal(*b, seed=1)
    result = simulate(x @ y, [x, y], target("aie2p", 8))
    assert nmse(result, wide(x) @ wide(y)) <= CLOSE


def test_groups_of_heads_share_their_keys() -> None:
    """GGML's mul_mat: six heads of queries, three of keys."""
    queries, keys = normal(2, 6, 20, 24), normal(2, 3, 33, 24, seed=1)
    result = simulate(nt.mul_mat(keys, queries), [queries, keys], target("aie2", 4))
    assert result.dtype == np.float32
    assert nmse(result, wide(queries) @ np.repeat(wide(keys), 2, 1).swapaxes(-1, -2)) <= ROUNDED_ONCE


def test_a_batch_that_only_adds_rows_is_one_product() -> None:
    x, y = normal(4, 8, 24), normal(33, 24, seed=1)
    offer = gemm.claim(task_of(x @ y.T), target("aie2", 4))
    assert isinstance(offer, Offer)
    assert offer.operands[0].layout.shape == (32, 24)


@pytest.mark.parametrize(("arch", "columns"), [("aie2", 1), ("aie2p", 8)])
def test_bias_scale_and_activation(arch: str, columns: int) -> None:
    on = target(arch, columns)
    a, weights, bias, gain = normal(70, 90), normal(52, 90), normal(52), normal(52, dtype=nt.float32, seed=1)
    expected = (wide(a) @ wide(weights).T * 0.5 + wide(bias)) * wide(gain)
    result = (nt.mul_mat(weights, a) * 0.5 + bias) * gain
    actual = simulate(result, [a, weights, 0.5, bias, gain], on)
    assert nmse(actual, expected) <= 1e-10
    actual = simulate(nt.linear(a, weights, bias).gelu(), [a, weights, bias], on)
    x = wide(a) @ wide(weights).T + wide(bias)
    assert nmse(actual, x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))) <= CLOSE


@pytest.mark.parametrize("arch", ARRAYS)
def test_bias_on_operands_by_rows(arch: str) -> None:
    """The other order of B's memory brings the row another way; so do int8 and int16."""
    on = target(arch, 2)
    a, b, bias = normal(40, 90), normal(90, 100), normal(100)
    result = simulate((a @ b + bias).relu(), [a, b, bias], on)
    assert nmse(result, np.maximum(wide(a) @ wide(b) + wide(bias), 0)) <= CLOSE
    for dtype in ("int8", "int16"):
        x, y, add = integers(20, 30, dtype=dtype), integers(30, 50, dtype=dtype), integers(50, dtype="int32")
        result = simulate(nt.mul_mat(y.T, x) + add, [x, y, add], on)
        expected = numpy(x).astype(np.int64) @ numpy(y).astype(np.int64) + numpy(add)
        assert np.array_equal(result, expected.astype(np.int32))


@pytest.mark.parametrize(("arch", "columns"), [("aie2", 1), ("aie2", 4), ("aie2p", 8)])
def test_one_number_per_row(arch: str, columns: int) -> None:
    """Beside a bias, and with integers."""
    on = target(arch, columns)
    a, b, gain, bias = normal(70, 90), normal(90, 100), normal(70, 1), normal(100, seed=1)
    result = simulate((nt.mul_mat(b.T, a) * gain + bias), [a, b, gain, bias], on)
    assert nmse(result, wide(a) @ wide(b) * wide(gain) + wide(bias)) <= 1e-10
    x, y, add = integers(70, 30), integers(50, 30, seed=1), integers(70, 1, dtype="int32")
    result = simulate(nt.mul_mat(y, x) + add, [x, y, add], on)
    expected = numpy(x).astype(np.int64) @ numpy(y).astype(np.int64).T + numpy(add)
    assert np.array_equal(result, expected.astype(np.int32))


@pytest.mark.parametrize(("arch", "columns"), WHOLE)
def test_float32_by_policy(arch: str, columns: int) -> None:
    a, b = normal(40, 50, dtype=nt.float32), normal(50, 60, dtype=nt.float32)
    refused = gemm.claim(task_of(a @ b), target(arch, columns))
    assert refused == Refusal("float32 is exact on the CPU; float32=emulate or float32=bfloat16 leaves it to the NPU")
    emulated = simulate(a @ b, [a, b], target(arch, columns, "emulate"))
    assert nmse(emulated, wide(a) @ wide(b)) <= 1e-12
    rounded = simulate(a @ b, [a, b], target(arch, columns, "bfloat16"))
    expected = wide(a.to(nt.bfloat16).realize()) @ wide(b.to(nt.bfloat16).realize())
    assert rounded.dtype == np.float32
    assert nmse(rounded, expected) <= 1e-12


@pytest.mark.parametrize(("arch", "columns"), WHOLE)
def test_emulated_float32_keeps_its_bits(arch: str, columns: int) -> None:
    """The operands are numbers times 1, and 12-bit integers; B is stored by rows and by columns.

    The parts of a number are terms of one sum. aie2 rounds terms to a grid, so that the last bit may be lost.
    """
    on = target(arch, columns, "emulate")
    a, unit = normal(40, 50, dtype=nt.float32), nt.from_numpy(np.eye(50, dtype=np.float32)).realize()
    error = np.abs(simulate(a @ unit, [a, unit], on) / numpy(a) - 1).max()
    assert error <= {"aie2": 2.0**-23, "aie2p": 0}[arch]
    whole = np.random.default_rng(9).integers(-4095, 4096, (2, 24, 24)).astype(np.float32)
    whole[:, :, 1:] = 0  # one product for every sum
    x, by_columns = (nt.from_numpy(part).realize() for part in whole)
    by_rows = nt.from_numpy(np.ascontiguousarray(whole[1].T)).realize()
    assert np.array_equal(simulate(x @ by_rows, [x, by_rows], on), whole[0] @ whole[1].T)
    assert np.array_equal(simulate(x @ by_columns.T, [x, by_columns], on), whole[0] @ whole[1].T)


def test_float16_passes_through_bfloat16() -> None:
    a, b = normal(40, 50, dtype=nt.float16), normal(50, 60, dtype=nt.float16)
    result = simulate(a @ b, [a, b], target("aie2", 4, "emulate"))
    assert result.dtype == np.float16
    assert nmse(result, wide(a) @ wide(b)) <= CLOSE


def test_what_is_refused() -> None:
    a, b = normal(40, 50), normal(50, 60)
    on = target("aie2p", 8)

    # Not inside an assert, which would keep the product alive beside the sum.
    cases: list[tuple[Callable[[], nt.Tensor], str]] = [
        (lambda: a @ b + normal(40, 60), "a whole matrix"),
        (lambda: normal(3, 40, 50) @ normal(3, 50, 60) + normal(3, 40, 1), "different operands along the batch"),
        (lambda: integers(8, 8, dtype="int32") @ integers(8, 8, dtype="int32"), "no matrix product of int32"),
        (lambda: normal(16, 8) @ normal(8, 1 << 20), "too far apart"),
        (lambda: normal(16, 0) @ normal(0, 8), "a sum of no products"),
        (lambda: normal(1 << 14, 2, 8) @ normal(1 << 14, 8, 2), "transfers in one run"),
    ]
    for record, reason in cases:
        answer = gemm.claim(task_of(record(), Fusion()), on)
        assert isinstance(answer, Refusal)
        assert reason in answer.reason


def test_far_apart_elements_are_brought_together_by_the_host() -> None:
    """The last token of each text: reading it in place would take all tokens along."""
    x, weight = normal(2, 256, 2048)[:, -1], normal(64, 2048)
    offer = gemm.claim(task_of(nt.linear(x, weight)), target("aie2p", 8))
    assert isinstance(offer, Offer)
    assert math.prod(offer.operands[0].padded) <= 64 * 2048
    near = gemm.claim(task_of(nt.linear(normal(128, 2, 256)[:, 1], normal(64, 256))), target("aie2p", 8))
    assert isinstance(near, Offer)
    assert near.operands[0].padding is None


# --- designs with given tiles: one compilation serves many extents


def dense(problem: GemmProblem, tiling: Tiling) -> tuple[Located, Located]:
    """A and B, each whole and padded."""
    m, n, k = map(int, tiling.padded(problem))
    rows, columns = (n, k) if problem.transposed else (k, n)
    return Located(0, (k,), m * k), Located(0, (columns,), rows * columns)


def product(problem: GemmProblem, tiling: Tiling, a: Array, b: Array, made: Design | None = None) -> Array:
    """A matrix product by a design, with operands padded here. b: as it is stored."""
    code = PLAIN_INT if problem.operand.startswith("int") else PLAIN
    made = made or design(problem, tiling, code, *dense(problem, tiling))
    assert check(made) == []
    m, n, k = tiling.padded(problem)
    rows, columns = (n, k) if problem.transposed else (k, n)
    a = np.pad(a, ((0, m - problem.m), (0, k - problem.k)))
    b = np.pad(b, ((0, rows - b.shape[0]), (0, columns - b.shape[1])))
    result = np.full(m * n * np.dtype(problem.result).itemsize, 0xAA, np.uint8)
    loaded = SIMULATED[problem.arch].load(made)
    loaded.run([np.ascontiguousarray(x).view(np.uint8).ravel() for x in (a, b)] + [result])
    return result.view(problem.result).reshape(m, n)[: problem.m, : problem.n]


def operands(problem: GemmProblem) -> tuple[Array, Array]:
    random = np.random.default_rng(problem.m)
    a, b = random.standard_normal((problem.m, problem.k)), random.standard_normal((problem.k, problem.n))
    return a.astype(problem.stored), np.ascontiguousarray((b.T if problem.transposed else b).astype(problem.stored))


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(("arch", "tiling"), [
    ("aie2", Tiling(4, 4, 32, 16, 16, 2)),
    ("aie2", Tiling(4, 2, 32, 16, 16, 2)),  # memtiles share rows of A
    ("aie2p", Tiling(4, 8, 16, 32, 8, 3)),
    ("aie2p", Tiling(4, 2, 16, 64, 8, 2)),
])  # fmt: skip
def test_extents_around_those_of_the_tiles(arch: Arch, tiling: Tiling, transposed: bool) -> None:
    rows, columns, gathered = tiling.rows * tiling.m, tiling.columns * tiling.n, tiling.memtile_k
    extents = [(1, 1, 1), (tiling.m - 1, tiling.n + 1, tiling.k), (rows, columns, gathered)]
    extents += [(rows + 1, columns - 1, gathered + 1), (2 * rows - 3, 2 * columns, 3 * gathered - 1)]
    for m, n, k in extents:
        operand = LANES if arch == "aie2p" else "bfloat16"
        problem = GemmProblem(arch, tiling.columns, operand, "float32", m, n, k, transposed=transposed)
        a, b = operands(problem)
        expected = a.astype(np.float64) @ (b.T if transposed else b).astype(np.float64)
        assert nmse(product(problem, tiling, a, b), expected) <= 1e-12


# --- claims and tiles


extent = st.one_of(st.integers(1, 80), st.integers(1, 5000))


@st.composite
def products(draw: st.DrawFn) -> GemmProblem:
    arch: Arch = draw(st.sampled_from([array.arch for array in ARRAYS.values()]))
    pairs = [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("int8", "int32"), ("int8", "int8"), ("int16", "int32")]
    if LANES in ARRAYS[arch].blocks:
        pairs[:2] = [(LANES, result) for _, result in pairs[:2]]
    operand, result = draw(st.sampled_from(pairs))
    return GemmProblem(
        arch,
        draw(st.integers(1, ARRAYS[arch].columns)),
        operand,
        result,
        draw(extent),
        draw(extent),
        draw(extent),
        transposed=draw(st.booleans()),
        row_operands=(across := draw(st.integers(0, 2))),
        column_operands=draw(st.integers(0, 2 - across)),
    )


def epilogue(problem: GemmProblem) -> Epilogue:
    """The sum of everything."""
    kind = "int32" if problem.operand.startswith("int") else "float"
    vectors = [f"row{i} + across" for i in range(problem.row_operands)]
    vectors += [f"column{i} + within" for i in range(problem.column_operands)]
    total = f"nt::load<{kind}, 16>(sums + j)"
    for vector in vectors:
        total = f"nt::add({total}, nt::load<{kind}, 16>({vector}))"
    return Epilogue((), (f"const auto v0 = {total};",), "v0")


@settings(max_examples=60, deadline=None)
@given(products())
@example(GemmProblem("aie2", 2, "bfloat16", "float32", 385, 4993, 1))  # two cores of a column share a memtile
def test_every_tiling_found_makes_a_design_within_all_limits(problem: GemmProblem) -> None:
    tiling = search(problem)
    assert tiling is not None
    made = design(problem, tiling, epilogue(problem), *dense(problem, tiling))
    assert check(made) == []
    m, n, k = tiling.padded(problem)
    assert m >= problem.m
    assert n >= problem.n
    assert k >= problem.k
    assert tiling.transfers(problem) == count(made).transfers


@settings(max_examples=5, deadline=None)
@given(products(), st.integers(0, 2**31))
def test_what_is_claimed_runs(problem: GemmProblem, seed: int) -> None:
    """Down to small extents, for the sake of time."""
    m, n, k = (1 + extent % 97 for extent in (problem.m, problem.n, problem.k))
    whole = problem.operand.startswith("int")
    shapes = ((m, k), (n, k))
    x, y = (integers(*s, dtype=problem.operand, seed=seed) if whole else normal(*s, seed=seed) for s in shapes)
    vectors = [(n,)] * problem.row_operands + [(m, 1)] * problem.column_operands
    rows = [integers(*s, dtype="int32", seed=i) if whole else normal(*s, seed=i) for i, s in enumerate(vectors)]
    result = nt.mul_mat(y, x)
    expected = numpy(x).astype(np.int64 if whole else np.float64) @ numpy(y).astype(np.int64 if whole else np.float64).T
    for row in rows:
        result = result + row
        expected = expected + numpy(row).astype(expected.dtype)
    task = task_of(result)
    if task.kind != "matmul":  # a product with a vector is a row task
        return
    actual = simulate(result, [x, y, *rows], target(problem.arch, problem.columns))
    if whole:
        assert np.array_equal(actual, expected.astype(np.int32))
    else:
        assert nmse(actual, expected) <= 1e-10


def seconds(problem: GemmProblem, tiling: Tiling) -> float:
    """Predict the time of the design, and of the host's conversion of each operand or result that the tiles pad."""
    made = design(problem, tiling, epilogue(problem), *dense(problem, tiling))
    full_m, full_n, full_k = tiling.padded(problem)
    elements = problem.batch * problem.m * problem.k * (full_k != problem.k)
    if full_n != problem.n or (full_m != problem.m and problem.batch > 1):
        elements += problem.batch * problem.m * problem.n
    work = dataclasses.replace(count(made), tasks={}, waits=0, parameter_words=0)  # The search does not weigh starts.
    return predict(work, made.array).seconds + PACK_SECONDS * elements


@settings(max_examples=25, deadline=None)
@given(products(), *[st.integers(1, 8)] * 2, st.integers(1, 16), st.integers(1, 4))
@example(GemmProblem("aie2p", 4, "bfloat16", "bfloat16", 2, 136, 1), 1, 3, 1, 1)  # one tile would pad the result
def test_no_other_tiling_is_much_faster(problem: GemmProblem, m: int, n: int, k: int, steps: int) -> None:
    """The estimate of the search agrees with the cost model of the design."""
    best = search(problem)
    assert best is not None
    r, s, t, rows, columns = ARRAYS[problem.arch].blocks[problem.operand]
    other = Tiling(best.rows, best.columns, rows * r * m, columns * t * n, s * k, steps)
    if not check(design(problem, other, epilogue(problem), *dense(problem, other))):
        assert seconds(problem, best) <= 1.03 * seconds(problem, other)


@pytest.mark.parametrize(
    ("arch", "operand", "result", "tera"),
    [
        ("aie2", "bfloat16", "bfloat16", 2.8),  # 3.14 are published with chosen memory banks, 2.1 without
        ("aie2p", "bfloat16", "bfloat16", 2.0),  # made of element products: 2.2 are published for 2048 cubed
        ("aie2p", LANES, "bfloat16", 3.5),
        ("aie2p", "bfp16", "bfloat16", 12.0),  # 14.7 with chosen memory banks, 9.9 without
        ("aie2", "int8", "int32", 5.0),  # 4.42 and 24.74 with chosen memory banks
        ("aie2p", "int8", "int32", 20.0),
    ],
)
def test_predicted_throughput_at_4096(arch: Arch, operand: str, result: str, tera: float) -> None:
    n = 4096
    array = ARRAYS[arch]
    problem = GemmProblem(arch, array.columns, operand, result, n, n, n)
    tiling = search(problem)
    assert tiling is not None
    made = design(problem, tiling, PLAIN, *dense(problem, tiling))
    assert check(made) == []
    actual = predict(count(made), array)
    assert 2 * n**3 / (actual.seconds + array.dispatch_seconds) >= tera * 1e12


@pytest.mark.parametrize("problem", [
    GemmProblem("aie2", 4, "bfloat16", "bfloat16", 2048, 2048, 2048),
    GemmProblem("aie2", 4, "int8", "int32", 512, 512, 512, 1, False, 1, 1),
    GemmProblem("aie2p", 8, "bfp16", "bfloat16", 2048, 2048, 2048, packed=True),
    GemmProblem("aie2p", 8, LANES, "float32", 64, 512, 64),
    GemmProblem("aie2p", 8, "int8", "int32", 2048, 2048, 2048),
])  # fmt: skip
def test_conflicts_of_banks_are_those_of_the_placement(problem: GemmProblem) -> None:
    """Every tile of the family, with the addresses that the compiler's allocator gives to the buffers of a core."""
    shares = []
    for tiling in ranked(problem):
        made = configuration(problem.unshaped, tiling, epilogue(problem))
        (buffer,) = (each for each in made.core_buffers if each.name == "sums0_2")
        blocks = [CoreMemory("sums", buffer.type.nbytes, buffer.address)]
        for name in ("a0_0", "b0_0", "c0_0"):
            blocks += [CoreMemory(f"{name[0]}{i}", made.fifo(name).type.nbytes) for i in range(2)]
        places = placed(blocks, DEFAULT_STACK)
        inside = {
            kind: np.array([
                sum(
                    max(0, min(places[name] + nbytes, start + BANK_BYTES) - max(places[name], start))
                    for name, nbytes, _ in blocks if name[0] == kind
                )
                for start in range(0, BANKS * BANK_BYTES, BANK_BYTES)
            ])
            for kind in "ab"
        }  # fmt: skip
        conflicts = inside["b"][inside["a"] > 0].sum() / inside["b"].sum()
        shares.append(float(bank_conflicts(problem, tiling)))
        assert conflicts <= shares[-1] + 0.01
    assert min(shares) == 0


# --- block floats


def block_floats(matrix: Array) -> Array:
    """Rows as bfp16ebs8, rounded to nearest even: eight numbers share the exponent of the largest, 8 bits each."""
    rows, k = matrix.shape
    blocks = np.pad(matrix, ((0, 0), (0, -k % 8))).reshape(rows, -1, 8)
    largest = np.abs(blocks).max(-1, keepdims=True)
    unit = np.exp2(np.floor(np.log2(np.where(largest, largest, 1.0))) - 6)
    unit = np.where(np.rint(blocks / unit).max(-1, keepdims=True) > 127, 2 * unit, unit)
    return (np.rint(blocks / unit) * unit).reshape(rows, -1)[:, :k]


def sums_of_block_floats(a: nt.Tensor, b: nt.Tensor) -> Array:
    """A times B, which is K x N, in float64."""
    return block_floats(wide(a)) @ block_floats(wide(b).T).T


@pytest.mark.parametrize(("constant", "columns"), [(False, 1), (False, 3), (False, 8), (True, 3), (True, 8)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (33, 100, 47), (130, 520, 70)])
def test_products_of_block_floats(constant: bool, columns: int, transposed: bool, m: int, k: int, n: int) -> None:
    a, b = normal(m, k, seed=1), normal(*((n, k) if transposed else (k, n)), seed=2)
    product = nt.linear(a, b) if transposed else a @ b
    on = target("aie2p", columns)._replace(bfloat16="bfp16")
    right = b.T if transposed else b
    result = simulate(product, [a, b], on, constant)
    expected = sums_of_block_floats(a, right)
    rounded_result = product.dtype is nt.bfloat16
    assert nmse(result, expected) < (1e-5 if rounded_result else 1e-11)
    # They are not what bfloat16 products give, and not far from it.
    assert 3e-5 < nmse(result, wide(a) @ wide(right)) < 3e-4


def test_constants_are_packed_into_the_blocks_of_the_cores() -> None:
    """The same bits, with every kind of exponent, for batches that share matrices and an epilogue along rows.

    The last tile overlaps the one before it.
    """
    on = target("aie2p", 8)._replace(bfloat16="bfp16")
    random = np.random.default_rng(8)
    scales = 2.0 ** random.integers(-140, 100, (3, 1, 96, 1030))
    b = nt.from_numpy((random.standard_normal(scales.shape) * scales).astype(np.float32)).to(nt.bfloat16).realize()
    a, bias = normal(3, 2, 50, 96), normal(1030)
    result = a @ b + bias
    assert np.array_equal(*(simulate(result, [a, b, bias], on, constant) for constant in (False, True)))
    offer = gemm.claim(with_constant_b(task_of(result)), on)
    assert isinstance(offer, Offer)
    assert "the host stores B as blocks" in offer.reason
    assert offer.operands[1].dtype == "uint8"
    assert offer.operands[1].padded[0] >= 3 * 96 * 1030 * 9 // 8


def test_packed_constants_that_are_not_finite() -> None:
    """The largest NaN rounds to a mantissa of 128, and no exponent is above its own."""
    bits = np.full((64, 64), 0x3F80, np.uint16)
    bits[0, :5] = 0x7F80, 0xFF80, 0x7FC0, 0x7FFF, 0xFFFF
    a, b = normal(16, 64), nt.from_numpy(bits.view(ml_dtypes.bfloat16)).realize()
    on = target("aie2p", 8)._replace(bfloat16="bfp16")
    unpacked, packed = (simulate(a @ b, [a, b], on, constant) for constant in (False, True))
    np.testing.assert_array_equal(packed, unpacked)
    assert not np.isfinite(packed[:, :5].astype(np.float32)).any()


@pytest.mark.parametrize("constant", [False, True])
def test_block_floats_are_rounded_before_what_follows(constant: bool) -> None:
    a, b, bias = normal(70, 96, seed=3), normal(96, 40, seed=4), normal(40, seed=5)
    on = target("aie2p", 4)._replace(bfloat16="bfp16")
    result = simulate((a @ b + bias).relu(), [a, b, bias], on, constant)
    assert nmse(result, np.maximum(sums_of_block_floats(a, b) + wide(bias), 0)) < 1e-5


def test_block_floats_are_named_and_built_as_such() -> None:
    a, b = normal(64, 64), normal(64, 64)
    task = task_of(a @ b)
    exact, coarse = (gemm.claim(task, target("aie2p", 8)._replace(bfloat16=policy)) for policy in ("exact", "bfp16"))
    assert isinstance(exact, Offer)
    assert isinstance(coarse, Offer)
    assert coarse.reason.startswith("bfp16 (eight bfloat16 numbers share an exponent) products on")
    assert exact.reason.startswith("bfloat16 products on")
    assert (exact.coarse, coarse.coarse) == (False, True)
    (source,) = {function.source.text for function in coarse.design().functions}
    assert source.startswith("#define AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 1\n#include <aie_api/aie.hpp>")
    assert "EMULATE" not in next(iter(exact.design().functions)).source.text
    assert {operand.dtype for operand in coarse.operands[:2]} == {"bfloat16"}


def test_the_older_generation_multiplies_bfloat16_exactly() -> None:
    a, b = normal(40, 64), normal(64, 48)
    on = target("aie2", 4)
    assert gemm.claim(task_of(a @ b), on._replace(bfloat16="bfp16")).reason == gemm.claim(task_of(a @ b), on).reason


def test_rounded_float32_becomes_block_floats_too() -> None:
    a, b = normal(40, 64, dtype=nt.float32, seed=6), normal(64, 48, dtype=nt.float32, seed=7)
    on = target("aie2p", 4, "bfloat16")._replace(bfloat16="bfp16")
    result = simulate(a @ b, [a, b], on)
    assert nmse(result, sums_of_block_floats(a.to(nt.bfloat16), b.to(nt.bfloat16))) < 1e-11
    emulated = gemm.claim(task_of(a @ b), target("aie2p", 4, "emulate")._replace(bfloat16="bfp16"))
    assert emulated.reason.startswith("float32 products")


def test_forgetting_the_rounding_mode_shows() -> None:
    """Cores truncate unless told otherwise; the reference tells."""
    problem, tiling = GemmProblem("aie2", 2, "bfloat16", "bfloat16", 64, 32, 64), Tiling(2, 2, 16, 16, 16, 2)
    a, b = operands(problem)
    once = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    right = design(problem, tiling, PLAIN, *dense(problem, tiling))
    assert nmse(product(problem, tiling, a, b, right), once) <= ROUNDED_ONCE

    def forgetful(source: Source) -> Source:
        text = source.text.replace("aie::set_rounding(aie::rounding_mode::conv_even);", "")
        assert text != source.text
        return dataclasses.replace(source, text=text)

    functions = tuple(dataclasses.replace(f, source=forgetful(f.source)) for f in right.functions)
    wrong = dataclasses.replace(right, functions=functions)
    assert nmse(product(problem, tiling, a, b, wrong), once) > ROUNDED_ONCE
