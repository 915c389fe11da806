"""Promotion and conversion against PyTorch."""

import itertools
import math
import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparison import TORCH_DTYPES, assert_same, to_torch

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES, DType
from npu_tensor.functions.arithmetic import result_type

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

NAMES = {theirs: name for name, theirs in TORCH_DTYPES.items()}


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())], ids=str)
def test_promotion_of_two_tensors(shapes: Any) -> None:
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = nt.zeros(shapes[0], dtype=a), nt.zeros(shapes[1], dtype=b)
        expected = NAMES[torch.result_type(to_torch(x), to_torch(y))]
        assert result_type(x, y).name == expected, (a, b)
        assert (x * y).dtype.name == expected, (a, b)


def test_true_division_of_integers() -> None:
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = nt.ones(2, dtype=a), nt.ones(2, dtype=b)
        assert (x / y).dtype.name == NAMES[(to_torch(x) / to_torch(y)).dtype]
    assert (nt.tensor([7]) / 2).tolist() == [3.5]
    assert (nt.tensor([7]) // 2).dtype is nt.int64


@pytest.mark.parametrize("number", [True, 2, 2.5], ids=str)
@pytest.mark.parametrize("shape", [(2,), ()], ids=str)
def test_promotion_with_numbers(number: Any, shape: Any) -> None:
    for dtype in DTYPES:
        x = nt.ones(shape, dtype=dtype)
        assert (x * number).dtype.name == NAMES[torch.result_type(to_torch(x), number)], dtype
        assert (number * x).dtype.name == NAMES[torch.result_type(number, to_torch(x))], dtype


def source(dtype: DType) -> np.ndarray:
    """Return values that every other dtype can hold after a conversion that C defines."""
    if dtype.is_floating_point:
        return np.array([0.0, -0.0, 0.5, 1.5, 2.5, -0.7, 99.99, 1.0, 3.14159], np.float32)
    if dtype is nt.bool:
        return np.array([True, False])
    return np.arange(0, 120, 7)


@pytest.mark.parametrize("origin", [d.name for d in DTYPES])
@pytest.mark.parametrize("target", [d.name for d in DTYPES])
def test_conversion(origin: str, target: str) -> None:
    dtype = nt.dtypes.as_dtype(origin)
    x = nt.from_numpy(source(dtype)).to(dtype)
    if target == "uint8" and dtype.is_floating_point:
        x = x.abs()
    ours = x.to(target)
    expected = to_torch(x).to(TORCH_DTYPES[target])
    assert to_torch(ours).dtype is expected.dtype
    np.testing.assert_array_equal(to_torch(ours).double().numpy(), expected.double().numpy())


@pytest.mark.covers("convert")
def test_integers_wrap_as_in_pytorch() -> None:
    x = nt.tensor([0, 127, 128, 255, 256, -1, -129, 2**31, 2**40 + 5])
    for target in ("int8", "uint8", "int16", "int32"):
        expected = to_torch(x).to(TORCH_DTYPES[target])
        np.testing.assert_array_equal(x.to(target).numpy(), expected.numpy())


@pytest.mark.parametrize("target", ["bfloat16", "float16"])
def test_rounding_to_16_bits_over_all_exponents(target: str) -> None:
    """Compare ties, overflow and subnormals of compiled code with ml_dtypes and NumPy."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32)
    ties = (rng.integers(0, 2**16, 2000).astype(np.uint32) << 16) | 0x8000
    edges = np.array([0x7F7FFFFF, 0x00000001, 0x80000001, 0x007FFFFF, 0x33000000, 0x477FF000, 0x7F800000], np.uint32)
    values = np.concatenate([bits, ties, edges]).view(np.float32)
    kind = ml_dtypes.bfloat16 if target == "bfloat16" else np.float16
    with np.errstate(all="ignore"):
        expected = values.astype(kind).astype(np.float32)
    for ours in (nt.from_numpy(values).to(target), (nt.from_numpy(values) * 1.0).to(target)):
        got = ours.float().numpy()
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8"])
def test_floats_out_of_range_saturate(target: str) -> None:
    """C and PyTorch leave this undefined. The result is the nearest limit, and 0 for NaN."""
    limits = np.iinfo(target)
    x = nt.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30])
    expected = [0, limits.max, limits.min, limits.max, limits.min]
    assert (x * 1.0).to(target).tolist() == expected


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8"])
def test_arrays_of_floats_saturate_when_they_become_tensors(target: str) -> None:
    limits = np.iinfo(target)
    for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        array = np.array([math.nan, math.inf, -math.inf, 2.9], kind)
        assert nt.tensor(array, dtype=target).tolist() == [0, limits.max, limits.min, 2]
    assert nt.tensor(np.array([3], np.uint16), dtype=target).tolist() == [3]


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("value", [0, -1, 127, 128, 255, 256, -255, -256, 2.9, 0.5, 300.5, math.inf, math.nan, 2**40])
def test_numbers_that_fit_as_in_pytorch(target: str, value: float) -> None:
    """PyTorch's RuntimeError is an ArgumentError here. In both, a negative number wraps once in uint8."""
    theirs, ours = torch.ones(2, dtype=TORCH_DTYPES[target]), nt.ones(2, dtype=target)
    mask = [True, False]
    for make, oracle in (
        (lambda: nt.full((2,), value, dtype=target), lambda: torch.full((2,), value, dtype=theirs.dtype)),
        (lambda: ours.masked_fill(nt.tensor(mask), value), lambda: theirs.masked_fill(torch.tensor(mask), value)),
        (lambda: ours.clone().fill_(value), lambda: theirs.clone().fill_(value)),
    ):
        try:
            expected = oracle()
        except RuntimeError:
            with pytest.raises(nt.ArgumentError, match="does not fit"):
                make()
        else:
            assert make().tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("comparison", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("number", [0.1, -0.1, 1 / 3, 1e10, -1e10, math.inf, math.nan, 257, 2049, True, 1e-9], ids=str)
def test_numbers_are_rounded_before_they_are_compared(name: str, comparison: str, number: float) -> None:
    theirs = torch.tensor([0.1, -0.1, 1 / 3, 256.0, 2048.0, 1.0, math.inf, 0.0], dtype=TORCH_DTYPES[name])
    if name == "float16" and math.isfinite(number) and abs(number) > 65504:
        expected = getattr(theirs.float(), comparison)(number)  # PyTorch rounds to infinity only in some comparisons.
        theirs, expected = theirs[:-2], expected[:-2]
    else:
        expected = getattr(theirs, comparison)(number)
    x = nt.from_numpy(theirs.float().numpy()).to(name)
    assert getattr(x, comparison)(number).tolist() == expected.tolist()
    assert getattr(nt, comparison)(x, number).tolist() == expected.tolist()
    assert getattr(operator, comparison)(x, number).tolist() == expected.tolist()
    mirrored = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(comparison, comparison)
    assert getattr(operator, mirrored)(number, x).tolist() == expected.tolist()
    assert getattr(operator, mirrored)(np.float64(number), x).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_a_chain_is_at_least_as_exact_as_its_ops_one_by_one(name: str) -> None:
    """A fused chain rounds once, within one unit of float64; PyTorch rounds after each op."""
    rng = np.random.default_rng(1)
    a, b, c = (nt.from_numpy(rng.standard_normal(500).astype(np.float32)).to(name).realize() for _ in range(3))
    x, y, z = (to_torch(tensor).double() for tensor in (a, b, c))
    assert_same((a + b) * c - a, (x + y) * z - x, 1)


def test_names_of_dtypes() -> None:
    assert nt.tensor([1.0], dtype="bf16").dtype is nt.bfloat16
    assert nt.tensor([1.0], dtype=np.float16).dtype is nt.float16
    assert nt.tensor([1.0], dtype=int).dtype is nt.int64
    assert nt.zeros(1, dtype=nt.long).dtype is nt.int64
    for text in ("float", "f4", "bf16", "i8", "int64", "f2"):
        assert nt.zeros(1).to(text).dtype is nt.dtypes.as_dtype(text)
    assert nt.zeros(1, dtype="float").dtype is nt.zeros(1, dtype=nt.float).dtype is nt.float32
    for kind in (float, int, bool):
        assert nt.zeros(1, dtype=kind).dtype.name == NAMES[torch.zeros(1, dtype=kind).dtype]
    with pytest.raises(nt.DTypeError, match="complex64"):
        nt.zeros(1, dtype="complex64")
    with pytest.raises(nt.DTypeError):
        nt.from_numpy(np.zeros(1, np.uint32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_numpy_understands_dtypes(dtype: DType) -> None:
    native: Any = ml_dtypes.bfloat16 if dtype.name == "bfloat16" else np.dtype(dtype.name)
    kind: Any = dtype
    assert np.dtype(kind) == native
    assert np.zeros(3, dtype=kind).dtype == native
    assert np.ones(2).astype(kind).dtype == native
    assert np.asarray(nt.ones(2), dtype=kind).dtype == native
    assert np.empty_like(np.ones(2), dtype=kind).dtype == native
    assert np.dtype([("a", kind)])["a"] == native
    for group in (np.floating, np.integer, np.number):
        assert np.issubdtype(kind, group) == np.issubdtype(native, group)
    assert np.result_type(kind, np.int8) == np.result_type(native, np.int8)
    assert np.zeros(2, nt.zeros(2, dtype=dtype).dtype).dtype == native  # type: ignore[call-overload]


def test_columns_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    column, array, x = pandas.Series([1.0, 2.0, 3.0]), np.array([3, 2, 1]), nt.tensor([3, 2, 1])
    for name in ("add", "sub", "mul", "truediv", "pow", "eq", "lt"):
        function = getattr(operator, name)
        pandas.testing.assert_series_equal(function(column, x), function(column, array))
        pandas.testing.assert_series_equal(function(x, column), function(array, column))
    assert nt.tensor(column).dtype is nt.float64


def test_the_table_has_ggmls_numbers_and_the_words_of_ggml_hsa() -> None:
    # Source: enum ggml_type of ggml.h, and the table of datatypes in ggml-hsa's README.
    rows = {tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in nt.dtypes_table().splitlines()}
    assert {
        ("int8", "GGML_TYPE_I8", "24", "native"),
        ("int16", "GGML_TYPE_I16", "25", "native"),
        ("int32", "GGML_TYPE_I32", "26", "native"),
        ("bfloat16", "GGML_TYPE_BF16", "30", "native"),
        ("float16", "GGML_TYPE_F16", "1", "by conversion to bfloat16"),
        ("float32", "GGML_TYPE_F32", "0", "emulated, so slower than native types"),
    } <= rows
