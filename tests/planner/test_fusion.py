"""Fusion: whatever is joined, the numbers are those of NumPy in float64, and the kernels are as few as promised."""

from collections.abc import Callable

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner import planner
from npu_tensor.tensor import Tensor


def kernels(*tensors: Tensor) -> list[str]:
    """Names of the tasks that pending tensors are cut into."""
    return [placed.task.name for placed in planner.plan(structure_of([t._node for t in tensors])).placed]


def data(*shape: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    return nt.from_numpy(values), values.astype(np.float64)


class RandomProgram:
    """Grows a pool of (tensor, float64 array) pairs by random ops; keeps a random part of the handles alive."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = [data(*shape, seed=n) for n, shape in enumerate([(6, 5), (5,), (6, 1), (5, 6), (2, 6, 5)])]

    def pick(self) -> tuple[Tensor, np.ndarray]:
        return self.pool[self.rng.integers(len(self.pool))]

    def step(self) -> None:
        choices: list[Callable[[], tuple[Tensor, np.ndarray] | None]] = [
            self.unary, self.unary, self.binary, self.binary, self.reduce, self.normalize, self.view, self.product,
        ]  # fmt: skip
        result = choices[self.rng.integers(len(choices))]()
        if result is not None and np.isfinite(result[1]).all() and result[1].size < 4000:
            self.pool.append(result)
            if len(self.pool) > 8:
                self.pool.pop(self.rng.integers(len(self.pool)))

    def unary(self) -> tuple[Tensor, np.ndarray]:
        t, a = self.pick()
        kinds = [
            (lambda t: t.tanh(), np.tanh),
            (lambda t: t.relu(), lambda a: np.maximum(a, 0)),
            (lambda t: t * 0.5 + 1, lambda a: a * 0.5 + 1),
            (lambda t: t.sigmoid(), lambda a: 1 / (1 + np.exp(-a))),
            (lambda t: -t, lambda a: -a),
        ]
        f, g = kinds[self.rng.integers(len(kinds))]
        return f(t), g(a)

    def binary(self) -> tuple[Tensor, np.ndarray] | None:
        (t, a), (u, b) = self.pick(), self.pick()
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            return None
        kind = self.rng.integers(3)
        results = [(lambda: (t + u, a + b)), (lambda: (t * u, a * b)), (lambda: (t - u, a - b))]
        assert len(shape) <= 3
        return results[kind]()

    def reduce(self) -> tuple[Tensor, np.ndarray]:
        t, a = self.pick()
        dims = tuple(d for d in range(a.ndim) if self.rng.random() < 0.5) or tuple(range(a.ndim))
        keep = bool(self.rng.random() < 0.5)
        kind = self.rng.integers(3)
        if kind == 0:
            return t.sum(dims, keep), a.sum(dims, keepdims=keep)
        if kind == 1:
            return t.mean(dims, keep), a.mean(dims, keepdims=keep)
        return t.amax(dims, keep), a.max(dims, keepdims=keep)

    def normalize(self) -> tuple[Tensor, np.ndarray]:
        t, a = self.pick()
        if not a.ndim:
            return t, a
        dim = int(self.rng.integers(a.ndim))
        e = np.exp(a - a.max(dim, keepdims=True))
        return t.softmax(dim), e / e.sum(dim, keepdims=True)

    def view(self) -> tuple[Tensor, np.ndarray]:
        t, a = self.pick()
        kind = self.rng.integers(4)
        if kind == 0:
            order = [int(d) for d in self.rng.permutation(a.ndim)]
            return t.permute(*order), a.transpose(order)
        if kind == 1:
            return t.reshape(-1), a.reshape(-1)
        if kind == 2 and a.ndim and a.shape[-1] > 1:
            return t[..., 1:], a[..., 1:]
        return t.unsqueeze(0) if a.ndim < 3 else t, a[None] if a.ndim < 3 else a

    def product(self) -> tuple[Tensor, np.ndarray] | None:
        (t, a), (u, b) = self.pick(), self.pick()
        if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != b.shape[max(b.ndim - 2, 0)] or 0 in a.shape + b.shape:
            return None
        if a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
            return None
        return t @ u, a @ b


SEEDS = pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))]
)


def check_random_graph(seed: int) -> None:
    program = RandomProgram(seed)
    for _ in range(25):
        program.step()
    nt.realize(*(t for t, _ in program.pool))
    for t, a in program.pool:
        assert t.shape == a.shape
        scale = max(1.0, float(np.abs(a).max(initial=0)))
        np.testing.assert_allclose(t.numpy() / scale, a / scale, rtol=0, atol=2e-5)


@SEEDS
@pytest.mark.usefixtures("device")
def test_random_graphs_match_float64(seed: int) -> None:
    check_random_graph(seed)


@pytest.mark.usefixtures("device")
def test_row_op_whose_reduction_is_dead_code_stores_no_results_per_row() -> None:
    """The second derivative of a maximum is 0; two fills of one element are kept beside it."""

    def squares(b: Tensor, c: Tensor) -> Tensor:
        first = nt.grad(lambda b, c: b.sin().sum() + c.amax(), argnums=(0, 1))(b, c)
        return (first[0] * first[0]).sum() + (first[1] * first[1]).sum()

    values = np.array([0.7, -0.4], np.float32)
    of_b, of_c = nt.grad(squares, argnums=(0, 1))(nt.from_numpy(values), nt.arange(3.0))
    np.testing.assert_allclose(of_b.numpy(), -np.sin(2.0 * values), rtol=1e-6)
    assert of_c.tolist() == [0, 0, 0]


def random_chain(seed: int, dtype: str, finish: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum of random products, sums and functions of three tensors. `finish` is applied to each of them."""
    rng = np.random.default_rng(seed)
    pool = [nt.from_numpy(rng.uniform(-2, 2, shape).astype(dtype)) for shape in ((7, 37), (37,), (7, 1))]
    choices: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x - y, lambda x, y: finish(x * 0.3) + y,
        lambda x, y: finish(x * y).tanh(), lambda x, y: y - finish(x.sigmoid()), lambda x, y: nt.lerp(x, y, 0.3),
        lambda x, y: nt.addcmul(x, x, y), lambda x, _: nt.nn.functional.gelu(x),
    ]  # fmt: skip
    total = nt.zeros(7, 37, dtype=dtype)
    for _ in range(20):
        x, y = (pool[number] for number in rng.integers(len(pool), size=2))
        pool.append(finish(choices[rng.integers(len(choices))](x, y)))
        total = finish(total + pool[-1])
    return total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_fused_chains_have_the_bits_of_single_ops(seed: int, dtype: str) -> None:
    fused, single = (random_chain(seed, dtype, finish) for finish in (lambda x: x, Tensor.realize))
    np.testing.assert_array_equal(fused.numpy(), single.numpy())


