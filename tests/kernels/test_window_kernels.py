"""Pools and depthwise convolutions on the simulated array against PyTorch."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, computed, data_task, layout_of
from running import needs_compiler
from torch.nn import functional

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.dataflow.design import Design
from npu_tensor.dtypes import as_dtype
from npu_tensor.functions.pooling import windows_of_pool
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Output, Refusal, Task, TensorInput

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]
Shape = tuple[int, int, int, int]
"""Batch, channels, rows, columns."""

POOLS: dict[str, tuple[str, Shape, Pair, Pair, Pair, bool, bool]] = {
    "ResNet": ("max", (1, 64, 112, 112), (3, 3), (2, 2), (1, 1), False, True),
    "halves, channels that are no blocks": ("max", (2, 70, 13, 17), (2, 2), (2, 2), (0, 0), False, True),
    "an odd number of channels, ceil mode": ("max", (1, 33, 12, 30), (3, 2), (2, 3), (1, 1), True, True),
    "few channels": ("max", (1, 3, 9, 9), (5, 5), (1, 1), (2, 2), False, True),
    "smaller than a tile": ("max", (3, 32, 2, 2), (2, 2), (1, 1), (1, 1), False, True),
    "whole image": ("avg", (2, 96, 7, 7), (7, 7), (7, 7), (0, 0), False, True),
    "padding counts": ("avg", (1, 64, 35, 35), (3, 3), (1, 1), (1, 1), False, True),
    "padding does not count, ceil mode": ("avg", (1, 40, 14, 31), (3, 3), (2, 2), (1, 1), True, False),
    "rows of windows": ("avg", (1, 32, 5, 29), (1, 7), (1, 2), (0, 3), False, True),
}
"""Mode, shape, kernel, stride, padding, ceil_mode, count_include_pad."""
CONVOLUTIONS: dict[str, tuple[Shape, Pair, Pair, Pair]] = {
    "3x3": ((1, 64, 28, 28), (3, 3), (1, 1), (1, 1)),
    "3x3, stride 2": ((2, 72, 30, 29), (3, 3), (2, 2), (1, 1)),
    "5x5, stride 2": ((1, 96, 14, 14), (5, 5), (2, 2), (2, 2)),
    "7x7": ((1, 32, 20, 56), (7, 7), (1, 1), (3, 3)),
    "more padding than windows": ((1, 32, 3, 4), (2, 1), (1, 2), (3, 2)),
}
"""Shape, kernel, stride, padding."""

pytestmark = needs_compiler


def _designs() -> list[Design]:
    tasks = [_pool_task(_image(shape), mode, *how) for mode, shape, *how in POOLS.values()]
    tasks += [_convolution_task(*_operands(shape, kernel), *how) for shape, kernel, *how in CONVOLUTIONS.values()]
    return [accepted(families.claim(task, where)) for task in tasks for where in WHOLE.values()]


_compiled = compiled_together(_designs)


def _image(shape: Shape, seed: int = 0, dtype: Any = ml_dtypes.bfloat16) -> Array:
    """Return an image (batch, rows, columns, channels)."""
    image = np.random.default_rng(seed).standard_normal((*shape[:1], *shape[2:], shape[1]))
    return image.astype(np.float32).astype(dtype)


def _pool_task(
    image: Array, mode: str, kernel: Pair, stride: Pair, padding: Pair, ceil: bool, include: bool, base: Any = None
) -> Task:
    windows = windows_of_pool(image.shape[1:3], kernel, stride, padding, 1, ceil)
    return data_task("pool_2d", [image], [image if base is None else base], mode, *windows, include, None, True)


def _torch(image: Array) -> torch.Tensor:
    """Return an image in PyTorch's order."""
    return torch.from_numpy(image.astype(np.float64)).movedim(-1, 1)


def _pooled(image: Array, mode: str, kernel: Pair, stride: Pair, padding: Pair, ceil: bool, include: bool) -> Array:
    if mode == "max":
        result = functional.max_pool2d(_torch(image), kernel, stride, padding, 1, ceil)
    else:
        result = functional.avg_pool2d(_torch(image), kernel, stride, padding, ceil, include)
    return result.movedim(1, -1).numpy()


def _operands(shape: Shape, kernel: Pair, seed: int = 0, dtype: Any = ml_dtypes.bfloat16) -> list[Array]:
    """Return an image, a weight and a bias of float32."""
    generator = np.random.default_rng(seed)
    weight = generator.standard_normal((shape[1], 1, *kernel)).astype(np.float32).astype(dtype)
    return [_image(shape, seed, dtype), weight, generator.standard_normal(shape[1]).astype(np.float32)]


