"""Rows that are written to a table, or read from it."""

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.parametrize("dtype", [nt.float32, nt.float16, nt.bfloat16, nt.int32])
@pytest.mark.parametrize(
    ("rows", "index"),
    [([3], nt.int32), ([2, 3, 4], nt.int64), ([0, 1, 2, 3, 4, 5, 6, 7], nt.int32), ([5, 4], nt.int32), ([-1], nt.int64),
     ([6, -1], nt.int32), ([3, 3, 3], nt.int64)],
)  # fmt: skip
def test_rows(rows: list[int], index: nt.DType, dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    table, values = random.integers(-9, 9, (8, 3, 2)), random.integers(-9, 9, (len(rows), 3, 2))
    written = nt.from_numpy(table).to(dtype).realize()
    written[nt.tensor(rows, dtype=index)] = nt.from_numpy(values.astype(np.float32)).to(dtype)
    assert [row.kernel for row in nt.explain(written) if row.op == "put"] == ["rows"]
    table[rows] = values
    np.testing.assert_array_equal(written.to(nt.float32).numpy(), table)


@pytest.mark.parametrize("rows", [[8], [7, 8], [-9]])
def test_rows_that_are_not_there(rows: list[int]) -> None:
    table = nt.zeros(8, 2).realize()
    table[nt.tensor(rows).double().long()] = nt.ones(len(rows), 2)
    with pytest.raises(IndexError, match="out of"):
        table.realize()


def test_values_of_another_dtype_and_order() -> None:
    table, values = np.zeros((4, 3), np.float16), np.arange(6, dtype=np.float32).reshape(3, 2)
    written = nt.from_numpy(table.copy())
    written[nt.tensor([3, 0])] = nt.from_numpy(values).t()
    table[[3, 0]] = values.T
    np.testing.assert_array_equal(written.numpy(), table)


@pytest.mark.parametrize("dtype", [nt.float32, nt.bfloat16, nt.int8, nt.bool])
@pytest.mark.parametrize("width", [1, 31, 32, 67])
def test_rows_that_are_read(width: int, dtype: nt.DType) -> None:
    table = np.random.default_rng(0).integers(0, 2, (9, width)).astype(np.float32)
    rows = np.array([[4, 4, 0], [8, 1, 4]])
    read = nt.embedding(nt.from_numpy(rows), nt.from_numpy(table).to(dtype).realize())
    assert [row.kernel for row in nt.explain(read) if row.op == "take"] == ["rows"]
    np.testing.assert_array_equal(read.to(nt.float32).numpy(), table[rows])


def test_rows_that_several_threads_read() -> None:
    table, rows = np.arange(3000 * 40).reshape(3000, 40), np.random.default_rng(0).integers(0, 3000, 5000)
    read = nt.embedding(nt.from_numpy(rows), nt.from_numpy(table))
    np.testing.assert_array_equal(read.numpy(), table[rows])
    rows[4999] = 3000
    with pytest.raises(IndexError, match="index 3000 is out of range"):
        nt.embedding(nt.from_numpy(rows).double().long(), nt.from_numpy(table)).realize()


def test_rows_of_a_quantized_table() -> None:
    """Blocks of 32 numbers: scale, minimum and 16 bytes of two codes each."""
    values = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    rows = np.array([8, 0, 5])
    read = nt.embedding(nt.from_numpy(rows), nt.quantize(nt.from_numpy(values), "q4_1"))
    assert [row.kernel for row in nt.explain(read) if row.op == "take"] == ["rows"]
    blocks = values[rows].reshape(3, 2, 32)
    step = (blocks.max(-1) - blocks.min(-1)) / 15
    assert (np.abs(read.numpy().reshape(3, 2, 32) - blocks).max(-1) <= 0.52 * step).all()


@pytest.mark.parametrize("row", [9, -1])
def test_rows_that_cannot_be_read(row: int) -> None:
    with pytest.raises(IndexError, match=f"index {row} is out of range for extent 9"):
        nt.embedding(nt.tensor([2.0, row]).long(), nt.ones(9, 2)).realize()
