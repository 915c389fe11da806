"""Element-wise work that only an operand of a matrix product needs: no kernel of its own, the same numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_fusion import data, kernels

import npu_tensor as nt
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner import planner
from npu_tensor.tensor import Tensor

# More than a vector and a block of every target along K; less than a panel, and panels with a rest, along M and N.
SIZES = [(2, 2, 1), (3, 5, 2), (14, 32, 64), (29, 37, 67), (15, 33, 300)]


def check(result: Tensor, expected: np.ndarray) -> None:
    depth = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(result.numpy() / depth, expected / depth, rtol=0, atol=1e-5)


def fused(device: str, result: Tensor, expected: np.ndarray, name: str | None = None) -> None:
    """One kernel, compiled where there is a compiler at all, computes the result."""
    (placed,) = planner.plan(structure_of([result._node])).placed
    assert placed.task.name == (name or placed.task.name)
    assert device == "numpy" or placed.kernel.name != "numpy"
    check(result, expected)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_chain_on_a(device: str, sizes: tuple[int, int, int], transposed: bool) -> None:
    m, n, k = sizes
    (a, x), (w, y) = data(*((k, m) if transposed else (m, k))), data(k, n, seed=1)
    if transposed:
        a, x = a.T, x.T
    out = (a * 2 + 1).relu() @ w
    fused(device, out, relu(x * 2 + 1) @ y, "mul+add+relu+contract")


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_chain_on_b(device: str, sizes: tuple[int, int, int], transposed: bool) -> None:
    m, n, k = sizes
    (a, x), (w, y) = data(m, k), data(*((n, k) if transposed else (k, n)), seed=1)
    if transposed:
        w, y = w.T, y.T
    out = a @ (w.tanh() + 2)
    fused(device, out, x @ (np.tanh(y) + 2), "tanh+add+contract")


@pytest.mark.parametrize("sizes", SIZES)
def test_gated_halves_of_one_tensor(device: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    (h, x), (w, y) = data(m, 2 * k), data(n, k, seed=1)
    out = h[:, :k].silu() * h[:, k:] @ w.T
    fused(device, out, silu(x[:, :k]) * x[:, k:] @ y.T, "silu+mul+contract")


def test_both_operands(device: str) -> None:
    (a, x), (w, y), (s, z) = data(17, 40), data(40, 23, seed=1), data(23, seed=2)
    out = 1 / (a + 3) @ (w * s)
    fused(device, out, 1 / (x + 3) @ (y * z))


def test_dequantized_weights(device: str) -> None:
    rng = np.random.default_rng(5)
    q = rng.integers(-128, 128, (40, 33), np.int8)
    (a, x), (s, z) = data(17, 40), data(33, seed=2)
    out = a @ (nt.from_numpy(q).float() * s)
    fused(device, out, x @ (q * z))


@pytest.mark.parametrize(
    ("shape_a", "shape_b"), [((3, 2, 9, 20), (20, 33)), ((3, 2, 9, 20), (2, 20, 33)), ((9, 20), (3, 20, 33))]
)
def test_batch(device: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...]) -> None:
    (a, x), (w, y), (b, z) = data(*shape_a), data(*shape_b, seed=1), data(20, seed=2)
    out = (a.exp() * b) @ (w - 1)
    fused(device, out, (np.exp(x) * z) @ (y - 1))


def test_heads_between_rows_and_columns(device: str) -> None:
    """Attention's scores: the scaled queries are read in another order of dimensions than they are computed in."""
    (q, x), (key, y) = data(2, 30, 4, 16), data(2, 30, 4, 16, seed=1)
    out = (q * 0.25).permute(0, 2, 1, 3) @ key.permute(0, 2, 3, 1)
    fused(device, out, (x * 0.25).transpose(0, 2, 1, 3) @ y.transpose(0, 2, 3, 1), "mul+contract")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [nt.bfloat16, nt.float16, nt.float32])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_bit_for_bit_as_if_stored(device: str, dtype: nt.DType, sizes: tuple[int, int, int], transposed: bool) -> None:
    m, n, k = sizes
    (a, _), (c, _), (w, _) = data(m, k), data(m, k, seed=1), data(k, n, seed=2)
    a, c, w = (t.to(dtype).realize() for t in (a, c, w))
    if transposed:
        a, c = (t.T.contiguous().realize().T for t in (a, c))

    def operand() -> Tensor:
        return (a * 0.3 + c).silu() * c

    result = operand() @ w
    assert len(kernels(result)) == 1
    stored = operand().realize()
    np.testing.assert_array_equal(result.float().numpy(), (stored @ w).float().numpy())


