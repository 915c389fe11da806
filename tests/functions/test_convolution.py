"""Convolution and pooling of every form against PyTorch in float64, which uses other algorithms."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.errors import NpuTensorError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")  # PyTorch copies in this case

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}

# Input, weight, arguments.
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 9, 11), (5, 3, 3, 3), {}),
    "no batch": ((3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    "1x1": ((2, 16, 5, 7), (33, 16, 1, 1), {}),
    "1x1 stride": ((1, 16, 9, 7), (8, 16, 1, 1), {"stride": 2}),
    "one place": ((2, 33, 1, 1), (20, 33, 1, 1), {}),
    "one place of many images": ((40, 48, 1, 1), (24, 48, 1, 1), {"stride": 2}),
    "beside one place": ((1, 8, 1, 1), (4, 8, 1, 1), {"stride": 3, "padding": 1}),
    "padding": ((1, 16, 14, 14), (40, 16, 3, 3), {"padding": 1}),
    "same": ((2, 4, 8, 9), (6, 4, 4, 3), {"padding": "same"}),
    "stride": ((1, 3, 23, 31), (20, 3, 7, 7), {"stride": 2, "padding": 3}),
    "dilation": ((1, 8, 15, 13), (8, 8, 3, 3), {"dilation": 2, "padding": 2}),
    "uneven": ((1, 2, 17, 6), (3, 2, 5, 2), {"stride": (3, 1), "padding": (0, 2), "dilation": (1, 3)}),
    "groups": ((2, 12, 8, 8), (18, 4, 3, 3), {"groups": 3, "padding": 1}),
    "depthwise": ((2, 24, 9, 10), (24, 1, 3, 3), {"groups": 24, "padding": 1}),
    "depthwise stride": ((1, 24, 20, 37), (24, 1, 5, 3), {"groups": 24, "stride": 2, "dilation": (1, 2)}),
    "depthwise, two outputs each": ((1, 6, 8, 8), (12, 1, 3, 3), {"groups": 6}),
    "one channel": ((4, 1, 12, 12), (16, 1, 3, 3), {"padding": 1}),
    "a whole image": ((3, 4, 6, 6), (10, 4, 6, 6), {}),
    "a large kernel": ((1, 2, 80, 9), (3, 2, 64, 1), {}),
    "large": ((2, 64, 28, 28), (96, 64, 3, 3), {"padding": 1}),
}


def arrays(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return values of the dtype, in float64."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    generator = np.random.default_rng(5)
    return [generator.standard_normal(shape).astype(kind).astype(np.float64) for shape in shapes]


def tensor(values: np.ndarray, dtype: str) -> nt.Tensor:
    return nt.from_numpy(values).to(dtype)


def check(result: nt.Tensor, expected: Any, dtype: str, terms: int = 1) -> None:
    assert result.dtype.name == dtype
    assert result.shape == tuple(expected.shape)
    tolerance = TOLERANCE[dtype]
    actual = result.to("float64").numpy()
    np.testing.assert_allclose(actual, expected.numpy(), rtol=tolerance, atol=tolerance * terms**0.5)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=[pytest.mark.slow] if number % 2 and dtype.startswith("float") else [])
        for number, name in enumerate(CONVOLUTIONS)
        for dtype in TOLERANCE
        if dtype != "float32"
    ]
    + [(name, "float32") for name in CONVOLUTIONS],
)
def test_conv2d(name: str, dtype: str) -> None:
    of_input, of_weight, arguments = CONVOLUTIONS[name]
    x, w, b = arrays(dtype, of_input, of_weight, of_weight[:1])
    expected = F.conv2d(*map(torch.from_numpy, (x, w, b)), **arguments)
    result = nt.conv2d(tensor(x, dtype), tensor(w, dtype), tensor(b, dtype), **arguments)
    check(result, expected, dtype, w[0].size)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("of_input", "of_weight", "arguments"),
    [
        ((2, 16, 40), (24, 16, 3), {"padding": 1}),
        ((16, 41), (24, 4, 5), {"groups": 4, "stride": 2}),
        ((3, 8, 50), (8, 1, 9), {"groups": 8, "dilation": 4, "padding": "same"}),
        ((2, 512, 20), (64, 512, 1), {}),
    ],
)
def test_conv1d(of_input: tuple[int, ...], of_weight: tuple[int, ...], arguments: Any, dtype: str) -> None:
    x, w = arrays(dtype, of_input, of_weight)
    expected = F.conv1d(torch.from_numpy(x), torch.from_numpy(w), **arguments)
    check(nt.conv1d(tensor(x, dtype), tensor(w, dtype), **arguments), expected, dtype, w[0].size)


@pytest.mark.parametrize("groups", [1, 8])
def test_images_and_weights_in_any_layout(groups: int) -> None:
    x, w = arrays("float32", (10, 12, 2, 8), (3, 3, 8 // groups, 8))
    expected = F.conv2d(
        torch.from_numpy(x).permute(2, 3, 0, 1), torch.from_numpy(w).permute(3, 2, 1, 0), padding=1, groups=groups
    )
    image, weight = tensor(x, "float32").permute(2, 3, 0, 1), tensor(w, "float32").permute(3, 2, 1, 0)
    check(nt.conv2d(image, weight, padding=1, groups=groups), expected, "float32", 72)
    flipped = nt.conv2d(tensor(x[::-1].copy(), "float32").flip(0).permute(2, 3, 0, 1), weight, padding=1, groups=groups)
    check(flipped, expected, "float32", 72)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers_of_convolutions(dtype: str) -> None:
    """Later ops are fused with the product, earlier ones with the packing of its operand."""
    x, w, v, b = arrays(dtype, (2, 8, 12, 12), (16, 8, 3, 3), (4, 16, 1, 1), (16,))

    @nt.jit
    def network(x: nt.Tensor, w: nt.Tensor, v: nt.Tensor, b: nt.Tensor) -> nt.Tensor:
        hidden = nt.conv2d(x.relu() * 0.5, w, b, padding=1).relu()
        return nt.conv2d(nt.max_pool2d(hidden, 2), v).tanh()

    tx, tw, tv, tb = map(torch.from_numpy, (x, w, v, b))
    hidden = F.conv2d(tx.relu() * 0.5, tw, tb, padding=1).relu()
    expected = F.conv2d(F.max_pool2d(hidden, 2), tv).tanh()
    operands = [tensor(values, dtype) for values in (x, w, v, b)]
    for _ in range(3):  # The second and later runs reuse the packed weights.
        check(network(*operands), expected, dtype, 4)


def test_a_weight_that_changes_is_packed_again() -> None:
    x, w = arrays("float32", (1, 16, 9, 9), (32, 16, 3, 3))
    image, weight = tensor(x, "float32"), tensor(w, "float32").realize()
    for factor in (1.0, 1.0, 2.0, 2.0):
        if factor != 1.0:
            weight *= 2.0
            w = w * 2.0
        check(nt.conv2d(image, weight), F.conv2d(torch.from_numpy(x), torch.from_numpy(w)), "float32", 144)


@pytest.mark.parametrize("kernel", [*itertools.product((1, 2, 3), (1, 4))])
def test_a_convolution_is_a_sum_over_its_kernel(kernel: tuple[int, int]) -> None:
    """Compute the sums by brute force, without PyTorch's code."""
    x, w = arrays("float64", (2, 3, 6, 7), (4, 3, *kernel))
    rows, columns = 6 - kernel[0] + 1, 7 - kernel[1] + 1
    expected = np.zeros((2, 4, rows, columns))
    for n, o, i, j in np.ndindex(*expected.shape):
        expected[n, o, i, j] = (x[n, :, i : i + kernel[0], j : j + kernel[1]] * w[o]).sum()
    result = nt.conv2d(nt.from_numpy(x), nt.from_numpy(w)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("of_input", "of_weight", "arguments", "text"),
    [
        ((1, 3, 4, 4), (5, 3, 7, 7), {}, "does not fit"),
        ((1, 3, 4, 4), (5, 2, 3, 3), {}, "input has 3 channels, but weight needs 2, with groups=1"),
        ((1, 4, 4, 4), (5, 2, 3, 3), {"groups": 2}, "groups must divide the 5 outputs of the weight, not be 2"),
        ((4, 4), (5, 4, 3, 3), {}, "2 places"),
        ((1, 3, 4, 4), (5, 3, 3, 3), {"stride": 0}, "stride"),
        ((1, 3, 4, 4), (5, 3, 3, 3), {"padding": "same", "stride": 2}, "padding"),
        ((1, 3, 4, 4), (5, 3, 3, 3), {"dilation": (1, 1, 1)}, "dilation"),
    ],
)
def test_errors_name_wrong_shapes(
    of_input: tuple[int, ...], of_weight: tuple[int, ...], arguments: Any, text: str
) -> None:
    with pytest.raises(NpuTensorError, match=f"conv2d.*{text}"):
        nt.conv2d(nt.zeros(of_input), nt.zeros(of_weight), **arguments)
    with pytest.raises(ShapeError, match="max_pool2d"):
        nt.max_pool2d(nt.zeros(3, 3), 2)
