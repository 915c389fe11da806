"""Positions in ascending sequences by one compiled kernel, against NumPy."""

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.covers("search_places")
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 31, 100, 5000])
def test_positions(length: int, dtype: str, right: bool) -> None:
    random = np.random.default_rng(length)
    sequence, values = np.sort(random.integers(0, 60, length)).astype(float), random.integers(0, 60, (5, 41)) * 1.0
    if dtype.startswith(("float", "bfloat")):
        sequence[length - length // 4 :] = np.nan
        values[0, :3] = np.nan, np.inf, -np.inf
    tensors = [nt.from_numpy(each).to(getattr(nt, dtype)).realize() for each in (sequence, values)]
    result = nt.searchsorted(*tensors, right=right)
    assert [row.kernel for row in nt.explain(result) if row.op == "search_places"] == ["search"]
    np.testing.assert_array_equal(result.numpy(), np.searchsorted(sequence, values, "right" if right else "left"))


def test_rows_of_sequences_and_mixed_dtypes() -> None:
    random = np.random.default_rng(0)
    sequences, values = np.sort(random.integers(0, 99, (6, 5, 20))), random.random((5, 3, 6)).astype(np.float32) * 99
    result = nt.searchsorted(nt.from_numpy(sequences), nt.from_numpy(values).permute(2, 0, 1))
    expected = [[np.searchsorted(*pair) for pair in zip(s, v, strict=True)] for s, v in
                zip(sequences, values.transpose(2, 0, 1), strict=True)]  # fmt: skip
    np.testing.assert_array_equal(result.numpy(), expected)
    assert nt.searchsorted(nt.tensor([1.0, 2.0]), nt.tensor(1.5)).item() == 1
