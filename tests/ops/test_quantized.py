"""Quantized dtypes against the package gguf and golden values of ggml."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.dtypes import QUANTIZED, DType
from npu_tensor.nn import functional as F

GOLDEN = np.load(ROOT / "tests" / "golden" / "quantized.npz")
X: Any = GOLDEN["x"]
MADE = (nt.q8_0, nt.q4_0, nt.q4_1, nt.q5_0, nt.q5_1)

NMSE = 5e-4
"""Largest error that ggml's own tests allow in a product."""

each_type = pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)


def golden(dtype: DType) -> nt.Tensor:
    """Return weights (5, 512) that ggml quantized."""
    return nt.from_numpy(GOLDEN[f"{dtype.name}/bytes"].view(dtype.numpy))


def error(ours: Any, expected: Any) -> float:
    return float(((ours - expected) ** 2).sum() / (expected**2).sum())


@each_type
@pytest.mark.covers("dequantize")
def test_numbers_are_ggmls(dtype: DType) -> None:
    weights = golden(dtype)
    assert weights.shape == (5, 512)
    assert weights.nbytes == GOLDEN[f"{dtype.name}/bytes"].nbytes
    assert np.array_equal(weights.dequantize().numpy(), GOLDEN[f"{dtype.name}/numbers"])


@each_type
def test_any_bytes_mean_what_the_package_gguf_makes_of_them(dtype: DType) -> None:
    gguf = pytest.importorskip("gguf")
    stored = np.random.default_rng(1).integers(0, 256, (7, 5 * dtype.itemsize), np.uint8)
    assert gguf.GGMLQuantizationType(dtype.ggml_type).name.lower() == dtype.name
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType(dtype.ggml_type))
        reference = nt.dequantize.op.body(stored.view(dtype.numpy))
    finite = np.isfinite(expected)
    for ours in (reference, nt.from_numpy(stored.view(dtype.numpy)).dequantize().numpy()):
        assert np.array_equal(ours, expected, equal_nan=True)
        assert np.array_equal(ours[finite].view(np.uint32), expected[finite].view(np.uint32))


@pytest.mark.parametrize("dtype", MADE, ids=lambda dtype: dtype.name)
@pytest.mark.covers("quantize")
def test_quantize_as_the_package_gguf(dtype: DType) -> None:
    gguf = pytest.importorskip("gguf")
    rows = np.random.default_rng(2).standard_normal((9, 96), np.float32)
    rows[0], rows[1, 32:64], rows[2] = 0, 3, np.arange(96) / 32 - 1
    expected = gguf.quants.quantize(rows, gguf.GGMLQuantizationType(dtype.ggml_type))
    ours = nt.quantize(nt.from_numpy(rows), dtype.name)
    assert (ours.dtype, ours.shape) == (dtype, (9, 96))
    assert ours._stored().tobytes() == expected.tobytes()


@each_type
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.covers("linear_quantized")
def test_products_are_ggmls(dtype: DType, exact: bool) -> None:
    weights, x = golden(dtype), nt.from_numpy(X)
    exactly = X.astype(np.float64) @ GOLDEN[f"{dtype.name}/numbers"].T.astype(np.float64)
    ours = nt.mul_mat(weights, x, exact=exact)
    row = nt.explain(ours)[-1]
    if config.cpu_features != "numpy":
        assert row.kernel == "quantized"
        assert ("float32 numbers" if exact else "8 bits as in ggml") in row.why
    assert ours.dtype is nt.float32
    assert error(ours.numpy(), exactly if exact else GOLDEN[f"{dtype.name}/out"]) < (1e-12 if exact else 2e-6)
    assert error(ours.numpy(), exactly) < NMSE
    assert np.array_equal(F.linear(x, weights).numpy(), nt.mul_mat(weights, x).numpy())


def test_linear_has_the_dtype_of_its_input_and_leading_dimensions() -> None:
    weights, x = golden(nt.q4_0), nt.from_numpy(np.stack([X, X + 1])).to(nt.bfloat16)
    bias = nt.arange(5, dtype=nt.bfloat16)
    out = F.linear(x, weights, bias)
    assert (out.dtype, out.shape) == (nt.bfloat16, (2, 3, 5))
    expected = x.float() @ weights.dequantize().T + bias.float()
    np.testing.assert_allclose(out.float().numpy(), expected.numpy(), atol=1)
    turned = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert np.array_equal(F.linear(turned, weights).float().numpy(), F.linear(x, weights).float().numpy())
    assert F.linear(x[0, 0], weights).shape == (5,)


@pytest.mark.parametrize("dtype", [nt.int32, nt.bool, nt.uint8], ids=str)
def test_products_take_floats(dtype: DType) -> None:
    for product in (F.linear, lambda x, weights: nt.mul_mat(weights, x)):
        with pytest.raises(nt.DTypeError, match=f"takes floats, not {dtype.name}"):
            product(nt.ones(2, 512, dtype=dtype), golden(nt.q8_0))


