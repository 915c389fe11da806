"""The packaged kernel functions: the names that ggml-hsa has, and GGML's meaning, computed here with NumPy alone."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dtypes import as_dtype
from npu_tensor.ggml_hsa import function_files as kernel_source
from npu_tensor.ggml_hsa.kernel_functions import binary_ops, copy_ops, embedding, mul_mat, row_ops
from npu_tensor.runtime.npu.tensor_desc import TensorDesc

# Kernels listed in the documentation of ggml-hsa's tool.
UNARY = "abs sgn neg step tanh elu relu sigmoid gelu gelu_quick silu hardswish hardsigmoid exp gelu_erf"
LISTED = {
    "binary_ops.py": [f"ggml_op_{op}" for op in ("add", "sub", "mul", "div")],
    "unary_ops.py": [f"ggml_unary_op_{op}" for op in UNARY.split()],
    "mul_mat.py": ["ggml_op_mul_mat"],
}


@pytest.mark.parametrize("source", LISTED)
def test_listed_functions_are_there(source: str) -> None:
    result = kernel_source.functions(kernel_source.find(source, ()))
    assert set(LISTED[source]) <= set(result)


def numbers(*ne: int, dtype: type = np.float32) -> np.ndarray:
    """A tensor of GGML extents, as an array of four dimensions."""
    rng = np.random.default_rng(len(ne) + sum(ne))
    shape = (1,) * (4 - len(ne)) + ne[::-1]
    return rng.integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize("own", [(20, 6, 4, 3), (10, 2, 4, 1), (1, 6, 2, 3), (5, 1, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (binary_ops.ggml_op_add, np.add),
        (binary_ops.ggml_op_sub, np.subtract),
        (binary_ops.ggml_op_mul, np.multiply),
        (binary_ops.ggml_op_minimum, np.minimum),
        (binary_ops.ggml_op_maximum, np.maximum),
    ],
)
def test_second_operands_repeat_as_a_whole(
    function: Callable[..., nt.Tensor], expected: np.ufunc, own: tuple[int, ...]
) -> None:
    a, b = numbers(20, 6, 4, 3), numbers(*own)
    repeated = np.tile(b, [whole // part for whole, part in zip(a.shape, b.shape, strict=True)])
    np.testing.assert_array_equal(function(nt.from_numpy(a), nt.from_numpy(b)).numpy(), expected(a, repeated))


def test_an_operand_that_does_not_repeat() -> None:
    with pytest.raises(nt.ShapeError, match=r"\[3, 1, 1, 1\] does not repeat over src0 with \[4, 1, 1, 1\]"):
        binary_ops.ggml_op_add(nt.zeros(1, 1, 1, 4), nt.zeros(1, 1, 1, 3))


@pytest.mark.parametrize(
    ("few", "many"), [((), ()), ((2,), (6,)), ((1, 2), (3, 2)), ((2, 3), (4, 9)), ((1, 1), (2, 2))]
)
@pytest.mark.parametrize("output", ["f32", "i32", "i16"])
def test_mul_mat(few: tuple[int, ...], many: tuple[int, ...], output: str) -> None:
    """GGML's loop: every element is the product of two rows, matrices of src0 serve groups of src1's."""
    integer = output != "f32"
    a = numbers(5, 3, *few, dtype=np.int16 if integer else np.float32)
    b = numbers(5, 4, *many, dtype=np.int16 if integer else np.float32)
    result = np.zeros((*b.shape[:3], 3), np.int64)
    for i3, i2, row, column in itertools.product(*map(range, result.shape)):
        first = a[i3 // (b.shape[0] // a.shape[0]), i2 // (b.shape[1] // a.shape[1]), column]
        result[i3, i2, row, column] = (first.astype(np.int64) * b[i3, i2, row]).sum()
    dtype = as_dtype(output)
    actual = mul_mat.ggml_op_mul_mat(nt.from_numpy(a), nt.from_numpy(b), output=TensorDesc.of(result.shape, dtype))
    assert actual.dtype is dtype
    np.testing.assert_array_equal(actual.numpy(), result)


def test_rows() -> None:
    x = numbers(7, 5, 3)
    given = nt.from_numpy(x)
    index = TensorDesc.of((1, 3, 5), nt.int32)
    np.testing.assert_array_equal(row_ops.ggml_op_argmax(given, output=index).numpy(), x.argmax(-1))
    total = TensorDesc.of((1, 3, 5, 1), nt.float32)
    np.testing.assert_array_equal(row_ops.ggml_op_sum_rows(given, output=total).numpy(), x.sum(-1, keepdims=True))
    assert row_ops.ggml_op_sum(given, output=TensorDesc.of((), nt.float32)).item() == x.sum()
    np.testing.assert_allclose(row_ops.ggml_op_mean(given).numpy(), x.mean(-1, keepdims=True), rtol=1e-6)
    exponents = np.exp(x.astype(np.float64) * 0.5)
    expected = exponents / exponents.sum(-1, keepdims=True)
    np.testing.assert_allclose(row_ops.ggml_op_soft_max(given, scale=0.5).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(row_ops.ggml_op_soft_max(given * 0.5).numpy(), expected, rtol=1e-5)
    centred = x - x.mean(-1, keepdims=True, dtype=np.float64)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(row_ops.ggml_op_norm(given, eps=0.1).numpy(), expected, rtol=1e-4, atol=1e-6)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(row_ops.ggml_op_rms_norm(given, eps=0.1).numpy(), expected, rtol=1e-5)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True))
    np.testing.assert_allclose(row_ops.ggml_op_l2_norm(given).numpy(), expected, rtol=1e-5)
    other = numbers(7, 5, 3)[:, :, ::-1]
    assert row_ops.ggml_op_count_equal(given, nt.from_numpy(other.copy())).item() == (x == other).sum()


def test_copies() -> None:
    a, b = numbers(4, 3), numbers(4, 2)
    joined = copy_ops.ggml_op_concat(nt.from_numpy(a), nt.from_numpy(b), dim=1)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([a, b], 2))
    with pytest.raises(nt.DimensionError, match="dim must be 0 to 3, not 4"):
        copy_ops.ggml_op_concat(nt.from_numpy(a), nt.from_numpy(b), dim=4)
    output = TensorDesc.of((1, 2, 6, 8), nt.float32)
    repeated = copy_ops.ggml_op_repeat(nt.from_numpy(a), output=output)
    np.testing.assert_array_equal(repeated.numpy(), np.tile(a, (1, 2, 2, 2)))
    with pytest.raises(nt.ShapeError, match="does not repeat"):
        copy_ops.ggml_op_repeat(nt.from_numpy(a), output=TensorDesc.of((5,), nt.float32))
    output = TensorDesc.of((3, 4), nt.int8)
    assert copy_ops.ggml_op_cpy(nt.from_numpy(a), output=output).dtype is nt.int8


def test_embedding() -> None:
    table, index = numbers(4, 10), np.array([[[[3, 3, 0]]]], np.int32)
    result = embedding.ggml_op_get_rows(nt.from_numpy(table), nt.from_numpy(index))
    np.testing.assert_array_equal(result.numpy(), table[0, 0][[3, 3, 0]])
    with pytest.raises(nt.ShapeError, match="one table"):
        embedding.ggml_op_get_rows(nt.from_numpy(numbers(4, 10, 2)), nt.from_numpy(index))
    x, positions = numbers(4, 2, 3), np.array([[[[0, 1, 5]]]], np.int32)
    turned = embedding.ggml_op_rope(nt.from_numpy(x), nt.from_numpy(positions)).numpy()
    angles = positions.reshape(3, 1) * 10000.0 ** (-np.arange(0, 4, 2) / 4)
    pairs = x.reshape(3, 2, 2, 2)
    waves = np.exp(1j * angles)[:, None, :] * (pairs[..., 0] + 1j * pairs[..., 1])
    np.testing.assert_allclose(turned.reshape(pairs.shape), np.stack([waves.real, waves.imag], -1), atol=1e-4)
