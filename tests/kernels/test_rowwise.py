"""Row-wise kernels: what users write, on the simulated array, against PyTorch in float64 rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import kernel_tasks
import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import accepted

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import NpuTensorError
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import families, rowwise
from npu_tensor.kernels.offer import Target
from npu_tensor.planner import selection
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Fusion, Refusal, Task

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

Array = np.ndarray[Any, Any]

NPU1, NPU2 = "sim:npu1", "sim:npu2"
# Lengths that are multiples of a vector get C++ of their own.
SHORT = [(1, 1), (3, 1), (1, 7), (5, 33), (37, 300), (2, 3, 4, 50)]
LONG = [(2, 20_001), (9, 16_405), (1, 100_003)]
LONG_CASES = ("softmax", "sum", "amax", "std", "layer_norm", "logsumexp")


@pytest.fixture(autouse=True)
def only_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All other tasks run on the CPU."""
    monkeypatch.setattr(families, "claim", rowwise.claim)
    selection.reset()
    yield
    selection.reset()


def on_array(uri: str, function: Callable[..., nt.Tensor], *operands: Array) -> Array:
    """The result of a function of tensors, at least one kernel of which ran on the simulated array."""
    tensors = [nt.from_numpy(operand) for operand in operands]
    simulated: list[events.Event] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelRan) and event.simulated:
            simulated.append(event)

    with nt.default_device(uri), events.listen(note):
        result: Array = function(*tensors).numpy()
    assert simulated, "no kernel was placed on the array"
    return result


