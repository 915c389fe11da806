"""Views in every order of their dimensions through the device, against NumPy: large enough for tiles of them."""

import itertools

import numpy as np
import pytest

import npu_tensor as nt

SHAPE = (37, 70, 131)
ORDERS = list(itertools.permutations(range(3)))


def sample(dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, SHAPE).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "int64"])
@pytest.mark.parametrize("order", ORDERS)
def test_permuted_copies(dtype: str, order: tuple[int, ...]) -> None:
    x = sample(dtype)
    np.testing.assert_array_equal((nt.tensor(x).permute(order) + 1).numpy(), x.transpose(order) + np.array(1, dtype))


@pytest.mark.parametrize("order", ORDERS)
def test_permuted_operands_among_others(order: tuple[int, ...]) -> None:
    x, y = sample("float32"), sample("float32", 1).transpose(order).copy()
    rows = y[..., :1].copy()
    result = nt.tensor(x).permute(order) * nt.tensor(y) - nt.tensor(rows)
    np.testing.assert_array_equal(result.numpy(), x.transpose(order) * y - rows)


def test_more_transposed_operands_than_are_copied_in_tiles() -> None:
    arrays = [sample("float32", seed)[0] for seed in range(7)]
    total = nt.tensor(arrays[0]).permute(1, 0)
    for array in arrays[1:]:
        total = total + nt.tensor(array).permute(1, 0)
    np.testing.assert_array_equal(total.numpy(), sum(arrays).T)


def test_a_matrix_plus_its_transpose() -> None:
    x = sample("float32").reshape(-1)[: 200 * 200].reshape(200, 200)
    matrix = nt.tensor(x)
    np.testing.assert_array_equal((matrix + matrix.permute(1, 0)).numpy(), x + x.T)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_flipped_and_every_second_element(dtype: str) -> None:
    x = sample(dtype)
    tensor = nt.tensor(x)
    np.testing.assert_array_equal(nt.flip(tensor, (2,)).numpy(), x[..., ::-1])
    np.testing.assert_array_equal(nt.flip(tensor, (0, 2)).numpy(), x[::-1, :, ::-1])
    np.testing.assert_array_equal(tensor[..., ::2].numpy(), x[..., ::2])
    np.testing.assert_array_equal(tensor[:, 1:, 1::2].contiguous().numpy(), x[:, 1:, 1::2])


@pytest.mark.parametrize("length", [1, 2, 16, 33, 64, 65])
def test_softmax_of_short_rows(length: int) -> None:
    x = np.random.default_rng(0).normal(0, 3, (50, length)).astype(np.float32)
    exponentials = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    expected = exponentials / exponentials.sum(-1, keepdims=True)
    np.testing.assert_allclose(nt.softmax(nt.tensor(x), -1).numpy(), expected, rtol=3e-6, atol=1e-9)