@pytest.mark.parametrize("k", [1, 5, 31, 33, 63, 65, 129])
def test_what_zero_becomes_adds_nothing(device: str, k: int) -> None:
    """exp(0) = 1 and 1 / 0 = inf past the end of K must not reach the sums, nor must rows past the end."""
    (a, x), (w, y) = data(5, k), data(k, 3, seed=1)
    a, w, x, y = (a + 2).realize(), (w + 2).realize(), x + 2, y + 2
    check(a.exp() @ w.exp(), np.exp(x) @ np.exp(y))
    check(1 / a @ w, 1 / x @ y)
    check(a @ (1 / w), x @ (1 / y))
    check((1 / a.T.contiguous().realize()).T @ w, 1 / x @ y)
    # Pairs of bfloat16 have a place past the end of an odd K. Two computed operands: inf * inf.
    low, other = (t.to(nt.bfloat16).realize() for t in (a, w))
    result = ((1 / low) @ (1 / other)).numpy().astype(np.float64)
    np.testing.assert_allclose(result, 1 / x @ (1 / y), rtol=0.03)


def test_living_intermediate_is_computed_once_and_kept(device: str) -> None:
    (a, x), (w, y) = data(7, 5), data(5, 6, seed=1)
    middle = a * 3
    out = (middle + 1) @ w
    assert kernels(out) == ["mul", "add+contract"]
    check(out, (x * 3 + 1) @ y)
    assert middle.is_realized
    check(middle, x * 3)


# The same formula for tensors, and for arrays as the expected result.
Formula = Callable[[Any, Any, Callable[[Any], Any]], Any]


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, w, exp: (exp(a) @ w) + (exp(a) @ (w * 2)),  # two products
        lambda a, w, exp: exp(a) @ exp(a),  # both operands
        lambda a, w, exp: (exp(a) @ w) + exp(a),  # the epilogue as well
        lambda a, w, exp: (exp(a) + exp(a)[0]) @ w,  # not as a whole
    ],
)
def test_what_others_need_is_computed_once(device: str, formula: Formula) -> None:
    (a, x), (w, y) = data(12, 12), data(12, 12, seed=1)
    out = formula(a, w, nt.exp)
    assert sum(name.count("exp") for name in kernels(out)) == 1
    check(out, formula(x, y, np.exp))


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, w, exp: exp(a + a.T) @ w,  # no direction in which both are contiguous
        lambda a, w, exp: exp(a[:, ::2]) @ w[::2],
        lambda a, w, exp: exp(a[::-1, ::-1].T) @ w,
    ],
)
def test_what_packing_cannot_read_has_its_own_kernel(device: str, formula: Formula) -> None:
    (a, x), (w, y) = data(12, 12), data(12, 12, seed=1)
    out = formula(a, w, nt.exp)
    assert "contract" in kernels(out)
    check(out, formula(x, y, np.exp))


def test_nothing_is_computed_several_times(device: str) -> None:
    (a, x), (w, y) = data(6, 5), data(4, 7, seed=1)
    out = a.exp().reshape(30, 1).expand(30, 4) @ w
    assert "contract" in kernels(out)
    check(out, np.repeat(np.exp(x).reshape(30, 1), 4, 1) @ y)


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, w, exp: exp(a)[1:, 2:] @ w[2:],
        lambda a, w, exp: exp(a).reshape(6, 24) @ w.reshape(24, 6),
        lambda a, w, exp: exp(a).reshape(6, 24).T @ w.reshape(6, 24),
        lambda a, w, exp: w @ exp(a).reshape(12, 3, 4)[:, 1],
    ],
)
def test_views_of_the_result(device: str, formula: Formula) -> None:
    """The prologue computes the elements that the product reads, even for a part or another shape."""
    (a, x), (w, y) = data(12, 12), data(12, 12, seed=1)
    out = formula(a, w, nt.exp)
    fused(device, out, formula(x, y, np.exp), "exp+contract")


def test_epilogue_of_the_producer_goes_first(device: str) -> None:
    """If the producer of the input can apply the ops in its epilogue, this saves a wider packing loop."""
    (a, x), (v, y), (w, z), (b, c) = data(9, 16), data(16, 12, seed=1), data(12, 10, seed=2), data(12, seed=3)
    out = (a @ v + b).relu() @ w
    assert kernels(out) == ["contract+add+relu", "contract"]
    check(out, relu(x @ y + c) @ z)
    out = (a.softmax(-1) * 2) @ v
    assert kernels(out) == ["softmax+mul", "contract"]
    check(out, np.exp(x) / np.exp(x).sum(-1, keepdims=True) * 2 @ y)


def test_integers_are_not_computed_while_packing(device: str) -> None:
    rng = np.random.default_rng(3)
    a, w = (rng.integers(-9, 9, (8, 8), np.int32) for _ in range(2))
    out = (nt.from_numpy(a) * 3) @ nt.from_numpy(w)
    assert len(kernels(out)) == 2
    np.testing.assert_array_equal(out.numpy(), a * 3 @ w)
