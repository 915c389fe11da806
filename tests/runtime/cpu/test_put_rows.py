"""Rows that are written to a table: compiled where they follow one another."""

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.parametrize("dtype", [nt.float32, nt.float16, nt.bfloat16, nt.int32])
@pytest.mark.parametrize(
    ("rows", "index"),
    [([3], nt.int32), ([2, 3, 4], nt.int64), ([0, 1, 2, 3, 4, 5, 6, 7], nt.int32), ([5, 4], nt.int32), ([-1], nt.int64),
     ([6, -1], nt.int32)],
)  # fmt: skip
def test_rows(rows: list[int], index: nt.DType, dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    table, values = random.integers(-9, 9, (8, 3, 2)), random.integers(-9, 9, (len(rows), 3, 2))
    written = nt.from_numpy(table).to(dtype).realize()
    written[nt.tensor(rows, dtype=index)] = nt.from_numpy(values.astype(np.float32)).to(dtype)
    assert [row.kernel for row in nt.explain(written) if row.op == "put"] == ["rows"]
    table[rows] = values
    np.testing.assert_array_equal(written.to(nt.float32).numpy(), table)


def test_parts_of_a_table_and_of_values() -> None:
    table, values = np.zeros((6, 4), np.float32), np.arange(40, dtype=np.float32).reshape(10, 4)
    written = nt.from_numpy(table)
    written[nt.tensor([1, 2])] = nt.from_numpy(values)[7:9]
    table[1:3] = values[7:9]
    np.testing.assert_array_equal(written.numpy(), table)


@pytest.mark.parametrize("rows", [[8], [7, 8], [-9]])
def test_rows_that_are_not_there(rows: list[int]) -> None:
    table = nt.zeros(8, 2).realize()
    table[nt.tensor(rows)] = nt.ones(len(rows), 2)
    with pytest.raises(IndexError, match="out of"):
        table.realize()
