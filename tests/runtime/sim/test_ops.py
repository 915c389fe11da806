"""Every op that has an NPU kernel, in every dtype that it takes: the simulated array against the CPU device.

The CPU device is tested against PyTorch and float64 elsewhere. It computes bfloat16 in float32 and rounds once; the
array computes in less than float32 where the result is rounded, so a result may differ in its last bit now and then.

Every case is a kernel. Each op is tested in bfloat16 on one array and in one further dtype on the other, which
take turns; NPU_TENSOR_TEST_ALL=1 tests all dtypes on both.
"""

import math
import os
from collections.abc import Iterator

import numpy as np
import pytest
from joint_sources import compile_together
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.dtypes import DType
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import Offer
from npu_tensor.ops import OPS, Op
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.tensor import record

pytestmark = needs_compiler

URIS = ("sim:npu1?float32=emulate", "sim:npu2?float32=emulate")
DTYPES = (nt.bfloat16, nt.float16, nt.float32, nt.int8, nt.int16, nt.int32, nt.uint8, nt.bool)
SHAPE = (5, 3, 67)

ATTRIBUTES = {
    "clamp": {"min": -1, "max": 2},
    "scale": {"s": -0.5, "b": 3.0},
    "xielu": {"alpha_n": 0.8, "alpha_p": 0.5, "beta": 0.5, "eps": -1e-6},
    "convert": {"dtype": nt.bfloat16},
}
# Ops that are compared in other files: their operands do not come from a loop.
ELSEWHERE = {"where", "fill", "rotate", "concat", "take", "contract"}
# Float results that exist in no NPU dtype, or functions that the array has no primitive for; checked to be refused.
CPU_ONLY = {"floor_divide_float", "remainder_float", "fmod_float"}
# Ops with more operands than a core has channels; checked to be refused.
CPU_ONLY |= {"layer_norm_gradient", "rms_norm_gradient", "norm_weight_gradient", "opt_step_adam"}
# Ops whose programs are larger than a core's program memory in some dtype; the CPU takes them.
TOO_LONG = {"erfc", "erfinv", "lgamma", "digamma"}

# A bfloat16 rounded the other way costs its square, 1.5e-5 of the value's, but is rare.
LARGEST_NMSE = {"bfloat16": 1e-6, "float16": 1e-6, "float32": 1e-12}


def operands(op: Op, dtype: DType) -> list[nt.Tensor]:
    """Values in the op's domain; the second operand is one row for all, the third one value per row."""
    rng = np.random.default_rng(len(op.name))
    low, high = op.domain
    actual = []
    for number, _ in enumerate(op.operands):
        shape = (SHAPE, SHAPE[-1:], (*SHAPE[:-1], 1))[number % 3]
        if dtype.is_floating_point:
            values = rng.uniform(low, high, shape)
        elif dtype is nt.bool:
            values = rng.integers(0, 2, shape)
        else:
            least = 0 if dtype is nt.uint8 or low >= 0 else -9
            values = rng.integers(least, 7 if "shift" in op.name else 10, shape)
        actual.append(nt.from_numpy(np.asarray(values)).to(dtype).realize())
    return actual


def attributes(op: Op, dtype: DType) -> tuple[object, ...]:
    named = dict(ATTRIBUTES.get(op.name, {}))
    if op.name == "convert" and dtype is nt.bfloat16:
        named["dtype"] = nt.int32
    if op.kind == "row":
        named.setdefault("dim", -1)
    return tuple(named.get(a.name, None if a.default is a.default.__class__ else a.default) for a in op.attributes)


def result(op: Op, dtype: DType) -> nt.Tensor | None:
    """The op on random operands; None where it does not take the dtype."""
    try:
        return record(op, tuple(operands(op, dtype)), attributes(op, dtype))
    except (TypeError, ValueError):
        return None


def expected_result(op: Op, dtype: DType) -> np.ndarray:
    """Return the CPU's result. float16 operands are rounded to bfloat16 as on the array, and the result to float16."""
    given = operands(op, dtype)
    if dtype is nt.float16:
        given = [operand.to(nt.bfloat16) for operand in given]
    computed = record(op, tuple(given), attributes(op, dtype))
    if dtype is nt.float16 and computed.dtype is nt.bfloat16:
        computed = computed.to(nt.float16)  # which overflows sooner
    return computed.numpy().astype(np.float64)


