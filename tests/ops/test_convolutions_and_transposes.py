"""Convolutions, transposed convolutions and weight gradients as ops, against PyTorch's autograd in float64."""

from typing import Any

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.errors import DTypeError, NpuTensorError, ShapeError
from npu_tensor.planner import selection

torch = pytest.importorskip("torch")

# Input, weight, stride, padding, dilation, groups.
GEOMETRIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Any, Any, int]] = {
    "line": ((2, 4, 11), (6, 2, 3), (2,), (1,), (1,), 2),
    "plain": ((2, 3, 7, 8), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many channels": ((2, 19, 7, 8), (21, 19, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one position": ((3, 5, 4, 4), (7, 5, 4, 4), (1, 1), (0, 0), (1, 1), 1),
    "stride": ((2, 3, 9, 10), (4, 3, 4, 4), (2, 2), (1, 1), (1, 1), 1),
    "stride beyond the kernel": ((1, 3, 9, 10), (4, 3, 2, 1), (3, 2), (0, 1), (1, 1), 1),
    "stride and dilation": ((1, 3, 13, 12), (4, 3, 3, 2), (2, 3), (2, 1), (3, 2), 1),
    "far padding": ((1, 2, 5, 4), (3, 2, 2, 2), (1, 2), (6, 5), (2, 1), 1),
    "groups": ((2, 6, 6, 7), (8, 3, 3, 2), (1, 2), (1, 0), (1, 1), 2),
    "depthwise": ((2, 10, 9, 8), (10, 1, 5, 3), (1, 1), (2, 1), (1, 1), 10),
    "depthwise stride": ((1, 20, 10, 9), (20, 1, 3, 3), (2, 2), (1, 1), (1, 1), 20),
    "depthwise, two outputs each": ((2, 3, 7, 7), (6, 1, 3, 3), (2, 1), (1, 1), (1, 2), 3),
    "large depthwise": ((1, 9, 12, 11), (9, 1, 7, 7), (1, 1), (3, 3), (1, 1), 9),
    "volume": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1),
}
TOLERANCE = {"float64": 1e-11, "float32": 1e-4, "bfloat16": 0.1}


