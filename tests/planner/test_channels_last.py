"""Graphs with convolutions are computed channels-last; their results are those of PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import events

torch = pytest.importorskip("torch")

pytestmark = needs_compiler

RNG = np.random.default_rng(5)
X, W, DEPTHWISE = (RNG.standard_normal(shape, np.float32) for shape in ((2, 8, 9, 7), (8, 8, 3, 3), (8, 1, 3, 3)))
CHANNELS, ROW = RNG.standard_normal((8, 1, 1), np.float32), RNG.standard_normal(7, np.float32)


def conv(lib: Any, x: Any, w: Any, groups: int = 1) -> Any:
    return lib.nn.functional.conv2d(x, w, None, 1, 1, 1, groups)


def _residual(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = (conv(lib, x, w) * c + c).relu()
    return (conv(lib, y, dw, 8) + row).relu() + y


def _concatenated(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = conv(lib, x, w)
    return conv(lib, lib.cat([y, x], 1)[:, 4:12], w)


def _excited(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = conv(lib, x, w)
    s = y.mean((2, 3), keepdim=True).sigmoid()
    return conv(lib, y * s, dw, 8).sum((0, 2, 3))


def _flattened(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = conv(lib, x, w)
    return y.flatten(2).transpose(1, 2).softmax(-1) @ y.flatten(2)


def _other_dimensions(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = conv(lib, x, w)
    return y.amax(2) + y.transpose(2, 3).cumsum(2).mean(2).sum(-1)[..., None] + y[:, :, 3, ::2].sum()


def _padded(lib: Any, x: Any, w: Any, dw: Any, c: Any, row: Any) -> Any:
    y = lib.nn.functional.pad(conv(lib, x, w), (2, 1, 0, 3), value=0.5)
    return lib.nn.functional.max_pool2d(conv(lib, y[..., ::2, :], w), 3, 2, 1)


GRAPHS = [_residual, _concatenated, _excited, _flattened, _other_dimensions, _padded]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("captured", [False, True])
def test_graphs_agree_with_pytorch(graph: Callable[..., Any], captured: bool) -> None:
    arrays = X, W, DEPTHWISE, CHANNELS, ROW
    expected = graph(torch, *map(torch.from_numpy, arrays))
    tensors = [nt.from_numpy(each).realize() for each in arrays]
    function = nt.jit(lambda *tensors: graph(nt, *tensors)) if captured else lambda *tensors: graph(nt, *tensors)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(function(*tensors)), expected.numpy(), 1e-4, 1e-5)


def test_values_that_a_tensor_names_are_kept() -> None:
    x, w = nt.from_numpy(X).realize(), nt.from_numpy(W).realize()
    first = conv(nt, x, w)
    second = first.relu()
    third = conv(nt, second, w)
    torch_first = conv(torch, torch.from_numpy(X), torch.from_numpy(W))
    np.testing.assert_allclose(np.asarray(third), conv(torch, torch_first.relu(), torch.from_numpy(W)), 1e-4, 1e-4)
    np.testing.assert_allclose(np.asarray(second), torch_first.relu(), 1e-5, 1e-5)
    np.testing.assert_allclose(np.asarray(first), torch_first, 1e-5, 1e-5)


@pytest.mark.parametrize("places", [1, 2, 3])
def test_gradients_agree_with_pytorch(places: int) -> None:
    shape, kernel = (2, 4, *(6,) * places), (4, 4, *(3,) * places)
    x, w = RNG.standard_normal(shape, np.float32), RNG.standard_normal(kernel, np.float32)

    def loss(lib: Any, x: Any, w: Any) -> Any:
        function = lib.nn.functional
        y = getattr(function, f"conv{places}d")(x, w, None, 1, 1).relu()
        y = getattr(function, f"max_pool{places}d")(y, 2)
        y = getattr(function, f"avg_pool{places}d")(getattr(function, f"conv{places}d")(y, w, None, 1, 2), 2)
        return (y * y).mean()

    ours, theirs = nt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    weight, other = nt.tensor(w, requires_grad=True), torch.tensor(w, requires_grad=True)
    loss(nt, ours, weight).backward()
    loss(torch, theirs, other).backward()
    np.testing.assert_allclose(np.asarray(ours.grad), theirs.grad, 1e-4, 1e-6)
    np.testing.assert_allclose(np.asarray(weight.grad), other.grad, 1e-4, 1e-6)


def test_only_the_ends_of_a_chain_are_copied() -> None:
    x, w = nt.from_numpy(X).realize(), nt.from_numpy(W).realize()
    y = x
    for _ in range(4):
        y = conv(nt, y, w).relu()
    plans: list[events.PlanBuilt] = []
    with events.listen(lambda event: plans.append(event) if isinstance(event, events.PlanBuilt) else None):
        explanation = nt.explain(y)
    assert [row.kernel for row in explanation if row.op == "relu"] == ["conv"] * 4
    assert plans[-1].steps == 5  # The first one copies its input itself.


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("geometry", [(2, 1, 1), (1, 0, 1), (1, 2, 2), ((3, 1), (0, 1), 1)], ids=str)
def test_images_of_few_channels(channels: int, geometry: tuple[Any, ...]) -> None:
    x, w = RNG.standard_normal((2, channels, 20, 18), np.float32), RNG.standard_normal((5, channels, 3, 3), np.float32)

    def both(lib: Any, x: Any, w: Any) -> Any:
        first = lib.nn.functional.conv2d(x, w, None, *geometry)
        return lib.nn.functional.conv2d(first[:, :channels].relu(), w, None, *geometry)

    expected = both(torch, torch.from_numpy(x), torch.from_numpy(w))
    np.testing.assert_allclose(np.asarray(both(nt, nt.from_numpy(x), nt.from_numpy(w))), expected, 1e-4, 1e-4)


@pytest.mark.parametrize("padding", [0, 1])
def test_images_without_channels(padding: int) -> None:
    image, weight, bias = nt.ones(2, 0, 9, 9), nt.ones(4, 0, 3, 3), nt.arange(4.0)
    y = nt.nn.functional.conv2d(image, weight, bias, padding=padding)
    expected = np.broadcast_to(np.arange(4.0).reshape(4, 1, 1), (2, 4, 7 + 2 * padding, 7 + 2 * padding))
    np.testing.assert_array_equal(y.numpy(), expected)


def test_positions_count_in_the_order_of_the_dimensions() -> None:
    y, expected = conv(nt, nt.from_numpy(X), nt.from_numpy(W)), conv(torch, torch.from_numpy(X), torch.from_numpy(W))
    assert y.argmax().item() == expected.argmax().item()
    assert (y * 2).argmin().item() == expected.argmin().item()
    assert y.flatten(2).argmax(2).tolist() == expected.flatten(2).argmax(2).tolist()


def test_images_of_other_ranks_broadcast() -> None:
    cube = RNG.standard_normal((1, 2, 8, 9, 7), np.float32)
    kernel = RNG.standard_normal((2, 2, 3, 3, 3), np.float32)

    def product(lib: Any, *tensors: Any) -> Any:
        x, w, cube, kernel = tensors
        return lib.nn.functional.conv3d(cube, kernel, None, 1, 1) * conv(lib, x, w)[:1]

    arrays = X, W, cube, kernel
    expected = product(torch, *map(torch.from_numpy, arrays))
    np.testing.assert_allclose(np.asarray(product(nt, *map(nt.from_numpy, arrays))), expected, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("channels", [3, 4, 8])
def test_integers_wrap(dtype: str, channels: int) -> None:
    x = RNG.integers(0, 120, (1, channels, 6, 5)).astype(dtype)
    w = RNG.integers(0, 120, (2, channels, 3, 3)).astype(dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (2, 3))
    expected = np.einsum("bchwij,ocij->bohw", windows, w.astype(np.int64)).astype(dtype)
    np.testing.assert_array_equal(np.asarray(nt.nn.functional.conv2d(nt.from_numpy(x), nt.from_numpy(w))), expected)


def test_large_kernels_of_large_images() -> None:
    x, w = RNG.standard_normal((1, 2, 160, 150), np.float32), RNG.standard_normal((2, 1, 11, 11), np.float32)
    expected = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w), None, 1, 5, 1, 2)
    result = nt.nn.functional.conv2d(nt.from_numpy(x), nt.from_numpy(w), None, 1, 5, 1, 2)
    np.testing.assert_allclose(np.asarray(result), expected, 1e-4, 1e-4)


def test_convolutions_of_single_elements_are_products_for_an_npu() -> None:
    x, w = (nt.tensor(RNG.standard_normal(shape, np.float32)).to("bfloat16") for shape in ((1, 8, 4, 6), (16, 8, 1, 1)))
    y = nt.nn.functional.conv2d(x.realize(), w.realize()).relu()
    assert "gemm" in [row.kernel for row in nt.explain(y, device="sim:npu1") if row.device == "sim:npu1"]