@pytest.mark.parametrize("shape", [(3, 512), (2, 3, 512), (512,)], ids=str)
def test_the_gradient_of_an_input(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    x, weights = nt.from_numpy(random.standard_normal(shape, np.float32)).requires_grad_(), golden(nt.q4_1)
    gradient = random.standard_normal((*shape[:-1], 5), np.float32)
    F.linear(x, weights).backward(nt.from_numpy(gradient))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), gradient @ GOLDEN["q4_1/numbers"], rtol=1e-4, atol=1e-5)


@each_type
@pytest.mark.covers("take")
def test_rows_by_index(dtype: DType) -> None:
    weights, rows = golden(dtype), nt.tensor([[4, 0], [1, 4]])
    expected = GOLDEN[f"{dtype.name}/numbers"][rows.numpy()]
    assert np.array_equal(F.embedding(rows, weights).numpy(), expected)
    assert np.array_equal(nt.get_rows(weights, rows[0]).numpy(), expected[0])
    with pytest.raises(IndexError, match="out of range"):
        F.embedding(nt.tensor([5]), weights).numpy()


@pytest.mark.parametrize("exact", [False, True])
def test_nothing_at_all(exact: bool) -> None:
    weights = nt.quantize(nt.ones(4, 64), nt.q4_0)
    assert nt.mul_mat(weights, nt.zeros(0, 64), exact=exact).numpy().shape == (0, 4)
    none = nt.quantize(nt.zeros(4, 0), nt.q8_0)
    assert none.dequantize().numpy().shape == (4, 0)
    assert nt.mul_mat(none, nt.zeros(2, 0), exact=exact).tolist() == [[0] * 4] * 2
    assert nt.quantize(nt.zeros(0, 32), nt.q5_1).dequantize().tolist() == []


def test_what_an_npu_leaves_to_the_cpu() -> None:
    with nt.default_device("sim:npu2"):
        rows = F.embedding(nt.tensor([3]), golden(nt.q8_0))
        explained = nt.explain(rows)
        assert {row.device for row in explained} == {"cpu"}
        assert "no NPU kernel for weights in q8_0 but that of their product" in explained[0].why
        assert np.array_equal(rows.numpy(), GOLDEN["q8_0/numbers"][[3]])


def test_a_row_of_nan_is_one_of_nan() -> None:
    x = np.array(X)
    x[1, 300] = np.nan
    out = nt.mul_mat(golden(nt.q4_k), nt.from_numpy(x)).numpy()
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[[0, 2]]).all()


def test_other_ops_say_how_to_go_on() -> None:
    weights = golden(nt.q5_0)
    for use in (lambda: weights + 1, lambda: weights.T, lambda: weights[0], lambda: X @ weights, weights.softmax):
        with pytest.raises(nt.DTypeError, match=r"q5_0.*dequantize\(\)"):
            use(-1) if use == weights.softmax else use()
    for look in (weights.numpy, weights.tolist, lambda: np.asarray(weights)):
        with pytest.raises(nt.DTypeError, match=r"dequantize\(\)\.numpy\(\)"):
            look()
    for make in (lambda: nt.zeros(32, dtype=nt.q8_0), lambda: nt.tensor([1.0] * 32, dtype="q8_0")):
        with pytest.raises(nt.DTypeError, match=r"quantize\(x, 'q8_0'\)"):
            make()


def test_a_quantized_dtype_has_no_limits_and_no_size_of_an_element() -> None:
    for limits in (nt.iinfo, nt.finfo):
        with pytest.raises(nt.DTypeError, match=r"takes \w+ dtypes, not q4_0($|[^;])"):
            limits(nt.q4_0)
    with pytest.raises(nt.DTypeError, match=r"q8_0\[5, 512\] are stored in blocks"):
        golden(nt.q8_0).element_size()
    assert golden(nt.q8_0).itemsize == 34


def test_what_does_not_fit() -> None:
    x, weights = nt.from_numpy(X), golden(nt.q8_0)
    with pytest.raises(nt.ShapeError, match="blocks of 32"):
        nt.quantize(x[:, :40], nt.q4_0)
    with pytest.raises(nt.DTypeError, match=r"makes q8_0.*not q4_k"):
        nt.quantize(x, nt.q4_k)
    with pytest.raises(nt.DTypeError, match="takes floats, not int64"):
        nt.quantize(nt.arange(32), nt.q4_0)
    with pytest.raises(nt.DTypeError, match="takes a quantized tensor, not one of float32"):
        x.dequantize()
    with pytest.raises(nt.ShapeError, match="rows of q8_0 cannot be split or joined"):
        weights.reshape(10, 256)
    with pytest.raises(nt.ShapeError, match="blocks of 32"):
        nt.from_numpy(np.zeros((), nt.q8_0.numpy))
    with pytest.raises(nt.ShapeError, match="inner dimensions differ: 32 and 512"):
        F.linear(x[:, :32], weights)


def test_a_quantized_tensor_is_shown_copied_and_pickled() -> None:
    weights = golden(nt.q6_k)
    assert repr(weights) == str(weights) == "Tensor(q6_k[5, 512])"
    views = (weights.detach(), weights.clone(), weights.reshape(1, 5, 512).squeeze(0))
    for twin in (*views, copy.deepcopy(weights), pickle.loads(pickle.dumps(weights))):
        assert twin.dtype is nt.q6_k
        assert np.array_equal(twin.dequantize().numpy(), weights.dequantize().numpy())