@pytest.mark.covers(
    "conv_1d",
    "conv_2d",
    "conv_2d_dw",
    "conv_3d",
    "conv_transpose_1d",
    "conv_transpose_2d",
    "conv_transpose_3d",
    "conv_weight_gradient",
)
@pytest.mark.parametrize("dtype", ["float64", "float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_convolutions_and_their_gradients(dtype: str) -> None:
    for name in GEOMETRIES:
        check_gradients(name, dtype)


def check_gradients(name: str, dtype: str) -> None:
    of_input, of_weight, stride, padding, dilation, groups = GEOMETRIES[name]
    generator, places = np.random.default_rng(len(name)), len(stride)

    def drawn(*shape: int) -> np.ndarray:
        return nt.from_numpy(generator.standard_normal(shape)).to(dtype).to("float64").numpy()

    x, w = (torch.from_numpy(drawn(*shape).copy()).requires_grad_() for shape in (of_input, of_weight))
    convolve = getattr(torch.nn.functional, f"conv{places}d")
    expected = convolve(x, w, None, stride, padding, dilation, groups)
    gradient = drawn(*expected.shape)
    expected.backward(torch.tensor(gradient))
    around = tuple((width, width) for width in padding)
    geometry: dict[str, Any] = {"stride": stride, "padding": around, "dilation": dilation, "groups": groups}
    is_depthwise = places == 2 and groups == of_input[1] == of_weight[0]
    functions = [
        (OPS_OF["dw" if is_depthwise else places], {}, expected),
        (TRANSPOSED[places], {"extents": of_input[2:]}, x.grad),
        (ops.conv_weight_gradient, {"kernel": of_weight[2:]}, w.grad),
    ]
    image, weight = x.detach().numpy(), w.detach().numpy()
    pairs = [(image, weight), (gradient, weight), (image, gradient)]
    for (function, more, exact), operands in zip(functions, pairs, strict=True):
        message, exact = f"{name}: {function.op.name}", exact.detach().numpy()
        result = function(*(nt.from_numpy(each).to(dtype) for each in operands), **more, **geometry)
        assert result.dtype.name == dtype
        atol = TOLERANCE[dtype] * abs(exact).max()
        np.testing.assert_allclose(result.to("float64").numpy(), exact, TOLERANCE[dtype], atol, err_msg=message)
        if dtype == "float64":  # The meaning for channels-last images, which the planner makes of all of them.
            last = [each if each is weight else np.moveaxis(each, 1, -1) for each in operands]
            plain = function.op.body(*last, **more, **geometry, channels_last=True)
            plain = plain if function is ops.conv_weight_gradient else np.moveaxis(plain, -1, 1)
            np.testing.assert_allclose(plain, exact, TOLERANCE[dtype], atol, err_msg=message)


@pytest.mark.parametrize("level", ["avx2", "sse2", "numpy"])
def test_all_instruction_sets(level: str) -> None:
    with nt.config.scope(cpu_features=level):
        selection.reset()
        for name in GEOMETRIES:
            check_gradients(name, "float32")
    selection.reset()


@pytest.mark.once  # NumPy is not compiled.
@needs_compiler
def test_gradients_are_compiled() -> None:
    x, w = nt.ones(2, 3, 6, 6).realize(), nt.ones(4, 3, 3, 3).realize()
    gradients = nt.grad(lambda x, w: (nt.conv2d(x, w) ** 2).sum(), (0, 1))(x, w)
    assert [row.kernel for row in nt.explain(gradients[0]) if row.op == "conv_transpose_2d"] == ["transposed conv"]
    assert [row.kernel for row in nt.explain(gradients[1]) if row.op == "conv_weight_gradient"] == ["weight gradient"]


OPS_OF = {1: ops.conv_1d, 2: ops.conv_2d, "dw": ops.conv_2d_dw, 3: ops.conv_3d}
TRANSPOSED = {1: ops.conv_transpose_1d, 2: ops.conv_transpose_2d, 3: ops.conv_transpose_3d}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_derivatives_of_gradients(name: str, transposed: bool) -> None:
    """Each op is in the gradients of the others, so that the gradient of a gradient reaches all of them."""
    of_input, of_weight, stride, padding, dilation, groups = GEOMETRIES[name]
    generator, places = np.random.default_rng(len(name)), len(stride)
    if transposed:
        of_input, padding = (2, of_weight[0], *of_input[2:]), (0,) * places
    x, w = generator.standard_normal(of_input), generator.standard_normal(of_weight)

    def value(module: Any, x: Any, w: Any) -> Any:
        if transposed:
            added = tuple(max(step, gap) - 1 for step, gap in zip(stride, dilation, strict=True))
            function = getattr(module, f"conv_transpose{places}d")
            return (function(x, w, None, stride, padding, added, groups, dilation) ** 2).sum()
        return (getattr(module, f"conv{places}d")(x, w, None, stride, padding, dilation, groups) ** 2).sum()

    leaves = [torch.from_numpy(each).requires_grad_() for each in (x, w)]
    firsts = torch.autograd.grad(value(torch.nn.functional, *leaves), leaves, create_graph=True)
    (firsts[0].square().sum() + (firsts[1] ** 3).sum()).backward()

    def of_gradients(x: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
        of_x, of_w = nt.grad(lambda x, w: value(nt, x, w), (0, 1))(x, w)
        return of_x.square().sum() + (of_w**3).sum()

    for result, leaf in zip(nt.grad(of_gradients, (0, 1))(*map(nt.from_numpy, (x, w))), leaves, strict=True):
        exact = leaf.grad.numpy()
        np.testing.assert_allclose(result.numpy(), exact, 1e-9, 1e-9 * abs(exact).max())


def test_a_convolution_is_one_node() -> None:
    x, w = nt.ones(1, 2, 5, 5).realize(), nt.ones(3, 2, 3, 3).realize()
    assert [row.op for row in nt.explain(nt.conv2d(x, w, padding=1))] == ["conv_2d"]
    transposed = nt.conv_transpose2d(x, w.swapaxes(0, 1).realize(), stride=2)
    assert [row.op for row in nt.explain(transposed)] == ["conv_transpose_2d"]


@pytest.mark.parametrize("batch", [0, 2])
def test_empty_operands(batch: int) -> None:
    x, gradient = nt.ones(batch, 0, 5, 4), nt.ones(batch, 3, 4, 3)
    geometry: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    np.testing.assert_array_equal(nt.conv2d(x, nt.ones(3, 0, 2, 2)).numpy(), np.zeros((batch, 3, 4, 3)))
    assert ops.conv_weight_gradient(x, gradient, (2, 2), **geometry).numpy().shape == (3, 0, 2, 2)
    image = nt.conv_transpose2d(gradient, nt.ones(3, 2, 2, 2))
    np.testing.assert_array_equal(image.numpy()[:, :, 1:4, 1:3], np.full((batch, 2, 3, 2), 12.0))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_integers_wrap(dtype: str) -> None:
    generator = np.random.default_rng(3)
    x, w = (
        generator.integers(0, 100, (1, 3, 6, 6)).astype(dtype),
        generator.integers(0, 100, (4, 3, 3, 3)).astype(dtype),
    )
    exact = torch.nn.functional.conv2d(*(torch.from_numpy(each.astype("int64")) for each in (x, w)), padding=1)
    result = nt.conv2d(nt.from_numpy(x), nt.from_numpy(w), padding=1)
    np.testing.assert_array_equal(result.numpy(), exact.numpy().astype(dtype))


def test_errors() -> None:
    with pytest.raises(DTypeError, match=r"conv2d.*one dtype, not float32 and float64"):
        nt.conv2d(nt.ones(1, 1, 3, 3), nt.ones(1, 1, 2, 2, dtype="float64"))
    with pytest.raises(DTypeError, match=r"conv2d.*bool"):
        nt.conv2d(nt.ones(1, 1, 3, 3, dtype="bool"), nt.ones(1, 1, 2, 2, dtype="bool"))
    with pytest.raises(ShapeError, match=r"conv1d.*a kernel of extents \[0\] has no elements"):
        nt.conv1d(nt.ones(1, 1, 3), nt.ones(1, 1, 0))
    with pytest.raises(NpuTensorError, match=r"conv1d.*bias must have the shape \[2\]"):
        nt.conv1d(nt.ones(1, 1, 3), nt.ones(2, 1, 1), nt.ones(1))