def bfloat16(generator: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    return (generator.normal(size=shape) * scale).astype(ml_dtypes.bfloat16)


def exact(array: Array) -> Any:
    """Floats as float64, others as they are, for PyTorch."""
    return torch.from_numpy(array.astype(np.float64) if array.dtype.kind not in "biu" else array.copy())


def nmse(got: Array, expected: Any) -> float:
    """Return the NMSE of a result against float64 rounded to the dtype of the result."""
    return kernel_tasks.nmse(got, expected.numpy().astype(got.dtype))


class Case(NamedTuple):
    """A function of one tensor in both packages; they have the same names here."""

    name: str
    ours: Callable[[nt.Tensor], nt.Tensor]
    theirs: Callable[[Any], Any]


FLOATS = [
    Case("softmax", lambda x: x.softmax(-1), lambda x: x.softmax(-1)),
    Case("log_softmax", lambda x: x.log_softmax(-1), lambda x: x.log_softmax(-1)),
    Case("logsumexp", lambda x: x.logsumexp(-1), lambda x: x.logsumexp(-1)),
    Case("sum", lambda x: x.sum(-1), lambda x: x.sum(-1)),
    Case("mean", lambda x: x.mean(-1), lambda x: x.mean(-1)),
    Case("prod", lambda x: (x * 0.01 + 1).prod(-1), lambda x: (x * 0.01 + 1).prod(-1)),
    Case("amax", lambda x: x.amax(-1), lambda x: x.amax(-1)),
    Case("amin", lambda x: x.amin(-1), lambda x: x.amin(-1)),
    Case("std", lambda x: x.std(-1, correction=0), lambda x: x.std(-1, correction=0)),
    Case(
        "rms_norm",
        lambda x: nt.rms_norm(x, x.shape[-1:], eps=1e-5),
        lambda x: torch.rms_norm(x, x.shape[-1:], eps=1e-5),
    ),
    Case("layer_norm", lambda x: nt.layer_norm(x, x.shape[-1:]), lambda x: torch.layer_norm(x, x.shape[-1:])),
    Case("l2_norm", nt.l2_norm, lambda x: torch.nn.functional.normalize(x, dim=-1)),
    Case("fused", lambda x: (x * 0.5 + 1).softmax(-1).sqrt(), lambda x: (x * 0.5 + 1).softmax(-1).sqrt()),
]


def devices(arch: str) -> Iterator[str]:
    """The simulated NPUs of one generation, with each number of columns in turn."""
    name, columns = {"aie2": (NPU1, 4), "aie2p": (NPU2, 8)}[arch]
    while True:
        yield from (f"{name}?cols={count}" for count in range(1, columns + 1))


def short_rows(number: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The devices and shapes of a case of floats."""
    return zip(devices(("aie2", "aie2p")[number % 2]), SHORT, strict=False)


def long_rows(number: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    return zip(devices(("aie2p", "aie2")[number % 2]), LONG, strict=False)


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(("number", "case"), list(enumerate(FLOATS)), ids=lambda value: getattr(value, "name", ""))
def test_bfloat16(number: int, case: Case) -> None:
    for uri, shape in short_rows(number):
        check_bfloat16(case, uri, shape)


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize("name", LONG_CASES)
def test_bfloat16_in_long_rows(name: str) -> None:
    number, case = next((number, case) for number, case in enumerate(FLOATS) if case.name == name)
    for uri, shape in long_rows(number):
        check_bfloat16(case, uri, shape)


def check_bfloat16(case: Case, uri: str, shape: tuple[int, ...]) -> None:
    x = bfloat16(np.random.default_rng(len(shape) + shape[-1]), shape)
    assert nmse(on_array(uri, case.ours, x), case.theirs(exact(x))) <= 1e-6, (uri, shape)


@pytest.mark.parametrize("uri", [f"{NPU1}?cols=3", NPU2])
def test_a_row_of_a_million(uri: str) -> None:
    x = bfloat16(np.random.default_rng(2), (1_000_003,), 3.0)
    assert nmse(on_array(uri, lambda x: x.sum(), x), exact(x).sum()) <= 1e-6
    assert nmse(on_array(uri, lambda x: x.softmax(0), x), exact(x).softmax(0)) <= 1e-6
    assert on_array(uri, lambda x: x.argmax(), x) == exact(x).argmax().item()


@pytest.mark.parametrize("uri", [NPU1, NPU2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int32"])
@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_one_row_with_an_operand_of_one_element(uri: str, dtype: str, shape: tuple[int, ...]) -> None:
    """The rows that fill up the array must not be copied back over the only one."""
    generator = np.random.default_rng(7)
    x = generator.integers(-9, 9, (1, 64)).astype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    scale = np.full(shape, 3, x.dtype)

    def centered(x: Any, t: Any) -> Any:
        return x * t - x.amax(-1, keepdim=True) * t

    got = on_array(f"{uri}?float32=emulate", centered, x, scale)
    assert nmse(got, centered(exact(x), exact(scale))) < 1e-5


@pytest.mark.parametrize("uri", [NPU2, f"{NPU1}?cols=2"])
@pytest.mark.parametrize("shape", [(1, 40_001), (3, 20_000)])
def test_what_fills_up_chunks_is_not_part_of_the_row(uri: str, shape: tuple[int, int]) -> None:
    """All elements are below 0, so that zeros would be seen; the last ones of rows are NaN or the largest."""
    x = -1 - np.abs(bfloat16(np.random.default_rng(3), shape))
    x[0] = -np.inf
    x[0, -1] = -0.5
    x[-1, -2:] = [-0.25, np.nan] if len(x) > 1 else -0.25
    own, theirs = on_array(uri, lambda x: x.amax(-1), x), exact(x).amax(-1).numpy()
    np.testing.assert_array_equal(own.astype(np.float64), theirs)
    np.testing.assert_array_equal(on_array(uri, lambda x: x.argmax(-1), x), exact(x).argmax(-1).numpy())
    finite = x[1:-1] if len(x) > 2 else x
    assert nmse(on_array(uri, lambda x: x.logsumexp(-1), finite), exact(finite).logsumexp(-1)) <= 1e-6


# --- integers, bools and indices: exact

INTEGERS = [
    Case("sum", lambda x: x.sum(-1), lambda x: x.sum(-1)),
    Case("amax", lambda x: x.amax(-1), lambda x: x.amax(-1)),
    Case("amin", lambda x: x.amin(-1), lambda x: x.amin(-1)),
    Case("argmax", lambda x: x.argmax(-1), lambda x: np.argmax(x.numpy(), -1)),
    Case("argmin", lambda x: x.argmin(-1), lambda x: np.argmin(x.numpy(), -1)),
    Case("any", lambda x: x.any(-1), lambda x: x.any(-1)),
    Case("all", lambda x: x.all(-1), lambda x: x.all(-1)),
    Case("count_equal", lambda x: nt.count_equal(x, x * x), lambda x: (x == x * x).sum()),
]


INTEGER_CASES = [
    (number, case, dtype)
    for dtype in ("int8", "int16", "int32", "bool")
    for number, case in enumerate(INTEGERS)
    if (case.name, dtype) not in (("sum", "int32"), ("count_equal", "bool"))  # Refused, or not an op of this dtype.
]


def integer_rows(number: int, dtype: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    shapes = [(1, 1), (5, 33), (19, 639), (3, 4, 1001)]
    if dtype == "int16":
        shapes.append((2, 30_001))
    return zip(devices(("aie2", "aie2p")[(number + len(dtype)) % 2]), shapes, strict=False)


def designs_of_cases() -> Iterator[Design]:
    """Build the designs of all cases of floats and integers."""
    cases = [(case, "bfloat16", rows) for number, case in enumerate(FLOATS) for rows in short_rows(number)]
    cases += [
        (case, "bfloat16", rows)
        for number, case in enumerate(FLOATS)
        if case.name in LONG_CASES
        for rows in long_rows(number)
    ]
    cases += [(case, dtype, rows) for number, case, dtype in INTEGER_CASES for rows in integer_rows(number, dtype)]
    for case, dtype, (uri, shape) in cases:
        result = case.ours(nt.zeros(shape, dtype=dtype).realize())
        for task in cut(structure_of([result._node]), SimulatedDevice.fusion).tasks:
            answer = rowwise.claim(task, simulated_target(parse_uri(uri)))
            if not isinstance(answer, Refusal):
                yield answer.design()


_compiled = compiled_together(designs_of_cases, autouse=False)


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(("number", "case", "dtype"), INTEGER_CASES, ids=lambda value: getattr(value, "name", value))
def test_integers(number: int, case: Case, dtype: str) -> None:
    generator = np.random.default_rng(number)
    for uri, shape in integer_rows(number, dtype):
        if dtype == "bool":
            x = generator.random(shape) < 0.99
        else:
            limits = np.iinfo(dtype)
            x = generator.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
            x[..., ::3] = x[..., :1]  # Ties.
            x[0, ..., shape[-1] // 2 :] = limits.max
        np.testing.assert_array_equal(on_array(uri, case.ours, x), case.theirs(torch.from_numpy(x)), str((uri, shape)))


@pytest.mark.parametrize("uri", [NPU1, NPU2])
def test_first_of_equal_elements(uri: str) -> None:
    x = np.ones((4, 100), ml_dtypes.bfloat16)
    x[1] = -math.inf
    x[2] = math.inf
    x[3, 17:] = 2
    for operand in (x, -x, np.repeat(x, 300, -1)):
        expected = np.argmax(operand.astype(np.float32), -1)
        np.testing.assert_array_equal(on_array(uri, lambda x: x.argmax(-1), operand), expected)


# --- what floats can be


@pytest.mark.parametrize(("length", "one", "other"), [(45, NPU1, NPU2), (20_101, NPU2, NPU1)])
def test_nan_goes_through(length: int, one: str, other: str) -> None:
    x = bfloat16(np.random.default_rng(4), (6, length))
    x[1, 40] = x[2, 0] = x[2, 7] = x[3, length - 1] = math.nan
    x[4, 3] = math.inf
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(on_array(one, lambda x: x.argmax(-1), x), np.argmax(wide, -1))
    np.testing.assert_array_equal(on_array(one, lambda x: x.argmin(-1), x), np.argmin(wide, -1))
    np.testing.assert_array_equal(on_array(one, lambda x: x.amax(-1), x).astype(float), wide.max(-1))
    np.testing.assert_array_equal(on_array(other, lambda x: x.amin(-1), x).astype(float), wide.min(-1))
    got = on_array(one, lambda x: x.softmax(-1), x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact(x).softmax(-1).numpy()))


@pytest.mark.parametrize("shape", [(3, 4, 70), (3, 1, 17_000)])
def test_masked_rows(shape: tuple[int, ...]) -> None:
    """Minus infinity takes no probability, and a row of nothing else has none to give."""
    x = bfloat16(np.random.default_rng(5), shape)
    x[0, 0, 5:] = -math.inf
    x[1, 0] = -math.inf
    got = on_array(NPU1, lambda x: x.softmax(-1), x).astype(np.float64)
    expected = exact(x).softmax(-1).numpy()
    assert np.isnan(got[1, 0]).all()
    np.testing.assert_array_equal(got[0, 0, 5:], 0)
    np.testing.assert_allclose(np.delete(got, 1, 0), np.delete(expected, 1, 0), rtol=2**-8)
    lse = on_array(NPU1, lambda x: x.logsumexp(-1), x).astype(np.float64)
    assert lse[1, 0] == -math.inf


# --- several operands


def soft_max_ext(x: Any, mask: Any, scale: float, slopes: Any) -> Any:
    """GGML's definition, in float64."""
    return (x * scale + slopes[:, None, None] * mask).softmax(-1)


@pytest.mark.parametrize(("heads", "bias"), [(4, 0.0), (4, 8.0), (3, 2.0)])
@pytest.mark.parametrize(("arch", "columns"), [("npu1", 700), ("npu2", 13_001)])
def test_soft_max_ext(arch: str, columns: int, heads: int, bias: float) -> None:
    generator = np.random.default_rng(6)
    x = bfloat16(generator, (2, heads, 5, columns), 2.0)
    mask = np.where(generator.random((5, columns)) < 0.3, -math.inf, 0.0).astype(ml_dtypes.bfloat16)
    mask[:, 0] = 0
    mask[2, 1:] = -1.5
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-bias * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-bias * (2 * h + 1) / (2 * power)) for h in range(heads - power)]
    got = on_array(
        f"sim:{arch}?float32=emulate", lambda x, mask: nt.soft_max_ext(x, mask[None, None], 0.125, bias), x, mask
    )
    expected = soft_max_ext(exact(x), exact(mask), 0.125, torch.tensor(slopes, dtype=torch.float64))
    assert nmse(got, expected) <= 1e-6