def _convolution_task(image: Array, weight: Array, bias: Array, stride: Pair, padding: Pair) -> Task:
    """A depthwise convolution of channels-last images with a bias, rounded to the dtype of the image."""
    specs = tuple(Spec.of(each.shape, as_dtype(each.dtype)) for each in (image, weight))
    around = tuple((width, width) for width in padding)
    call = ops.conv_2d_dw.op.call(specs, (stride, around, (1, 1), image.shape[-1], True, as_dtype("float32")))
    shape, dtype = call.spec.shape, as_dtype(image.dtype)
    inputs = [TensorInput(n, as_dtype(each.dtype), layout_of(each, each)) for n, each in enumerate((image, weight))]
    inputs.append(TensorInput(2, as_dtype("float32"), Layout(shape, (0, 0, 0, 1))))
    steps = [Instruction("load", (), "float32", 0), Instruction("load", (), "float32", 1)]
    steps.append(Instruction("add", (0, 1), "float32", None))
    if dtype.name == "bfloat16":
        steps.append(Instruction("round_bfloat16", (2,), "float32", None))
    program = Program(tuple(steps), (len(steps) - 1,))
    output = Output(3, dtype, Layout(shape, contiguous_strides(shape)), math.prod(shape) * dtype.itemsize)
    return Task("conv", (3,), ("conv_2d_dw", "add"), tuple(inputs), (output,), shape, program=program, call=call)


def _convolved(image: Array, weight: Array, bias: Array, stride: Pair, padding: Pair) -> Array:
    weights, offsets = (torch.from_numpy(each.astype(np.float64)) for each in (weight, bias))
    result = functional.conv2d(_torch(image), weights, offsets, stride, padding, groups=len(weight))
    return result.movedim(1, -1).numpy()


def _assert_close(result: Array, expected: Array, tolerance: float = 2**-8) -> None:
    """The tolerance is relative to each element and to their root mean square."""
    limit = tolerance * (np.abs(expected) + np.sqrt(np.mean(expected**2)))
    assert (np.abs(result.astype(np.float64) - expected) <= limit).all()


@pytest.mark.parametrize("case", list(POOLS))
@arrays
def test_pools(case: str, where: Target) -> None:
    mode, shape, *how = POOLS[case]
    image = _image(shape)
    result, expected = computed(_pool_task(image, mode, *how), where, [image]), _pooled(image, mode, *how)
    if mode == "max":
        np.testing.assert_array_equal(result.astype(np.float64), expected)
    else:
        _assert_close(result, expected)


@pytest.mark.parametrize("case", list(CONVOLUTIONS))
@arrays
def test_depthwise_convolutions(case: str, where: Target) -> None:
    shape, kernel, *how = CONVOLUTIONS[case]
    operands = _operands(shape, kernel)
    _assert_close(computed(_convolution_task(*operands, *how), where, operands), _convolved(*operands, *how))


@arrays
def test_maxima_of_numbers_that_are_not_finite(where: Target) -> None:
    mode, shape, *how = POOLS["halves, channels that are no blocks"]
    image = _image(shape)
    image[0, :4] = -np.inf
    image[1, ::3, ::5] = np.nan
    image[1, ::3, 1] = np.frombuffer(b"\xc0\xff", ml_dtypes.bfloat16)  # a NaN with a sign
    image[0, 6, 6] = np.inf
    result = computed(_pool_task(image, mode, *how), where, [image]).astype(np.float64)
    expected = _pooled(image, mode, *how)
    assert np.isnan(expected).any()
    assert (expected[0, :2] == -np.inf).all()
    np.testing.assert_array_equal(result, expected)


@arrays
def test_padding_does_not_meet_infinite_elements(where: Target) -> None:
    """Zeros around an image and pixels beyond a tile must not make NaNs."""
    shape, kernel, *how = CONVOLUTIONS["3x3"]
    operands = _operands(shape, kernel)
    operands[0][0, 0, 0] = np.inf
    result = computed(_convolution_task(*operands, *how), where, operands).astype(np.float32)
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(_convolved(*operands, *how)))


@pytest.mark.parametrize("policy", ["emulate", "bfloat16"])
@arrays
def test_float32(where: Target, policy: Any) -> None:
    tolerance, where = (1e-6 if policy == "emulate" else 2**-7), where._replace(float32=policy)
    mode, shape, *how = POOLS["padding does not count, ceil mode"]
    image = _image(shape, 1, np.float32)
    for mode in ("max", "avg"):
        result = computed(_pool_task(image, mode, *how), where, [image])
        assert result.dtype == np.float32
        _assert_close(result, _pooled(image, mode, *how), tolerance)
    shape, kernel, *steps = CONVOLUTIONS["3x3, stride 2"]
    operands = _operands(shape, kernel, 1, np.float32)
    result = computed(_convolution_task(*operands, *steps), where, operands)
    _assert_close(result, _convolved(*operands, *steps), 4 * tolerance)


@arrays
def test_a_part_of_an_image_is_read_in_place(where: Target) -> None:
    base = _image((2, 96, 15, 40))
    part = base[:, 1:14, 4:34, 32:]
    mode, _, *how = POOLS["padding counts"]
    task = _pool_task(part, mode, *how, base)
    offer = families.claim(task, where)
    assert not isinstance(offer, Refusal)
    assert len(offer.operands[0].layout.shape) == 1
    _assert_close(computed(task, where, [base]), _pooled(part, mode, *how))


