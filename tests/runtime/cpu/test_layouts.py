"""Views in every order of their dimensions through the device, against NumPy: large enough for tiles of them."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection

SHAPE = (37, 70, 131)
ORDERS = list(itertools.permutations(range(3)))


def sample(dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, SHAPE).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "int64"])
@pytest.mark.parametrize("order", ORDERS)
def test_permuted_copies(dtype: str, order: tuple[int, ...]) -> None:
    x = sample(dtype)
    np.testing.assert_array_equal((nt.tensor(x).permute(order) + 1).numpy(), x.transpose(order) + np.array(1, dtype))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("length", [1, 3, 7, 8, 9, 14, 15, 16, 17, 31, 33, 47])
def test_short_rows_of_which_parts_are_changed_in_place(length: int, threads: int) -> None:
    """The vector that ends a row is not computed from what another one has stored."""
    x = np.random.default_rng(0).integers(0, 100, (1200, 50)).astype(np.float32)
    with config.scope(threads=threads):
        selection.reset()
        tensor = nt.tensor(x).realize()
        tensor[:, 1 : 1 + length] *= 3
        tensor[:, :length] += tensor[:, 50 - length :]
        result = tensor.numpy()
    selection.reset()
    x[:, 1 : 1 + length] *= 3
    x[:, :length] += x[:, 50 - length :].copy()
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("flipped", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
def test_flipped_and_permuted_copies(order: tuple[int, ...], flipped: tuple[int, ...]) -> None:
    x = sample("float32")
    ours = nt.tensor(x).permute(order)
    expected = np.flip(x.transpose(order), flipped)
    np.testing.assert_array_equal(nt.flip(ours, flipped).numpy(), expected)
    np.testing.assert_array_equal((nt.flip(ours, flipped) + ours).numpy(), expected + x.transpose(order))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "bool"])
@pytest.mark.parametrize(("mode", "like"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_by_copies(mode: str, like: Any, dtype: str, threads: int) -> None:
    x = sample(dtype)
    expected = np.pad(x, ((2, 3), (0, 69), (70, 1)), like)
    with config.scope(threads=threads):
        selection.reset()
        np.testing.assert_array_equal(nt.pad(nt.tensor(x), (70, 1, 0, 69, 2, 3), mode).numpy(), expected)
        turned = nt.tensor(x.T.copy()).permute(2, 1, 0)
        np.testing.assert_array_equal(nt.pad(turned, (70, 1, 0, 69, 2, 3), mode).numpy(), expected)
    selection.reset()


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_flipped_and_every_second_element(dtype: str) -> None:
    x = sample(dtype)
    tensor = nt.tensor(x)
    np.testing.assert_array_equal(nt.flip(tensor, (2,)).numpy(), x[..., ::-1])
    np.testing.assert_array_equal(nt.flip(tensor, (0, 2)).numpy(), x[::-1, :, ::-1])
    np.testing.assert_array_equal(tensor[..., ::2].numpy(), x[..., ::2])
    np.testing.assert_array_equal(tensor[:, 1:, 1::2].contiguous().numpy(), x[:, 1:, 1::2])


# Shapes of operands of products of shape 40 x 30 x 50.
BROADCAST = [
    ((40, 1, 1), (1, 30, 50)),
    ((40, 30, 1), (1, 1, 50)),
    ((40, 1, 50), (1, 30, 1)),
    ((40, 30, 50), (1, 30, 1)),
]

REDUCTIONS: list[tuple[str, Callable[..., nt.Tensor], Callable[..., Any]]] = [
    ("sum", lambda x, d, k: x.sum(d, k), lambda a, d, k: a.sum(d, keepdims=k)),
    ("amax", lambda x, d, k: x.amax(d, k), lambda a, d, k: a.max(d, keepdims=k)),
    ("any", lambda x, d, k: (x > 2.4).any(d, k), lambda a, d, k: (a > 2.4).any(d, keepdims=k)),
    ("all", lambda x, d, k: (x > -2.4).all(d, k), lambda a, d, k: (a > -2.4).all(d, keepdims=k)),
    ("var", lambda x, d, k: x.var(d, keepdim=k), lambda a, d, k: a.var(d, ddof=1, keepdims=k)),
    ("logsumexp", lambda x, d, k: x.logsumexp(d, k), lambda a, d, k: np.log(np.exp(a).sum(d, keepdims=k))),
]


@pytest.mark.parametrize(("name", "reduce", "expected"), REDUCTIONS, ids=[name for name, _, _ in REDUCTIONS])
def test_reductions_over_several_dims_of_broadcast_operands(
    name: str, reduce: Callable[..., nt.Tensor], expected: Callable[..., Any]
) -> None:
    for shapes in BROADCAST:
        a, b = (np.random.default_rng(seed).uniform(-1.5, 1.5, shape).astype("f4") for seed, shape in enumerate(shapes))
        for dims in [(0, 1, 2), (0, 1), (1, 2), (0, 2)]:
            for keep in (False, True):
                result = reduce(nt.tensor(a) * nt.tensor(b), dims, keep).numpy()
                exact = expected(a.astype(np.float64) * b, dims, keep)
                np.testing.assert_allclose(result, exact, rtol=1e-5, atol=2e-3 if name == "sum" else 1e-5)


@pytest.mark.parametrize("columns", [1, 5, 8, 33, 131])
def test_operands_and_results_per_column(columns: int) -> None:
    random = np.random.default_rng(0)
    x, (a, b) = random.standard_normal((70, columns)), random.standard_normal((2, columns))
    tensors = [nt.tensor(array.astype(np.float32)).realize() for array in (x, a, b)]
    step = nt.jit(lambda x, a, b: (x.sum(0) * a + b, x.sum(0) - b, (x - x.mean(0) * a).abs().amax(0) + b))
    expected = (x.sum(0) * a + b, x.sum(0) - b, np.abs(x - x.mean(0) * a).max(0) + b)
    for result, right in zip(step(*tensors), expected, strict=True):
        np.testing.assert_allclose(result.numpy(), right, rtol=1e-5, atol=1e-5)


def test_rows_of_dims_that_are_no_neighbours() -> None:
    """Results per row and per element, of rows that are not evenly spaced in any operand."""
    a = sample("float32") / 100
    x = nt.tensor(a)
    y = x.exp()
    total = y.sum((0, 2), keepdim=True)
    nt.realize(y, total)
    np.testing.assert_allclose(y.numpy(), np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(total.numpy(), np.exp(a.astype(np.float64)).sum((0, 2), keepdims=True), rtol=1e-6)
    np.testing.assert_allclose((x * 2).mean((0, 2)).numpy(), (a * 2.0).mean((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(nt.tensor(a).permute(2, 0, 1).var((0, 2)).numpy(), a.var((1, 2), ddof=1), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: x.sum(),
        lambda x: x.var(),
        lambda x: x.argmax(),
        lambda x: x.sum((0, 1), keepdim=True),
        lambda x: x.amin((0, 1)),
    ],
)
def test_a_reduction_does_not_write_its_operands_out(reduce: Callable[[nt.Tensor], nt.Tensor], threads: int) -> None:
    with config.scope(threads=threads):
        selection.reset()
        a, b = nt.rand(4000, 1).realize(), nt.rand(1, 4000).realize()
        nt.empty_cache()
        held = sum(nt.memory_stats()[name] for name in ("in_use", "cached"))
        reduce(a * b).item()
        # The pool keeps intermediate allocations for reuse. An operand over the whole shape would need 64 MB.
        assert sum(nt.memory_stats()[name] for name in ("in_use", "cached")) - held <= 4 << 20
    selection.reset()