@pytest.mark.parametrize("shape", [(1, 60), (50, 300), (3, 5, 4090), (2, 40_001)])
def test_norms_with_weights(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(7)
    x, weight, bias = bfloat16(generator, shape), bfloat16(generator, shape[-1:]), bfloat16(generator, shape[-1:])
    wide, w = exact(x), exact(weight)
    expected = torch.layer_norm(wide, shape[-1:]) * w
    got = on_array(f"{NPU2}?float32=emulate", lambda x, w: nt.layer_norm(x, shape[-1:], w), x, weight)
    assert nmse(got, expected) <= 1e-6
    if shape[-1] < 20_000:
        got = on_array(f"{NPU1}?float32=emulate", lambda x, w, b: nt.layer_norm(x, shape[-1:], w, b), x, weight, bias)
        assert nmse(got, expected + exact(bias)) <= 1e-6


@pytest.mark.parametrize(
    ("uri", "rows", "length"),
    [(NPU1, 70, 90), (NPU2, 1000, 333), (NPU2, 33, 11_001), (NPU1, 70, 20_001), (NPU1, 1, 50_001)],
)
def test_matrix_times_vector(uri: str, rows: int, length: int) -> None:
    generator = np.random.default_rng(9)
    matrix, vector = bfloat16(generator, (rows, length)), bfloat16(generator, (length,))
    got = on_array(uri, lambda m, v: m @ v, matrix, vector)
    assert nmse(got, exact(matrix) @ exact(vector)) <= 1e-6


@pytest.mark.parametrize(("rows", "length"), [(70, 100), (33, 11_001)])
def test_linear_with_bias_and_activation(rows: int, length: int) -> None:
    generator = np.random.default_rng(9)
    matrix, vector, bias = (bfloat16(generator, shape) for shape in ((rows, length), (1, length), (rows,)))
    got = on_array(NPU2, lambda m, v, b: nt.linear(v, m, b).relu(), matrix, vector, bias)
    assert nmse(got, (exact(vector) @ exact(matrix).T + exact(bias)).relu()) <= 1e-6


@pytest.mark.parametrize(("uri", "rows", "length"), [(NPU1, 21, 90), (NPU2, 40, 20_001), (f"{NPU2}?cols=3", 2, 20_001)])
def test_one_number_per_row(uri: str, rows: int, length: int) -> None:
    generator = np.random.default_rng(13)
    x, centre = bfloat16(generator, (rows, length)), bfloat16(generator, (rows, 1))
    got = on_array(uri, lambda x, c: (x - c).abs().sum(-1), x, centre)
    assert nmse(got, (exact(x) - exact(centre)).abs().sum(-1)) <= 1e-6
    got = on_array(uri, lambda x, c: (x - c).abs().sum(-1), x[0], centre)
    assert nmse(got, (exact(x[0]) - exact(centre)).abs().sum(-1)) <= 1e-6


def test_rows_along_any_dimensions() -> None:
    x = bfloat16(np.random.default_rng(10), (3, 5, 7, 9))
    for dims in [(0,), (1,), (0, 2), (1, 3), (0, 1, 2), (0, 1, 2, 3), (2, 3)]:
        got = on_array(f"{NPU1}?cols=2", lambda x, dims=dims: x.sum(dims), x)
        assert nmse(got, exact(x).sum(dims)) <= 1e-6, dims
    turned = on_array(NPU2, lambda x: x.permute(3, 1, 0, 2)[1:, :, ::2].softmax(2), x)
    assert nmse(turned, exact(x).permute(3, 1, 0, 2)[1:, :, ::2].softmax(2)) <= 1e-6


# --- float32 and float16


def test_float32_emulated() -> None:
    x = np.random.default_rng(11).normal(size=(7, 1000)).astype(np.float32)
    for ours, theirs in [
        (lambda x: x.softmax(-1), lambda x: x.softmax(-1)),
        (lambda x: x.sum(-1), lambda x: x.sum(-1)),
        (lambda x: x.log_softmax(-1), lambda x: x.log_softmax(-1)),
    ]:
        got = on_array(f"{NPU1}?float32=emulate", ours, x)
        assert nmse(got, theirs(exact(x))) <= 1e-12


def test_float32_through_bfloat16_and_float16() -> None:
    x = np.random.default_rng(12).normal(size=(7, 100)).astype(np.float32)
    rounded = exact(x.astype(ml_dtypes.bfloat16))
    got = on_array(f"{NPU1}?float32=bfloat16", lambda x: x.softmax(-1), x)
    assert nmse(got, rounded.softmax(-1)) <= 1e-12
    half = x.astype(np.float16)
    got = on_array(f"{NPU2}?float32=bfloat16", lambda half: half.softmax(-1), half)
    assert got.dtype == np.float16
    expected = exact(half.astype(ml_dtypes.bfloat16)).softmax(-1)
    assert nmse(got.astype(ml_dtypes.bfloat16), expected) <= 1e-6


# --- claims


def row_task(tensor: nt.Tensor) -> Task:
    """The task that a tensor is the result of."""
    tasks = cut(structure_of([tensor._node]), Fusion(4, prologues=False)).tasks
    return next(task for task in tasks if task.kind == "row")


PROGRAMS = [
    *FLOATS,
    *INTEGERS,
    Case("weighted", lambda x: nt.layer_norm(x, x.shape[-1:], x.reshape(-1)[: x.shape[-1]]), lambda x: x),
    Case("squared_errors", lambda x: ((x - x * 2) ** 2).mean(), lambda x: x),
    Case("over_all", lambda x: x.sum(), lambda x: x),
    Case("over_the_first", lambda x: x.amax(0), lambda x: x),
]
EXTENTS = st.one_of(st.integers(1, 70), st.sampled_from([128, 999, 4096, 7001, 15_000, 33_333]))


@settings(max_examples=100, deadline=None)
@given(
    case=st.sampled_from(PROGRAMS),
    shape=st.lists(EXTENTS, min_size=1, max_size=4).filter(lambda shape: math.prod(shape) <= 1 << 21),
    dtype=st.sampled_from([nt.bfloat16, nt.float16, nt.float32, nt.int8, nt.int16, nt.int32, nt.bool]),
    arch=st.sampled_from(sorted(ARRAYS)),
    columns=st.integers(1, 8),
    float32=st.sampled_from(["exact", "emulate", "bfloat16"]),
)
def test_what_is_claimed_can_be_built(
    case: Case, shape: list[int], dtype: Any, arch: Any, columns: int, float32: Any
) -> None:
    try:
        task = row_task(case.ours(nt.zeros(*shape, dtype=dtype).realize()))
    except (NpuTensorError, StopIteration):
        assume(False)  # Not an op of this dtype, or no row task.
    answer = rowwise.claim(task, Target(ARRAYS[arch], min(columns, ARRAYS[arch].columns), float32))
    if isinstance(answer, Refusal):
        assert answer.reason
        return
    accepted(answer)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 40),
    length=st.one_of(st.integers(1, 100), st.integers(1, 25_000)),
    columns=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_softmax_of_any_shape(rows: int, length: int, columns: int, seed: int) -> None:
    x = bfloat16(np.random.default_rng(seed), (rows, length), 3.0)
    got = on_array(f"{NPU2}?cols={columns}", lambda x: x.softmax(-1), x)
    # Each element must be one of the two neighbours. If one element dominates a row, the NMSE ignores the others.
    np.testing.assert_allclose(got.astype(np.float64), exact(x).softmax(-1), rtol=2**-8 + 2**-12)


