"""The element-wise family on the simulated array: every op, every way of broadcasting, both generations.

Results are compared with the ops' formulas in NumPy, in float64 and rounded once, or in the integer type itself.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

import kernel_tasks
import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import accepted, simulate, target

import npu_tensor as nt
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.kernels import elementwise
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.npu.agreement import disagreement, tolerance
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Fusion, Input, NumberInput, Output, Refusal, Task, TensorInput
from npu_tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
ARCHS = ("aie2", "aie2p")


task_of = partial(kernel_tasks.task_of, fusion=Fusion(inputs=4, prologues=False))


def claimed(task: Task, target: Target) -> Offer:
    offer = elementwise.claim(task, target)
    assert isinstance(offer, Offer), offer
    return offer


def flat(values: Array) -> Array:
    return np.ascontiguousarray(values).ravel()


_compiled = compiled_together(
    lambda: [offer.design() for arch in ARCHS for offer in layout_offers(arch).values()], autouse=False
)


def normalized_error(result: Array, expected: Array) -> float:
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(result), finite)
    return kernel_tasks.nmse(result[finite], expected[finite])


# --- memory layouts


class Lying(NamedTuple):
    """Memory layout of operands.

    Attributes:
        shape: Shape of the result.
        operands: Shape of each operand, the order by which it is permuted from contiguous memory, and its offset.
        dtype: Dtype of results and registers.
        dtypes: Dtypes of the operands, if they differ.
    """

    shape: tuple[int, ...]
    operands: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]
    results: int = 1
    dtype: str = "int32"
    number: int | None = None
    dtypes: tuple[str, ...] = ()


def lying(shape: tuple[int, ...], *shapes: tuple[int, ...], **options: Any) -> Lying:
    """Operands in C order."""
    return Lying(shape, tuple((own, tuple(range(len(shape))), 0) for own in shapes), **options)


LAYOUTS: dict[str, Lying] = {
    "one element": lying((1,), (1,)),
    "one element with a number": lying((1, 1), (1, 1), (1, 1), number=-5),
    "ragged": lying((1023,), (1023,), (1023,)),
    "large and ragged": lying((300_007,), (300_007,), results=2),
    "three streams": lying((20_011,), *[(20_011,)] * 3),
    "four streams": lying((20_011,), *[(20_011,)] * 4, dtype="int16"),
    "row": lying((100, 64), (100, 64), (1, 64)),
    "row of odd length": lying((1000, 37), (1000, 37), (1, 37), number=3),
    "row that must be padded": lying((130, 1001), (130, 1001), (1, 1001)),
    "row longer than a tile": lying((3, 20_000), (3, 20_000), (1, 20_000)),
    "two rows of different length": lying((40, 6, 32), (40, 6, 32), (1, 6, 32), (1, 1, 32)),
    "column": lying((500, 64), (500, 64), (500, 1)),
    "column of odd rows": lying((300, 65), (300, 65), (300, 1)),
    "column of long rows": lying((9, 16_000), (9, 16_000), (9, 1)),
    "column over short rows": lying((999, 3), (999, 3), (999, 1)),
    "column and row": lying((77, 96), (77, 96), (77, 1), (1, 96), dtype="int16"),
    "column against row": lying((65, 48), (65, 1), (1, 48)),
    "two columns": lying((64, 8, 32), (64, 8, 32), (64, 1, 1), (64, 8, 1), dtype="int8"),
    "one value for all": lying((50, 50), (50, 50), (1, 1)),
    "GGML broadcast": lying((3, 4, 5, 64), (3, 4, 5, 64), (3, 1, 5, 1), (1, 4, 1, 64)),
    "batched row": lying((6, 40, 64), (6, 40, 64), (6, 1, 64), dtype="int8"),
    "transposed": Lying((120, 75), (((120, 75), (1, 0), 0), ((120, 75), (0, 1), 0))),
    "permuted, with offsets": Lying((5, 6, 7, 8), (((5, 6, 7, 8), (2, 0, 3, 1), 3), ((1, 6, 1, 8), (3, 1, 0, 2), 1))),
    "row of another dtype": lying((50, 96), (50, 96), (1, 96), dtypes=("int32", "bfloat16")),
    "column of another dtype": lying((200, 96), (200, 96), (200, 1), dtypes=("bfloat16", "bool")),
    "row wider than the stream": lying((50, 96), (50, 96), (1, 96), dtypes=("int8", "int32")),
    "streams of two sizes": lying((5000,), *[(5000,)] * 4, dtypes=("int8", "int32", "int32", "uint8")),
    "bytes": lying((257, 3), (257, 3), (1, 3), dtype="uint8"),
}


def strides_of(lying: Lying, operand: int) -> tuple[int, ...]:
    shape, order, _ = lying.operands[operand]
    packed = contiguous_strides(tuple(shape[axis] for axis in order))
    strides = [0] * len(shape)
    for axis, stride in zip(order, packed, strict=True):
        strides[axis] = stride if shape[axis] > 1 else 0
    return tuple(strides)


def sum_case(lying: Lying, seed: int = 0) -> tuple[Task, list[Any], list[Array]]:
    """3 a + b, 3 (3 a + b) + c and so on, plus the number: a task, its buffers and the results."""
    random = np.random.default_rng(seed)
    shape, dtype = lying.shape, as_dtype(lying.dtype)
    builder = ProgramBuilder()
    inputs: list[Input] = []
    buffers: list[Any] = []
    total: Any = None
    expected: Any = None
    for slot, (own, _, offset) in enumerate(lying.operands):
        layout = Layout(shape, strides_of(lying, slot), offset)
        stored = as_dtype(lying.dtypes[slot]) if lying.dtypes else dtype
        buffer = random.integers(0, 100, offset + math.prod(own)).astype(stored.numpy)
        inputs.append(TensorInput(slot, stored, layout))
        buffers.append(buffer)
        steps = [stride * stored.itemsize for stride in layout.strides]
        values = np.lib.stride_tricks.as_strided(buffer[offset:], shape, steps).astype(dtype.numpy)
        operand = builder.load(slot, stored.register).astype(dtype.name)
        total = operand if total is None else total * 3 + operand
        expected = values if expected is None else expected * dtype.numpy.type(3) + values
    if lying.number is not None:
        total = total + builder.scalar(len(inputs), dtype.name)
        expected = expected + dtype.numpy.type(lying.number)
        inputs.append(NumberInput(len(inputs)))
        buffers.append(lying.number)
    packed = Layout(shape, contiguous_strides(shape))
    results = [total, total - 1][: lying.results]
    outputs = [Output(9 + n, dtype, packed, math.prod(shape) * dtype.itemsize) for n in range(lying.results)]
    program = builder.program(results)
    task = Task("map", (0,), ("sum",), tuple(inputs), tuple(outputs), shape, program=program)
    return task, buffers, [expected, expected - dtype.numpy.type(1)][: lying.results]


def columns_for(name: str, arch: str) -> int:
    """Return a number of columns; every number is used by some layout."""
    return 1 + list(LAYOUTS).index(name) % ARRAYS[arch].columns


@cache
def layout_offers(arch: str) -> dict[str, Offer]:
    return {name: claimed(sum_case(lying)[0], target(arch, columns_for(name, arch))) for name, lying in LAYOUTS.items()}


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, arch: str) -> None:
    task, buffers, expected = sum_case(LAYOUTS[name])
    where = target(arch, columns_for(name, arch))
    for result, wanted in zip(simulate(task, layout_offers(arch)[name], where, buffers), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


# --- numbers, selection, policies


def simulated(result: Tensor, target: Target, *buffers: Any) -> Array:
    """The value of a lazy tensor whose operands have these buffers."""
    task = task_of(result)
    return simulate(task, elementwise.claim(task, target), target, buffers)[0]


def normal(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> tuple[Tensor, Array]:
    values = np.random.default_rng(seed).normal(0, 2, shape).astype(dtype.numpy)
    return nt.from_numpy(values).realize(), values


def test_where_takes_bool_beside_floats() -> None:
    """Three streams, of which two share a channel because their elements have the same size."""
    (a, x), (b, y) = normal((70, 33), nt.bfloat16, 1), normal((70, 33), nt.bfloat16, 2)
    mask = np.random.default_rng(3).integers(0, 2, (70, 33)).astype(bool)
    result = nt.where(nt.from_numpy(mask).realize(), a, b)
    got = simulated(result, target("aie2", 2), flat(mask), flat(x), flat(y))
    np.testing.assert_array_equal(got.astype(np.float32), np.where(mask, x, y).astype(np.float32))


def test_numbers_are_no_part_of_the_design() -> None:
    """They are passed with every run: other numbers run the same kernel."""
    a, x = normal((300,), nt.bfloat16)
    actual = []
    for number in (0.25, -3.0):
        task = task_of(a * number)
        offer = claimed(task, target("aie2"))
        (result,) = simulate(task, offer, target("aie2"), [flat(x), number])
        np.testing.assert_array_equal(
            result.astype(np.float32), (x * nt.bfloat16.numpy.type(number)).astype(np.float32)
        )
        actual.append(offer.design())
    assert actual[0] == actual[1]


def test_float32_by_policy() -> None:
    (a, x), (b, y) = normal((33, 40), nt.float32, 1), normal((33, 40), nt.float32, 2)
    exact = np.tanh(x.astype(np.float64)) * y
    exp = task_of(a.tanh() * b)
    refused = elementwise.claim(exp, target("aie2p"))
    assert isinstance(refused, Refusal)
    assert "float32 is exact on the CPU" in refused.reason
    emulated = simulated(a.tanh() * b, target("aie2p", 1, "emulate"), flat(x), flat(y))
    assert normalized_error(emulated, exact) < 1e-12
    rounded = simulated(a.tanh() * b, target("aie2p", 1, "bfloat16"), flat(x), flat(y))
    x, y = (values.astype(nt.bfloat16.numpy).astype(np.float64) for values in (x, y))
    assert normalized_error(rounded, np.tanh(x) * y) < 1e-8
    assert "rounded to bfloat16" in claimed(exp, target("aie2p", 1, "bfloat16")).reason


APPROXIMATE: dict[str, tuple[Any, Any]] = {
    "exp": (Tensor.exp, np.exp),
    "tanh": (Tensor.tanh, np.tanh),
    "sigmoid": (Tensor.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (Tensor.silu, lambda x: x / (1 + np.exp(-x))),
    "gelu": (Tensor.gelu, lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))),
    "gelu_tanh": (
        lambda x: nt.gelu(x, approximate="tanh"),
        lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
}
"""Approximate functions and their formulas."""
ERRORS: dict[tuple[str, str], tuple[float, float]] = {
    ("aie2", "tanh"): (0.0051, 0.0062),
    ("aie2", "sigmoid"): (0.0042, 1.0),
    ("aie2", "silu"): (0.0208, 1.0),
    ("aie2", "gelu"): (0.0101, 1.0),
    ("aie2", "gelu_tanh"): (0.0103, 1.0),
    ("aie2p", "exp"): (math.inf, 0.0325),
    ("aie2p", "tanh"): (0.0379, 0.082),
    ("aie2p", "sigmoid"): (0.0205, 1.0),
    ("aie2p", "silu"): (0.0198, 1.0),
    ("aie2p", "gelu"): (0.0101, 1.0),
    ("aie2p", "gelu_tanh"): (0.0132, 1.0),
}
"""Largest absolute and relative errors, as in docs/kernels.md."""
FAST = {arch: target(arch, 1)._replace(functions="approximate") for arch in ARCHS}


@pytest.mark.parametrize(("arch", "name"), ERRORS)
def test_approximate_functions_of_all_numbers(arch: str, name: str) -> None:
    """Compared in float64. Subnormal operands count as zeros, and NaN stays NaN."""
    (function, formula), (absolute, relative) = APPROXIMATE[name], ERRORS[arch, name]
    x = np.arange(1 << 16, dtype=np.uint16).view(nt.bfloat16.numpy)
    operand = nt.from_numpy(x).realize()
    with np.errstate(all="ignore"):
        got = simulated(function(operand), FAST[arch], x).astype(np.float64)
        wide = x.astype(np.float64)
        expected = formula(wide)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        size = abs(expected)
        chosen = (abs(wide) >= 2.0**-126) & np.isfinite(wide) & (size < 3.38e38) & (size >= 2.0**-126)
        error = abs(got - expected)[chosen]
        largest, largest_relative = error.max(), (error / size[chosen]).max()
    assert largest <= absolute * 1.005
    assert math.isinf(absolute) or largest >= absolute * 0.98
    assert relative * 0.99 <= largest_relative <= relative * 1.005


@pytest.mark.parametrize(("arch", "name"), ERRORS)
def test_approximate_functions_agree_as_coarse_ones(arch: str, name: str) -> None:
    function, formula = APPROXIMATE[name]
    operand, x = normal((3000,), nt.bfloat16)
    assert claimed(task_of(function(operand)), FAST[arch]).coarse
    got = simulated(function(operand), FAST[arch], x)
    right = formula(x.astype(np.float64)).astype(nt.bfloat16.numpy)
    allowed = tolerance(task_of(function(operand)), chosen=True, coarse=True)
    assert disagreement(got, right, allowed) is None
    assert disagreement(got[::-1].copy(), right, allowed) is not None


@pytest.mark.parametrize("arch", ARCHS)
def test_approximate_parts_of_a_chain(arch: str) -> None:
    """Operands of other ops, a power that is read twice, and a result that is widened after it was rounded."""
    a, x = normal((40, 64), nt.bfloat16)
    wide = x.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-wide))
    for result, expected in (
        ((a * a).tanh() * a, np.tanh(wide * wide) * wide),
        ((-a).exp() * a.sigmoid(), np.exp(-wide) * sigmoid),
        ((a.exp() * a).silu().float(), wide * np.exp(wide) / (1 + np.exp(-wide * np.exp(wide)))),
        ((a * a - a).exp() * a.tanh(), np.exp(wide * wide - wide) * np.tanh(wide)),
    ):
        assert claimed(task_of(result), FAST[arch]).coarse
        assert normalized_error(simulated(result, FAST[arch], flat(x)).reshape(40, 64), expected) < 5e-3


@pytest.mark.parametrize("arch", ARCHS)
def test_operands_that_cancel_are_not_rounded(arch: str) -> None:
    x = 64 * normal((3000,), nt.bfloat16)[1]
    a = nt.from_numpy(x).realize()
    got = simulated((a * a + a - a * a).tanh(), FAST[arch], x)
    assert normalized_error(got, np.tanh(x.astype(np.float64))) < 1e-3


def test_what_stays_exact() -> None:
    """Exponentials of the older array, results of other dtypes, and other functions."""
    a, c = normal((300,), nt.bfloat16)[0], normal((300,), nt.float32)[0]
    for result, where in (
        (a.exp(), target("aie2")),
        (c.exp(), target("aie2p", 0, "emulate")),
        (a.erf(), target("aie2p")),
        (a.expm1(), target("aie2p")),
    ):
        exact, other = (claimed(task_of(result), where._replace(functions=each)) for each in ("exact", "approximate"))
        assert exact.design() == other.design()
        assert not other.coarse


def test_refusals_say_why() -> None:
    def reason(result: Tensor) -> str:
        answer = elementwise.claim(task_of(result), target("aie2p", 0, "emulate"))
        assert isinstance(answer, Refusal)
        return answer.reason

    long = nt.ones(100, dtype=nt.int64).realize()
    assert "int64 has no kernel" in reason(long + 1)
    assert "no tensor to stream" in reason(nt.full((100,), 3.0, dtype=nt.bfloat16))


def test_a_program_must_fit_in_a_core() -> None:
    task, _, _ = sum_case(lying((100,), (100,)))
    builder = ProgramBuilder()
    x = builder.load(0, "int32").astype("float32")
    for _ in range(40):
        x = np.sin(np.exp(x))
    task = task._replace(program=builder.program([x.astype("int32")]))
    answer = elementwise.claim(task, target("aie2"))
    assert isinstance(answer, Refusal)
    assert "bytes of machine code" in answer.reason


# --- predictions


NEAR_THE_LIMIT = {
    2: "relu abs neg exp log sqrt sigmoid silu gelu_quick leaky_relu hardswish hardsigmoid",
    3: "add mul maximum reglu_gate",
}


AT_LEAST = {"aie2": 0.8 * 15e9, "aie2p": 0.8 * 50e9}
"""Bytes per second between host memory and array that no such kernel may stay below. erf and tanh take too long."""


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("name", "tensors"), [(name, tensors) for tensors, names in NEAR_THE_LIMIT.items() for name in names.split()]
)
def test_16_million_elements_are_streamed(name: str, tensors: int, arch: str) -> None:
    array = ARRAYS[arch]
    spread = nt.zeros(1, dtype=nt.bfloat16).realize().expand((1 << 24,)).contiguous().realize()
    other = spread.neg().realize()
    result = OPS[name].record(*[spread, other][: tensors - 1])
    prediction = predict(count(claimed(task_of(result), target(arch)).design()), array)
    assert tensors * 2 * (1 << 24) / prediction.seconds >= AT_LEAST[arch]


def test_cycles_of_a_tile() -> None:
    """A sum of bfloat16 takes a cycle per 16 elements: a load converts one operand, a product with 1 the other."""
    x, y = (nt.zeros(1 << 20, dtype=nt.bfloat16).realize() for _ in range(2))
    (function,) = claimed(task_of(x + y), target("aie2p")).design().functions
    (elements,) = {argument.elements for argument in function.arguments if not isinstance(argument, str)}
    assert elements // 16 <= function.cycles <= elements // 16 + 40


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_computed_uses_all_cores(arch: str) -> None:
    x = nt.zeros(1 << 20, dtype=nt.bfloat16).realize()
    cores = ARRAYS[arch].columns * ARRAYS[arch].core_rows
    assert len(claimed(task_of(x.gelu()), target(arch)).design().workers) == cores
    assert len(claimed(task_of(x.reshape(1024, 1024) * x[:1024]), target(arch)).design().workers) == cores


def test_a_small_tensor_takes_one_core_of_each_column() -> None:
    x = nt.zeros(1000, dtype=nt.bfloat16).realize()
    assert len(claimed(task_of(x.exp()), target("aie2p")).design().workers) == 8


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["one stream", "two streams", "row", "column", "row and column", "number"])
def test_few_configurations_serve_all_shapes(kind: str, arch: str) -> None:
    """One for each size of tiles."""
    configurations = set()
    for shape in [(3, 333), (64, 64), (128, 512), (20, 30, 1000), (1024, 1024), (4096, 1376)]:
        x = nt.zeros(shape, dtype=nt.bfloat16).realize()
        row = nt.zeros(shape[-1], dtype=nt.bfloat16).realize().expand(shape)
        column = nt.zeros((*shape[:-1], 1), dtype=nt.bfloat16).realize().expand(shape)
        results = {"one stream": x.exp(), "two streams": x + x.neg().realize(), "number": x * 0.5}
        results |= {"row": x + row, "column": x * column, "row and column": x * column + row}
        offer = claimed(task_of(results[kind]), target(arch))
        assert ("kept" in offer.reason) == (kind in ("row", "column", "row and column"))
        configurations.add(accepted(offer).configuration)
    assert len(configurations) <= 3


def test_a_kept_row_is_fetched_once_per_column() -> None:
    """256 rows of 512: the row costs each of the 8 columns one tile and not another stream."""
    x, row = nt.zeros(2048, 512, dtype=nt.bfloat16).realize(), nt.zeros(512, dtype=nt.bfloat16).realize()
    design = claimed(task_of(x * row), target("aie2p")).design()
    assert count(design).ddr_bytes < 2 * 2 * 2048 * 512 * 1.2


def test_equal_tasks_give_equal_designs() -> None:
    x, y = (nt.zeros(100, 70, dtype=nt.bfloat16).realize() for _ in range(2))
    first, second = (claimed(task_of((operand * 2).tanh()), target("aie2")).design() for operand in (x, y))
    assert first == second
    assert hash(first) == hash(second)


# --- claims keep their word


@st.composite
def lyings(draw: st.DrawFn) -> Lying:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 16, 17, 64, 100, 333, 2048]), min_size=1, max_size=4)))
    while math.prod(shape) > 1_000_000:
        shape = shape[1:]
    operands = []
    for _ in range(draw(st.integers(1, 4))):
        own = tuple(draw(st.sampled_from([extent, extent, 1])) for extent in shape)
        order = tuple(draw(st.permutations(range(len(shape)))))
        operands.append((own, order, draw(st.sampled_from([0, 0, 5]))))
    results = draw(st.sampled_from([1, 1, 2])) if len(operands) < 4 else 1
    dtype = draw(st.sampled_from(["int8", "int16", "int32", "uint8"]))
    dtypes: list[str] = []
    if draw(st.booleans()):
        dtype = "int32"
        stored = st.sampled_from(["int8", "int16", "int32", "uint8", "bool", "bfloat16", "float16"])
        dtypes = draw(st.lists(stored, min_size=len(operands), max_size=len(operands)))
    return Lying(shape, tuple(operands), results, dtype, draw(st.sampled_from([None, 7])), tuple(dtypes))


def offered(task: Task, target: Target) -> Offer:
    """Return the offer for a task. Only streams with three element sizes or rounding of float16 may be refused."""
    answer = elementwise.claim(task, target)
    dtypes = {operand.dtype for operand in task.inputs if operand.dtype is not None}
    if isinstance(answer, Refusal):
        if "float16" in answer.reason:
            assert nt.float16 in dtypes
        else:
            assert "more than two element sizes" in answer.reason
            assert len({dtype.itemsize for dtype in dtypes}) == 3
        reject()
    assert isinstance(answer, Offer)
    return answer


@settings(max_examples=150, deadline=None)
@given(lyings(), st.sampled_from(ARCHS), st.integers(1, 8))
def test_what_is_claimed_passes_every_check(lying: Lying, arch: str, columns: int) -> None:
    task, _, _ = sum_case(lying)
    accepted(offered(task, target(arch, min(columns, ARRAYS[arch].columns))))


@settings(max_examples=10, deadline=None)
@given(lyings(), st.sampled_from(ARCHS), st.integers(1, 8), st.integers(0, 99))
@example(lying((5, 333), (5, 333), (1, 333), (5, 1), results=2, dtype="int8"), "aie2p", 3, 0)
def test_what_is_claimed_compiles_and_runs(lying: Lying, arch: str, columns: int, seed: int) -> None:
    task, buffers, expected = sum_case(lying, seed)
    where = target(arch, min(columns, ARRAYS[arch].columns))
    for result, wanted in zip(simulate(task, offered(task, where), where, buffers), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