def _pairs(least: int, most: int) -> st.SearchStrategy[Pair]:
    return st.tuples(st.integers(least, most), st.integers(least, most))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_offer_builds_and_runs(data: st.DataObject) -> None:
    shape = (*data.draw(_pairs(1, 2)), *data.draw(_pairs(7, 40)))
    shape = (shape[0], data.draw(st.integers(1, 130)), *shape[2:])
    kernel, stride = data.draw(_pairs(1, 7)), data.draw(_pairs(1, 3))
    padding = (data.draw(st.integers(0, kernel[0] // 2)), data.draw(st.integers(0, kernel[1] // 2)))
    where, seed = data.draw(st.sampled_from(TARGETS)), data.draw(st.integers(0, 9))
    if data.draw(st.booleans()):
        operands = _operands(shape, kernel, seed)
        result = computed(_convolution_task(*operands, stride, padding), where, operands)
        _assert_close(result, _convolved(*operands, stride, padding))
    else:
        image, mode = _image(shape, seed), data.draw(st.sampled_from(["max", "avg"]))
        how = (kernel, stride, padding, data.draw(st.booleans()), data.draw(st.booleans()))
        _assert_close(computed(_pool_task(image, mode, *how), where, [image]), _pooled(image, mode, *how))


def test_shapes_share_configurations() -> None:
    shapes = [(1, 64, 112, 112), (1, 256, 56, 56), (2, 128, 60, 112)]
    tasks = [_pool_task(_image(shape), "max", (3, 3), (2, 2), (1, 1), False, True) for shape in shapes]
    designs = [accepted(families.claim(task, WHOLE["aie2p"])) for task in tasks]
    assert len({id(design.configuration) for design in designs}) == 1


def test_refusals() -> None:
    image = _image((1, 32, 20, 20))
    square = ((20, 20), (1, 1), ((0, 0),) * 2, (1, 1), (1, 1), True, None, True)
    answer = families.claim(data_task("pool_2d", [image], [image], "max", *square), WHOLE["aie2"])
    assert answer == Refusal("windows: kernels have windows, steps and padding of up to 7, and no dilation")
    square = ((2, 2), (2, 2), ((0, 0),) * 2, (1, 1), (10, 10), True, 3, True)
    answer = families.claim(data_task("pool_2d", [image], [image], "avg", *square), WHOLE["aie2"])
    assert answer == Refusal("windows: a divisor of its own")
    task = _pool_task(image.astype(np.float32), "max", (2, 2), (2, 2), (0, 0), False, True)
    assert isinstance(answer := families.claim(task, WHOLE["aie2"]), Refusal)
    assert answer.reason.startswith("float32 is exact on the CPU")


def test_long_epilogues_of_wide_windows_are_refused() -> None:
    """The sums and the epilogue share the memory for machine code. The planner makes the epilogue a kernel then."""
    task = _convolution_task(*_operands((1, 32, 9, 9), (7, 7), dtype=np.float32), (1, 1), (3, 3))
    where = WHOLE["aie2"]._replace(float32="emulate")
    steps = [Instruction("load", (), "float32", 0)]
    while not isinstance(answer := families.claim(task, where), Refusal):
        accepted(answer)
        steps.append(Instruction("exp", (len(steps) - 1,), "float32", None))
        task = task._replace(program=Program(tuple(steps), (len(steps) - 1,)))
    assert answer.reason.startswith("an epilogue of about ")


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_layers_between_convolutions(device: str) -> None:
    """A depthwise convolution has its bias and activation in the kernel, and the pool reads its result in place."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).bfloat16()

    x, first, bias, weight = normal(2, 32, 14, 14), normal(64, 32, 1, 1), normal(64), normal(64, 1, 3, 3)

    def compute(lib: Any, x: Any, first: Any, weight: Any, bias: Any) -> Any:
        y = lib.relu(lib.conv2d(x, first * 0.2))
        return lib.max_pool2d(lib.hardtanh(lib.conv2d(y, weight, bias, 1, 1, 1, 64), 0, 6), 3, 2, 1)

    expected = compute(functional, *(each.double() for each in (x, first, weight, bias)))
    with nt.default_device(device):
        pending = compute(nt.nn.functional, *map(nt.from_dlpack, (x, first, weight, bias)))
        rows = {row.op: row for row in nt.explain(pending)}
        assert [rows[op].kernel for op in ("hardtanh", "pool_2d")] == ["windows", "windows"]
        assert {rows[op].device for op in ("conv_2d_dw", "hardtanh", "pool_2d")} == {device}
        result = pending.float().numpy()
    _assert_close(result, expected.numpy(), 2**-6)


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_a_pool_of_channels_that_are_apart(device: str) -> None:
    image = torch.from_numpy(np.random.default_rng(4).standard_normal((1, 24, 21, 18))).bfloat16()
    with nt.default_device(device):
        pending = nt.max_pool2d(nt.from_dlpack(image), 3, 2, 1)
        assert [row.kernel for row in nt.explain(pending)] == ["windows"]
        result = pending.float().numpy()
    np.testing.assert_array_equal(result, functional.max_pool2d(image.float(), 3, 2, 1).numpy())