def refused(tensor: nt.Tensor) -> str:
    answer = rowwise.claim(row_task(tensor), Target(ARRAYS["aie2"], 4))
    assert isinstance(answer, Refusal)
    return answer.reason


def test_refusals() -> None:
    x = nt.zeros(8, 100, dtype=nt.bfloat16).realize()
    wide = nt.zeros(8, 100).realize()
    assert "float32" in refused(wide.softmax(-1))
    assert "int64" in refused(nt.zeros(8, 100, dtype=nt.int32).realize().sum(-1))
    assert "int64" in refused(nt.zeros(8, 100, dtype=nt.int8).realize().prod(-1))
    assert "int64" in refused(nt.zeros(1 << 25, dtype=nt.int8).realize().sum())
    assert "float64" in refused(nt.zeros(8, 100, dtype=nt.float64).realize().sum(-1))
    others = [nt.zeros(8, 100, dtype=nt.bfloat16).realize() for _ in range(2)]
    assert "differ from row to row" in refused((x * others[0] + others[1]).softmax(-1))


def test_a_refusal_names_what_does_not_fit() -> None:
    tensor = nt.zeros(8, 64, dtype=nt.bfloat16).realize()
    for _ in range(3):
        tensor = nt.rms_norm(tensor, (64,)).gelu()
    reason = refused(tensor)
    assert "bytes of machine code" in reason
    assert "rows" not in reason