def offer(uri: str, tensor: nt.Tensor) -> Offer | str:
    """Return the offer of the kernels for the one task of an op, or the reason for a refusal."""
    (task,) = cut(structure_of([tensor._node]), SimulatedDevice.fusion).tasks
    answer = families.claim(task, simulated_target(parse_uri(uri)))
    return answer if isinstance(answer, Offer) else answer.reason


TESTED = [op for name, op in OPS.items() if op.kind in ("map", "row") and name not in ELSEWHERE]


@pytest.fixture(scope="module", autouse=True)
def _compiled(request: pytest.FixtureRequest, less_optimised: None) -> Iterator[None]:
    """Kernels of all selected cases, compiled together."""
    designs = []
    for item in request.session.items:
        if not isinstance(item, pytest.Function) or item.obj is not test_op:
            continue
        op, uri = item.callspec.params["op"], item.callspec.params["uri"]
        for dtype in dtypes(op, uri):
            tensor = result(op, dtype)
            assert tensor is not None
            actual = offer(uri, tensor)
            if isinstance(actual, Offer):
                designs.append(actual.design())
    with pytest.MonkeyPatch.context() as patch:
        compile_together(designs, patch)
        yield


def dtypes(op: Op, uri: str) -> list[DType]:
    """Those that are tested for an op on an array."""
    taken = [dtype for dtype in DTYPES if result(op, dtype) is not None]
    if os.environ.get("NPU_TENSOR_TEST_ALL") or len(taken) < 2:
        return taken
    number = TESTED.index(op)
    if number % 2 == URIS.index(uri):
        return taken[:1]
    return [taken[1 + number // 2 % (len(taken) - 1)]]


def nmse(found: np.ndarray, expected: np.ndarray) -> float:
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    error = np.sum((found[finite] - expected[finite]) ** 2)
    return float(error / max(np.sum(expected[finite] ** 2), 1e-30))


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_op(op: Op, uri: str) -> None:
    for dtype in dtypes(op, uri):
        expected = expected_result(op, dtype)
        tensor = result(op, dtype)
        assert tensor is not None
        with nt.default_device(uri):
            row = nt.explain(tensor)[-1]
            actual = tensor.numpy().astype(np.float64)
        if row.device == "cpu":
            too_long = op.name in TOO_LONG and "bytes of machine code, and a core has" in row.why
            assert too_long or dtype is not nt.bfloat16 or op.name in CPU_ONLY, row.why
            continue
        if tensor.dtype.is_floating_point:
            assert nmse(actual, expected) <= LARGEST_NMSE[tensor.dtype.name], (dtype, row.why)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=f"{dtype}: {row.why}")


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("elements", [1, 2, 1_000_003])
def test_tiny_and_large(elements: int, uri: str) -> None:
    values = np.random.default_rng(0).standard_normal(elements, np.float32)
    x = nt.from_numpy(values).to(nt.bfloat16).realize()
    with nt.default_device(uri):
        assert nt.explain(x * 3 + 1)[-1].device == uri
        result = (x * 3 + 1).realize()  # a conversion here would become part of the kernel
    actual = result.float().numpy()
    np.testing.assert_array_equal(actual, (x * 3 + 1).float().numpy())


@pytest.mark.parametrize("uri", URIS)
def test_special_values(uri: str) -> None:
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-30, 100.0, -100.0]
    x = nt.tensor(values).to(nt.bfloat16).realize()
    functions = {
        "exp": nt.exp, "tanh": nt.tanh, "sigmoid": nt.sigmoid, "abs": nt.abs, "relu": nt.relu, "sqrt": nt.sqrt,
        "log": nt.log, "silu": nt.silu, "maximum": lambda x: nt.maximum(x, x * 0), "erf": nt.erf,
    }  # fmt: skip
    for name, function in functions.items():
        with nt.default_device(uri):
            assert nt.explain(function(x))[-1].device == uri, name
            result = function(x).realize()
        actual, expected = result.float().numpy(), function(x).float().numpy()
        np.testing.assert_allclose(actual, expected, rtol=2.0**-7, err_msg=name)
        if name not in ("relu", "maximum"):  # NumPy leaves the sign of max(0, -0) open
            np.testing.assert_array_equal(np.signbit(actual[3:5]), np.signbit(expected[3:5]), err_msg=name)
