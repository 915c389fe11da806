"""Products of vectors, which arrive as rows, and operands that stay packed, through the public functions."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt

pytestmark = needs_compiler

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_row_times_a_matrix_with_what_follows(dtype: str, transposed: bool) -> None:
    x, w, bias = (nt.tensor(normal(*shape)).to(dtype) for shape in ((3, 1, 75), (75, 90), (90,)))
    stored = w.T.contiguous().realize() if transposed else w.realize()
    result = ((x @ (stored.T if transposed else stored)) + bias).relu()
    assert "gemm" in [row.kernel for row in nt.explain(result)]
    wide = [np.asarray(each.to(nt.float32)).astype(np.float64) for each in (x, w, bias)]
    expected = np.maximum(wide[0] @ wide[1] + wide[2], 0)
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    np.testing.assert_allclose(np.asarray(result.to(nt.float32)), expected, tolerance, tolerance * 10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [2, 3, 10, 12])
def test_few_columns_of_long_rows(columns: int, dtype: str) -> None:
    x, w, bias = (nt.tensor(normal(*shape)).to(dtype).realize() for shape in ((2, 37, 531), (columns, 531), (columns,)))
    result = (x @ w.T + bias).relu()
    wide = [np.asarray(each.to(nt.float32)).astype(np.float64) for each in (x, w, bias)]
    expected = np.maximum(wide[0] @ wide[1].T + wide[2], 0)
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(np.asarray(result.to(nt.float32)), expected, tolerance, tolerance * 30)


@pytest.mark.parametrize("shape", [(1, 70, 40), (70, 1, 40), (1, 1, 40), (1, 70, 1)])
def test_vectors_of_integers_wrap_as_numpy_does(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = RNG.integers(-128, 128, (2, m, k), np.int8), RNG.integers(-128, 128, (2, k, n), np.int8)
    product = nt.tensor(a) @ nt.tensor(b)
    np.testing.assert_array_equal(product, (a.astype(np.int32) @ b.astype(np.int32)).astype(np.int8))


def test_weights_of_a_captured_function_are_packed_in_its_first_call() -> None:
    nt.empty_cache()
    weight, x = normal(300, 300), normal(100, 300)
    a, w = nt.tensor(x).realize(), nt.tensor(weight).realize()
    product = nt.jit(lambda a: (a * 2 @ w).relu() @ w)
    for _ in range(2):
        expected = np.maximum(2 * x.astype(np.float64) @ weight, 0) @ weight
        np.testing.assert_allclose(product(a), expected, 1e-5, 1e-2)
        assert weight.nbytes <= nt.memory_stats()["packed"] < 1.5 * weight.nbytes
        w += 1
        weight += 1


def test_an_operand_is_packed_once_and_kept_while_its_value_lives() -> None:
    nt.empty_cache()
    weight, x = normal(300, 300), normal(100, 300)
    a, w = nt.tensor(x).realize(), nt.tensor(weight).realize()
    product = nt.jit(lambda a, w: a @ w)

    def check() -> None:
        np.testing.assert_allclose(product(a * 1, w), x.astype(np.float64) @ weight, 1e-5, 1e-3)

    check()
    assert nt.memory_stats()["packed"] == 0  # Most values are operands once.
    check()
    packed = nt.memory_stats()["packed"]
    assert weight.nbytes <= packed < 1.5 * weight.nbytes
    check()
    assert nt.memory_stats()["packed"] == packed
    nt.empty_cache()
    assert nt.memory_stats()["packed"] == 0
    check()
    check()
    assert nt.memory_stats()["packed"] == packed
    w += 1  # Another value.
    weight = weight + 1
    check()
    gc.collect()
    assert nt.memory_stats()["packed"] == 0


def test_parts_of_one_value_and_its_transpose_are_packed_apart() -> None:
    values = normal(2, 300, 300)
    w, x = nt.tensor(values).realize(), nt.tensor(normal(200, 300)).realize()
    for _ in range(3):
        for part in (0, 1):
            np.testing.assert_allclose(x @ w[part], np.asarray(x).astype(np.float64) @ values[part], 1e-5, 1e-3)
            np.testing.assert_allclose(x @ w[part].T, np.asarray(x).astype(np.float64) @ values[part].T, 1e-5, 1e-3)
