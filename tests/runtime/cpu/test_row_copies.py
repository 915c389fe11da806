"""Rows and elements that are written to a table, or read from it."""

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


def _kernels(result: nt.Tensor) -> list[str]:
    ops = ("put", "take", "take_points", "scatter_along")
    return [row.kernel for row in nt.explain(result) if row.op in ops]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sums_of_rows(dim: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    table, index = random.integers(0, 9, (5, 6, 37)), random.integers(0, 5, 11)
    values = random.integers(0, 9, (*table.shape[:dim], 11, *table.shape[dim + 1 :]))
    tensors = [nt.from_numpy(each).to(getattr(nt, dtype)).realize() for each in (table, values)]
    result = nt.index_add(tensors[0], dim, nt.from_numpy(index), tensors[1])
    assert _kernels(result) == ["rows"]
    np.add.at(np.moveaxis(table, dim, 0), index, np.moveaxis(values, dim, 0))
    np.testing.assert_array_equal(result.to(nt.int64).numpy(), table)


def test_sums_of_16_bit_floats_are_rounded_once() -> None:
    values = np.full((1, 300), 1.0)
    result = nt.index_add(nt.zeros(1, 1, dtype=nt.bfloat16), 1, nt.zeros(300).long(), nt.from_numpy(values).bfloat16())
    assert result.item() == 300  # A sum of bfloat16 stays at 256.


@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int32"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(dim: int, dtype: str, reduce: str) -> None:
    random = np.random.default_rng(0)
    table, index = random.integers(1, 4, (9, 20)), random.integers(0, 9, (7, 13))
    values = random.integers(1, 4, (7, 13)).astype(float)
    if dtype.startswith("float"):
        values[0, :3] = np.nan, np.inf, 0.5
    expected = table.astype(dtype)
    function = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    places = [np.arange(7)[:, None], np.arange(13)]
    places[dim] = index
    function.at(expected, tuple(places), values.astype(dtype))
    tensors = [nt.from_numpy(each).to(getattr(nt, dtype)).realize() for each in (table, values)]
    result = nt.scatter_reduce(tensors[0], dim, nt.from_numpy(index), tensors[1], reduce)
    assert _kernels(result) == ["rows"]
    np.testing.assert_array_equal(result.numpy(), expected)


def test_several_indices_and_strides() -> None:
    random = np.random.default_rng(0)
    table = random.integers(0, 99, (6, 7, 8, 3))
    first, second = random.integers(-6, 6, (4, 1)), random.integers(-7, 7, 5)
    tensor, indices = nt.from_numpy(table).realize(), (nt.from_numpy(first), nt.from_numpy(second))
    read = tensor.flip(2)[indices]
    assert _kernels(read) == ["rows"]
    np.testing.assert_array_equal(read.numpy(), table[:, :, ::-1][first, second])
    written = nt.from_numpy(table).realize().clone()
    written[::-2, indices[0]] = nt.from_numpy(np.arange(3).reshape(3, 1, 1, 1, 1))
    assert _kernels(written) == ["rows"]
    table[::-2, first] = np.arange(3).reshape(3, 1, 1, 1, 1)
    np.testing.assert_array_equal(written.numpy(), table)


@pytest.mark.parametrize("width", [1, 3, 700])
def test_sums_in_threads(width: int) -> None:
    random = np.random.default_rng(0)
    values, index = random.standard_normal((2000, width), np.float32), random.integers(0, 50, 2000)
    expected = np.zeros((50, width), np.float32)
    np.add.at(expected, index, values)
    result = nt.index_add(nt.zeros(50, width), 0, nt.from_numpy(index), nt.from_numpy(values))
    np.testing.assert_array_equal(result.numpy(), expected)


def test_nothing_is_added_beside_a_wrong_index() -> None:
    table = nt.zeros(4, 3).realize()
    wrong = nt.tensor([0.0, 4.0]).long()
    with pytest.raises(IndexError, match="index 4 is out of range for extent 4"):
        nt.index_add(table, 0, wrong, nt.ones(2, 3)).realize()
    assert not table.any().item()


@pytest.mark.parametrize("dtype", [nt.float32, nt.bfloat16, nt.int8, nt.bool])
@pytest.mark.parametrize(
    ("shape", "dim", "count"), [((7,), 0, 4), ((4, 9), 1, 1), ((3, 5, 6), 1, 8), ((1000, 50), 1, 60)]
)
def test_elements_along_a_dimension(shape: tuple[int, ...], dim: int, count: int, dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 100 if dtype is not nt.bool else 2, shape)
    places = random.integers(0, shape[dim], (*shape[:dim], count, *shape[dim + 1 :])).astype(("i4", "i8")[dim])
    result = nt.from_numpy(x).to(dtype).realize().gather(dim, nt.from_numpy(places))
    assert [row.kernel for row in nt.explain(result)] == ["rows"]
    np.testing.assert_array_equal(result.to(nt.int64).numpy(), np.take_along_axis(x, places, dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_of_views(dim: int) -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    view, own = nt.from_numpy(x)[:, 1:, ::2].permute(2, 1, 0), x[:, 1:, ::2].transpose(2, 1, 0)
    places = np.random.default_rng(0).integers(0, own.shape[dim], own.shape)
    result = view.gather(dim, nt.from_numpy(places))
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(own, places, dim))


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 40])
def test_elements_that_are_not_there(wrong: int) -> None:
    result = nt.arange(10).reshape(2, 5).gather(1, nt.tensor([[0, 4], [1, wrong]]).double().long())
    with pytest.raises(IndexError, match=f"{wrong} is out of range for extent 5"):
        result.numpy()
