"""Kernels of pools, resized images and samples, against PyTorch, and against the bodies of the ops in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness import LEVELS, run_op

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.functions.pooling import windows_of_pool
from npu_tensor.runtime.reference import evaluate_call
from npu_tensor.spec import Spec

F = torch.nn.functional

IMAGE, SOUND, VOLUME = (2, 3, 13, 27), (2, 3, 37), (1, 2, 5, 9, 18)

GRADIENTS: list[Any] = [
    pytest.param(
        "max_pool1d",
        (SOUND,),
        {"kernel_size": 3, "stride": 2},
        marks=pytest.mark.covers("pool_1d", "max_pool_backward"),
    ),
    pytest.param(
        "max_pool2d", (IMAGE,), {"kernel_size": 3, "stride": 2, "padding": 1}, marks=pytest.mark.covers("pool_2d")
    ),
    pytest.param("max_pool2d", (IMAGE,), {"kernel_size": (2, 5), "dilation": (3, 2), "ceil_mode": True}),
    pytest.param("max_pool3d", (VOLUME,), {"kernel_size": 2}, marks=pytest.mark.covers("pool_3d", "max_pool_backward")),
    pytest.param(
        "avg_pool1d",
        (SOUND,),
        {"kernel_size": 4, "stride": 3},
        marks=pytest.mark.covers("pool_1d", "resample_backward"),
    ),
    pytest.param("avg_pool1d", ((1, 2, 5000),), {"kernel_size": 3000, "stride": 500}),  # too long for scratch memory
    pytest.param("avg_pool2d", (IMAGE,), {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False}),
    pytest.param(
        "avg_pool3d", (VOLUME,), {"kernel_size": 3, "divisor_override": 5}, marks=pytest.mark.covers("pool_3d")
    ),
    pytest.param("adaptive_avg_pool2d", (IMAGE,), {"output_size": (4, 5)}, marks=pytest.mark.covers("adaptive_pool")),
    pytest.param("adaptive_avg_pool2d", (IMAGE,), {"output_size": 1}),
    pytest.param("adaptive_avg_pool2d", (IMAGE,), {"output_size": (13, 9)}, marks=pytest.mark.covers("pool_2d")),
    pytest.param(
        "adaptive_max_pool2d", (IMAGE,), {"output_size": (4, 5)}, marks=pytest.mark.covers("max_pool_backward")
    ),
    pytest.param(
        "interpolate", (IMAGE,), {"scale_factor": 2}, marks=pytest.mark.covers("upscale", "resample_backward")
    ),
    pytest.param("interpolate", (IMAGE,), {"size": (26, 11), "mode": "bilinear"}),
    pytest.param("interpolate", (IMAGE,), {"size": (9, 40), "mode": "bicubic", "align_corners": True}),
    pytest.param("interpolate", (IMAGE,), {"size": (5, 8), "mode": "bilinear", "antialias": True}),
    pytest.param("interpolate", (IMAGE,), {"size": (5, 8), "mode": "area"}, marks=pytest.mark.covers("adaptive_pool")),
    pytest.param("interpolate", (VOLUME,), {"scale_factor": 2, "mode": "trilinear"}),
    *(
        pytest.param("grid_sample", shapes, {"mode": mode, "padding_mode": padding_mode, "align_corners": corners})
        for shapes in ((IMAGE, (2, 5, 7, 2)), (IMAGE, (2, 1, 3, 2)), (VOLUME, (1, 2, 3, 5, 3)))
        for mode in ("bilinear", "nearest")
        for padding_mode in ("zeros", "border", "reflection")
        for corners in (False, True)
    ),
    pytest.param(
        "grid_sample",
        (IMAGE, (2, 4, 6, 2)),
        {"align_corners": False},
        marks=pytest.mark.covers("samples_at", "samples_at_backward_0", "samples_at_backward_1"),
    ),
]


@pytest.mark.parametrize(("name", "shapes", "keywords"), GRADIENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients(name: str, shapes: Any, keywords: Any, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True) for shape in shapes]
    expected = getattr(F, name)(*leaves, **keywords)
    weight = torch.randn(expected.shape, generator=generator, dtype=dtype)
    gradients = torch.autograd.grad((expected * weight).sum(), leaves)
    tensors = [nt.from_numpy(leaf.detach().numpy()).realize() for leaf in leaves]
    result, pull_back = nt.vjp(lambda *x: getattr(nt, name)(*x, **keywords), *tensors)
    # PyTorch computes the positions of float32 samples in float32.
    tolerance = 1e-4 if dtype is torch.float32 else 1e-9
    np.testing.assert_allclose(result.numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    for own, other in zip(pull_back(nt.from_numpy(weight.numpy())), gradients, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.covers("max_pool_positions", "max_pool_backward")
@pytest.mark.parametrize("padding", [0, 1])
def test_equal_elements_nan_and_infinity_have_the_positions_of_pytorch(padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 3, (2, 3, 17, 40), generator=generator).float()
    x[torch.rand(x.shape, generator=generator) < 0.1] = torch.nan
    x[:, 1] = -torch.inf
    x.requires_grad_()
    largest, positions = F.max_pool2d(x, 3, 2, padding, return_indices=True)
    (gradient,) = torch.autograd.grad(largest.sum(), x)
    tensor = nt.from_numpy(x.detach().numpy())
    own, places = nt.max_pool2d(tensor, 3, 2, padding, return_indices=True)
    np.testing.assert_array_equal(own.numpy(), largest.detach().numpy())
    np.testing.assert_array_equal(places.numpy(), positions.numpy())
    _, pull_back = nt.vjp(lambda x: nt.max_pool2d(x, 3, 2, padding), tensor)
    np.testing.assert_array_equal(pull_back(nt.ones(*own.shape))[0].numpy(), gradient.numpy())


def test_second_derivatives() -> None:
    x = nt.from_numpy(np.random.default_rng(0).permutation(64.0 * np.arange(48)).reshape(1, 2, 4, 6) / 1e3)

    def cubes(x: nt.Tensor) -> nt.Tensor:
        return (nt.max_pool2d(x, 2) ** 3).sum() + (nt.avg_pool2d(x, 2) ** 3).sum()

    other = torch.tensor(x.numpy(), requires_grad=True)
    value = (F.max_pool2d(other, 2) ** 3).sum() + (F.avg_pool2d(other, 2) ** 3).sum()
    (first,) = torch.autograd.grad(value, other, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), other)
    own = nt.grad(lambda x: (nt.grad(cubes)(x) ** 2).sum())(x)
    np.testing.assert_allclose(own.numpy(), second.numpy(), rtol=1e-5)


# --- every level and layout


def reference(call: Any, arrays: list[np.ndarray]) -> np.ndarray:
    return evaluate_call(call, [np.ascontiguousarray(array) for array in arrays]).reshape(call.spec.shape)


WINDOWS = {
    "steps of 1": (3, 1, 1, 1, False),
    "steps of 2": (3, 2, 1, 1, True),
    "steps of 3": (4, 3, 0, 1, False),
    "gaps": (3, 2, 1, 3, True),
}
DTYPES = [nt.float32, nt.float64, nt.bfloat16, nt.float16, nt.int8, nt.uint8, nt.int64]


def numbers(shape: tuple[int, ...], dtype: nt.DType) -> np.ndarray:
    values = np.random.default_rng(0).normal(0, 40, shape)
    return (values if dtype.is_floating_point else abs(values)).astype(dtype.numpy)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("dtype", "windows"),
    [
        pytest.param(dtype, windows, marks=[pytest.mark.slow] if turn % len(WINDOWS) and number else [])
        for number, dtype in enumerate(DTYPES)
        for turn, windows in enumerate(WINDOWS, number)
    ],
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_levels(
    level: str, dtype: nt.DType, windows: str, channels_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extents in ((5, 6), (7, 61), (4, 2500)):
        shape = (2, *extents, 3) if channels_last else (2, 3, *extents)
        attributes = windows_of_pool(extents, *WINDOWS[windows])
        for mode in ("max", "avg") if dtype.is_floating_point and windows != "gaps" else ("max",):
            call = ops.pool_2d.op.call((Spec.of(shape, dtype),), (mode, *attributes, False, None, channels_last))
            x = numbers(shape, dtype)
            expected = reference(call, [x]).astype(np.float64)
            result = run_op(level, call, [x], monkeypatch).astype(np.float64)
            np.testing.assert_allclose(result, expected, rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_gradients_of_levels(level: str, channels_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for channels in (1, 3, 21):
        shape = (2, 6, 19, channels) if channels_last else (2, channels, 6, 19)
        spec, x = Spec.of(shape, nt.float32), numbers(shape, nt.float32)
        for mode in ("max", "avg"):
            attributes = (mode, *windows_of_pool((6, 19), 3, 2, 1, 1, False), True, None, channels_last)
            pool = ops.pool_2d.op.call((spec,), attributes)
            gradient = numbers(pool.spec.shape, nt.float32)
            operands = [gradient] if mode == "avg" else [x, gradient]
            specs = (pool.spec,) if mode == "avg" else (spec, pool.spec)
            op = ops.resample_backward.op if mode == "avg" else ops.max_pool_backward.op
            call = op.call(specs, (pool,))
            result = run_op(level, call, operands, monkeypatch)
            np.testing.assert_allclose(result, reference(call, operands), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_resizing_of_levels(level: str, mode: str, channels_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (1, 5, 9, 11) if channels_last else (1, 11, 5, 9)
    call = ops.upscale.op.call(
        (Spec.of(shape, nt.float32),), (mode, (7, 21), (5 / 7, 9 / 21), False, False, channels_last)
    )
    x = numbers(shape, nt.float32)
    np.testing.assert_allclose(run_op(level, call, [x], monkeypatch), reference(call, [x]), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("samples", [3, 21])
def test_samples_of_levels(level: str, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = tuple(Spec.of(shape, nt.float32) for shape in ((2, 3, 5, 6), (2, 1, samples, 2)))
    random = np.random.default_rng(0)
    x, grid = random.normal(0, 1, specs[0].shape), random.uniform(-1.5, 1.5, specs[1].shape)
    grid[0, 0, :2] = np.nan, np.inf
    arrays = [x.astype(np.float32), grid.astype(np.float32)]
    call = ops.samples_at.op.call(specs, ("bilinear", "border", False))
    gradient = random.normal(0, 1, call.spec.shape).astype(np.float32)
    calls = [
        (call, arrays),
        (ops.samples_at_backward_0.op.call((specs[1], call.spec), (call,)), [arrays[1], gradient]),
        (ops.samples_at_backward_1.op.call((*specs, call.spec), (call,)), [*arrays, gradient]),
    ]
    for each, operands in calls:
        result = run_op(level, each, operands, monkeypatch)
        np.testing.assert_allclose(result, reference(each, operands), rtol=1e-4, atol=1e-5)


def test_strided_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with gaps are copied; other strides are read in place."""
    attributes = ("max", *windows_of_pool((6, 19), 3, 2, 1, 1, False))
    whole = numbers((2, 8, 12, 40), nt.float32)
    for x in (whole[:, ::2, ::2, :19], whole[:, 1:5, :6, 1:39:2], whole.transpose(0, 3, 1, 2)[:, :4, :6].repeat(2, 3)):
        x = x[:, :4, :6, :19]
        call = ops.pool_2d.op.call((Spec.of(x.shape, nt.float32),), (*attributes, True, None, False))
        np.testing.assert_array_equal(run_op("", call, [x], monkeypatch), reference(call, [x]))


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"])
def test_empty_batches(name: str) -> None:
    x = torch.zeros(0, 3, 8, 8)
    assert getattr(nt, name)(nt.zeros(0, 3, 8, 8), 2).numpy().shape == getattr(F, name)(x, 2).shape


@pytest.mark.covers("max_pool_positions", "max_pool_backward")
def test_maxima_of_windows_longer_than_the_scratch_buffer() -> None:
    x = torch.randn(1, 2, 4000, generator=torch.Generator().manual_seed(0), requires_grad=True)
    values, positions = F.max_pool1d(x, 1500, return_indices=True)
    values.sum().backward()
    ours = nt.from_numpy(x.detach().numpy())
    found, places = nt.max_pool1d(ours, 1500, return_indices=True)
    np.testing.assert_array_equal(found.numpy(), values.detach().numpy())
    np.testing.assert_array_equal(places.numpy(), positions.numpy())
    gradient = nt.grad(lambda x: nt.max_pool1d(x, 1500).sum())(ours)
    np.testing.assert_array_equal(gradient.numpy(), x.grad)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "interpolate"])
def test_explain_names_one_kernel(name: str) -> None:
    result = getattr(nt, name)(nt.ones(1, 4, 8, 8).realize(), 2)
    assert [row.kernel for row in nt.explain(result)] == ["pool"]
