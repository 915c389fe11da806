"""Products whose operand A is the windows of an image, beside sums over the elements of the kernel in float64."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu import gemm
from npu_tensor.runtime.cpu.gemm import Gemm, Matrix, Scattered
from npu_tensor.runtime.cpu.windows import Places, Windows
from tests.runtime.cpu.test_gemm import LEVELS, Scratch, guarded, machine, usual

ROUNDING = {"float32": 1e-6, "bfloat16": 2.0**-7, "float64": 1e-14}

# Images, channels, extent, outputs, kernel, stride, padding, dilation, groups.
CASES = [
    (1, 3, 9, 5, 3, 1, 0, 1, 1),
    (2, 8, 7, 20, 3, 2, 1, 1, 1),
    (1, 6, 8, 9, 1, 1, 0, 1, 1),
    (1, 4, 9, 34, 5, 1, 4, 2, 2),
    (2, 19, 6, 19, 3, 1, 1, 1, 19),
    (1, 40, 5, 40, 5, 2, 2, 1, 40),
    # Tiles of neighbouring positions, which share places.
    (1, 20, 14, 20, 3, 1, 1, 1, 20),
    (2, 9, 16, 9, 5, 2, 2, 1, 9),
    (1, 12, 10, 12, 3, 1, 2, 2, 12),
    # Runs of more channels than a part has.
    (1, 600, 4, 9, 1, 1, 0, 1, 1),
]
PLANES = [(2, 3, 9, 5, 3, 2, 0, 1, 1), (1, 1, 8, 19, 5, 1, 0, 1, 1)]
"""Cases whose channels are planes in memory."""


def convolved(image: np.ndarray, weight: np.ndarray, stride: int, padding: int, gap: int, groups: int) -> np.ndarray:
    """Convolve (images, height, width, channels) with (outputs, channels / groups, size, size), place after place."""
    image = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    outputs, channels, size, _ = weight.shape
    count = (image.shape[1] - gap * (size - 1) - 1) // stride + 1
    result = np.zeros((image.shape[0], count, count, outputs))
    for row, column in itertools.product(range(size), repeat=2):
        end = (count - 1) * stride + 1
        part = image[:, row * gap : row * gap + end : stride, column * gap : column * gap + end : stride]
        for group in range(groups):
            own = slice(group * outputs // groups, (group + 1) * outputs // groups)
            taken = part[..., group * channels : (group + 1) * channels]
            result[..., own] += taken @ weight[own, :, row, column].T
    return result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("dtype", "case"),
    [
        pytest.param(dtype, case, marks=[pytest.mark.slow] if dtype == "float64" and number % 3 else [])
        for dtype in ROUNDING
        for number, case in enumerate(CASES + PLANES)
    ],
    ids=str,
)
def test_windows(level: str, dtype: str, case: tuple[int, ...]) -> None:
    images, channels, extent, outputs, size, stride, padding, gap, groups = case
    target, engine, pool = machine(level)
    stored = np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    inside, taps = channels // groups, size * size
    image = guarded(rng.standard_normal((images, extent, extent, channels)).astype(stored), at_end=True)
    weight = guarded(rng.standard_normal((outputs, inside, size, size)).astype(stored), at_end=True)
    expected = convolved(image.astype(np.float64), weight.astype(np.float64), stride, padding, gap, groups)
    count, pixels = expected.shape[1], extent * extent
    result = guarded(np.zeros(expected.shape, stored), at_end=True)
    rows = Places(extent, extent * channels, count, size, stride, gap, -padding)
    columns = Places(extent, channels, count, size, stride, gap, -padding)
    b: Matrix | Scattered
    if groups == channels == outputs:
        a = Windows(dtype, (pixels * channels,), (0,), inside, (rows, columns), depthwise=True)
        b = Matrix(dtype, (0, 1, taps))
        shape, batch, strides = (count * count, outputs, taps), (images,), (count * count * outputs, outputs, 1)
    else:
        a = Windows(dtype, (pixels * channels, inside), (0, 0), inside, (rows, columns))
        per_group = outputs // groups
        batch_layouts = Layout((images,), (0,)), Layout((groups,), (per_group * inside * taps,))
        places = Layout((size, size, inside), (size, 1, taps))
        if case in PLANES:
            image = guarded(np.ascontiguousarray(image.transpose(0, 3, 1, 2)), at_end=True)
            planes = Places(channels, pixels, 1, channels, 1, 1, 0)
            rows, columns = rows._replace(distance=extent), columns._replace(distance=1)
            a = a._replace(channels=1, places=(planes, rows, columns))
            places = Layout((channels, size, size), (taps, size, 1))
        b = Scattered(dtype, batch_layouts, places, Layout((per_group,), (inside * taps,)))
        shape, batch = (count * count, per_group, taps * inside), (images, groups)
        strides = (count * count * outputs, per_group, outputs, 1)
    blocking = usual(dtype, dtype, target)
    product = Gemm(engine, target, blocking, shape, a=a, b=b, outputs=[Matrix(dtype, strides)], batch=batch)
    packing = product.packings[0]
    packed = Scratch(packing.bytes)
    pool.launch(*packing.loop, packed.address, weight.ctypes.data)
    product(pool.launch, [result.ctypes.data], [image.ctypes.data], [packed.address])
    error = abs(result.astype(np.float64) - expected).max() / abs(expected).max()
    assert error < ROUNDING[dtype]


@pytest.mark.parametrize("rows", range(400, 430, 6))
def test_blocks_of_one_panel(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that threads divide may have an odd number of panels, and no more blocks than that."""
    monkeypatch.setattr(gemm, "_BLOCK_BYTES", 1)
    rng = np.random.default_rng(0)
    image, weight = rng.standard_normal((24, rows + 1), np.float32), rng.standard_normal((4, 24, 2), np.float32)
    with nt.config.scope(threads=2):
        y = nt.nn.functional.conv2d(nt.from_numpy(image[None, :, None]), nt.from_numpy(weight[:, :, None]))
        result = y.numpy()[0, :, 0]
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), 2, 1)
    np.testing.assert_allclose(result, np.einsum("crk,ock->or", windows, weight), 1e-4, 1e-4)