def test_the_whole_array_works_on_one_long_row() -> None:
    x = nt.zeros(1 << 24, dtype=nt.bfloat16).realize()
    for tensor in (x.sum(), x.softmax(0), x.argmax(), x.std()):
        assert len(accepted(rowwise.claim(row_task(tensor), Target(ARRAYS["aie2p"], 8))).workers) == 32


@pytest.mark.parametrize(("length", "columns"), [(20_000_000, 8), (3_000_000, 1)])
def test_columns_share_a_row_of_any_length(length: int, columns: int) -> None:
    x = nt.zeros(length, dtype=nt.int32).realize()
    accepted(rowwise.claim(row_task(x.amax()), Target(ARRAYS["aie2p"], columns)))


def test_memory_or_channels_limit_sums_of_long_rows() -> None:
    """The prediction reaches 80 % of the host memory's bandwidth, or one reading channel in every column."""
    x = nt.zeros(4096, 4096, dtype=nt.bfloat16).realize()
    for array in ARRAYS.values():
        prediction = predict(count(accepted(rowwise.claim(row_task(x.sum(-1)), Target(array, array.columns)))), array)
        rate = min(array.ddr_bytes_per_second, 4 * array.clock_hz * array.columns)
        assert x.nbytes / rate >= 0.8 * prediction.seconds