def test_elementwise_chain_is_one_kernel() -> None:
    (a, x), (b, y) = data(64, 33), data(33, seed=1)
    out = ((a * b + 2).tanh() - a).relu()
    assert len(kernels(out)) == 1
    np.testing.assert_allclose(out.numpy(), np.maximum(np.tanh(x * y + 2) - x, 0), atol=1e-6)


def test_composite_layer_norm_is_one_kernel() -> None:
    (a, x), (w, v) = data(8, 16), data(16, seed=1)
    centred = a - a.mean(-1, True)
    out = centred / ((centred * centred).mean(-1, True) + 1e-5).sqrt() * w
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * v
    del centred  # a living handle would make it a second output
    assert len(kernels(out)) == 1
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)


def test_matrix_product_takes_bias_activation_and_residual() -> None:
    (a, x), (w, y), (b, z), (r, q) = data(9, 16), data(16, 12, seed=1), data(12, seed=2), data(9, 12, seed=3)
    out = (a @ w + b).relu() + r
    assert len(kernels(out)) == 1
    np.testing.assert_allclose(out.numpy(), np.maximum(x @ y + z, 0) + q, atol=1e-5)


def test_living_intermediate_is_kept_by_the_same_kernel() -> None:
    a, x = data(7, 5)
    middle = a * 3
    out = middle + 1
    assert len(kernels(out)) == 1
    np.testing.assert_allclose(out.numpy(), x * 3 + 1, atol=1e-6)
    assert middle.is_realized
    np.testing.assert_allclose(middle.numpy(), x * 3, atol=1e-6)


def test_equal_subexpressions_are_merged() -> None:
    a, x = data(6, 6)
    out = a.tanh() * a.tanh()
    plan = planner.plan(structure_of([out._node]))
    assert [op for placed in plan.placed for op in placed.task.ops].count("tanh") == 1
    np.testing.assert_allclose(out.numpy(), np.tanh(x) ** 2, atol=1e-6)


def test_small_result_does_not_keep_a_large_temporary() -> None:
    a, _ = data(512, 64)
    out = (a.cumsum(0)[:4] * 2).realize()
    assert out._node.value.nbytes == out.nbytes


def test_data_and_kept_results_are_never_overwritten() -> None:
    a, x = data(64, 64)
    kept = a.cumsum(0)
    out = kept * 2
    plan = planner.plan(structure_of([out._node]))
    assert all(output.donor is None for placed in plan.placed for output in placed.task.outputs)
    np.testing.assert_allclose(out.numpy(), np.cumsum(x, 0) * 2, atol=2e-5)
    np.testing.assert_allclose(kept.numpy(), np.cumsum(x, 0), atol=1e-5)


def test_temporaries_are_freed_while_a_plan_runs() -> None:
    a, _ = data(256, 256)
    for _ in range(8):
        a = (a @ a) * 0.01
    nt.empty_cache()
    before = nt.memory_stats()["in_use"]
    a.realize()
    # One result, and at most two more matrices during the run.
    assert nt.memory_stats()["in_use"] - before <= 2 * a.nbytes


def views_sum(a: Tensor, x: np.ndarray, count: int) -> tuple[Tensor, np.ndarray]:
    """The sum of overlapping windows of (2, 300), each an operand of its own."""
    total, expected = a[:, 0:100], x[:, 0:100].copy()
    for n in range(1, count):
        total, expected = total + a[:, n : n + 100], expected + x[:, n : n + 100]
    return total, expected


@pytest.mark.parametrize("count", [2, *range(61, 67), 150])
def test_many_views_of_one_tensor_are_cut_into_kernels_that_can_be_launched(device: str, count: int) -> None:
    a, x = data(2, 300)
    total, expected = views_sum(a, x, count)
    np.testing.assert_allclose(total.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("count", [*range(61, 66), 90])
def test_many_results_are_cut_into_kernels_that_can_be_launched(device: str, count: int) -> None:
    a, x = data(40)
    living, expected = [a], [x]
    for n in range(count):
        living.append(living[-1] * 0.5 + n)
        expected.append(expected[-1] * 0.5 + n)
    nt.realize(*living)
    for result, numbers in zip(living, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), numbers, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("finish", ["map", "row", "product", "prologue"])
def test_results_views_and_numbers_near_the_limit(finish: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (a, x), (w, y) = data(12, 90), data(20, 20, seed=1)
    total, expected = a[:, :20], x[:, :20].copy()
    if finish == "product":
        total, expected = total @ w, expected @ y
    living, numbers = [], []
    for n in range(1, int(rng.integers(25, 70))):
        view, read = a[:, n : n + 20], x[:, n : n + 20]
        if rng.random() < 0.4:
            factor = float(rng.uniform(-1, 1))
            view, read = view * factor, read * factor
        total, expected = total + view, expected + read
        if rng.random() < 0.3:
            living.append(total)
            numbers.append(expected)
    if finish == "row":
        total, expected = total - total.mean(-1, True), expected - expected.mean(-1, keepdims=True)
    if finish == "prologue":
        total, expected = total @ w, expected @ y
    for result, values in zip([total, *living], [expected, *numbers], strict=True):
        np.testing.assert_allclose(result.numpy(), values, atol=2e-4)
