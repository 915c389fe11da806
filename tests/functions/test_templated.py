"""Functions recorded by a template: calls after the first have the ops of their own arguments."""

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.functions.templated import templated
from npu_tensor.graph.structure import pending_ops


def scaled_sum(x: nt.Tensor, y: nt.Tensor, factor: float = 2.0, dims: tuple[int, ...] = (0,)) -> nt.Tensor:
    return (x.reshape(2, 3) * factor + y).sum(dims)


def values(seed: int, *shape: int) -> nt.Tensor:
    return nt.from_numpy(np.random.default_rng(seed).random(shape, np.float32))


def test_runs_twice_per_kind_of_arguments() -> None:
    runs = []

    @templated
    def function(x: nt.Tensor, factor: object = None) -> nt.Tensor:
        runs.append(factor)
        return x * 3

    factors = [None, 1, True, 1.0, 0.0, -0.0, (1,), (2,), nt.ones(1).shape]  # some equal, but of other types or signs
    for factor in factors:
        for seed in range(4):
            function(values(seed, 4), factor)
    assert list(map(repr, runs)) == [repr(factor) for factor in factors for _ in range(2)]
    function(values(1, 5), 1.0)
    assert len(runs) == 2 * len(factors) + 1
    for _ in range(4):
        function(values(1, 4), (True,))  # not an integer
    assert len(runs) == 2 * len(factors) + 5


@pytest.mark.parametrize("computed", [True, False])
def test_every_call_reads_its_own_tensors(computed: bool) -> None:
    function = templated(scaled_sum)
    for seed in range(4):
        x, y = values(seed, 6), values(seed + 10, 2, 3)
        if not computed:
            x, y = x + 0, y + 0
        assert function(x, y, 0.5, (1,)).tolist() == scaled_sum(x, y, 0.5, (1,)).tolist()
        assert function(x, y, factor=3.0).tolist() == scaled_sum(x, y, factor=3.0).tolist()


def test_a_tensor_given_twice() -> None:
    function = templated(scaled_sum)
    for seed in range(4):
        x, y = values(seed, 2, 3), values(seed + 5, 2, 3)
        assert function(x, x).tolist() == scaled_sum(x, x).tolist()
        assert function(x, y).tolist() == scaled_sum(x, y).tolist()


def test_gradients() -> None:
    function = templated(scaled_sum)
    for seed in range(4):
        found = []
        for each in (function, scaled_sum):
            x, y = (values(seed + n, 6).reshape(2, 3).clone().requires_grad_() for n in (0, 1))
            each(x, y, 0.5).square().sum().backward()
            assert x.grad is not None
            assert y.grad is not None
            found.append((x.grad.tolist(), y.grad.tolist()))
        assert found[0] == found[1]
        with nt.no_grad():
            assert not function(x, y, 0.5).requires_grad
        assert function(x, y.detach(), 0.5).requires_grad
        assert not function(x.detach(), y.detach(), 0.5).requires_grad


def test_parts_without_a_gradient_stay_without() -> None:
    @templated
    def centered(x: nt.Tensor) -> nt.Tensor:
        with nt.no_grad():
            mean = x.mean()
        return x - mean

    for seed in range(4):
        x = values(seed, 4).requires_grad_()
        centered(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [1, 1, 1, 1]


def test_second_derivatives() -> None:
    weight, x = values(0, 3, 4), values(1, 2, 4)

    def loss(x: nt.Tensor) -> nt.Tensor:
        return nt.linear(x, weight).square().sum()

    for _ in range(4):
        twice = nt.grad(lambda x: (nt.grad(loss)(x) ** 2).sum())(x).numpy()
        hessian = 2 * weight.numpy().T @ weight.numpy()
        np.testing.assert_allclose(twice, 2 * x.numpy() @ hessian @ hessian, rtol=1e-5)


def test_writes_are_made_by_every_call() -> None:
    @templated
    def counted(x: nt.Tensor, count: nt.Tensor) -> nt.Tensor:
        return x * count.add_(1)

    count = nt.zeros(())
    assert [counted(nt.ones(()), count).item() for _ in range(4)] == [1, 2, 3, 4]


def test_values_are_read_by_every_call() -> None:
    @templated
    def above(x: nt.Tensor) -> nt.Tensor:
        return x * 2 if x.sum().item() > 1 else x * 3

    assert [above(nt.full((), each)).item() for each in (0.5, 2.0, 0.5, 2.0)] == [1.5, 4, 1.5, 4]


def test_arguments_are_returned_as_they_are() -> None:
    @templated
    def same(x: nt.Tensor) -> nt.Tensor:
        return x

    x = nt.ones(2)
    assert all(same(x) is x for _ in range(4))


def test_lists_and_arrays() -> None:
    @templated
    def total(x: nt.Tensor, parts: object) -> nt.Tensor:
        return x + (parts[0] if isinstance(parts, list) else parts)

    for _ in range(3):
        assert total(nt.ones(1), [2]).tolist() == total(nt.ones(1), np.array([2.0], np.float32)).tolist() == [3]


def test_an_error_names_the_line_of_its_call() -> None:
    x, target = nt.zeros(2, 3), nt.tensor([0, 2])
    for _ in range(3):
        nt.nll_loss(x, target)
    with pytest.raises(
        nt.DimensionError, match=r"class 7 is out of range for extent 3 \(recorded at test_templated.py"
    ):
        nt.nll_loss(x, nt.tensor([0, 7]))
    for _ in range(4):
        with pytest.raises(nt.ShapeError, match=r"linear\(float32\[2, 3\], float32\[2, 4\]\): inner dimensions"):
            nt.linear(x, nt.zeros(2, 4))


def test_ops_name_the_line_of_the_call() -> None:
    x, weight = values(0, 2, 2, 3), values(1, 4, 3)
    for _ in range(4):
        result = nt.linear(x, weight)
        (line,) = {node.line for node in pending_ops([result._node])}
        assert line.startswith("test_templated.py:")


def test_a_captured_function_uses_none() -> None:
    layer = nt.nn.Linear(3, 4)
    x = values(0, 2, 3)
    expected = layer(x).tolist()
    assert nt.jit(layer)(x).tolist() == expected


def test_parts_of_an_argument_that_is_detached() -> None:
    @templated
    def product(x: nt.Tensor) -> nt.Tensor:
        return x.detach() * x

    for seed in range(4):
        x = values(seed, 4).requires_grad_()
        product(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == x.tolist()


def test_the_default_dtype_may_change() -> None:
    x = nt.arange(6).reshape(1, 3, 2)
    try:
        for dtype in (nt.float32, nt.float64, nt.float32):
            nt.set_default_dtype(dtype)
            assert {nt.local_response_norm(x, 2).dtype for _ in range(4)} == {dtype}
    finally:
        nt.set_default_dtype(nt.float32)


def test_indices_are_checked_beside_a_long_chain() -> None:
    for _ in range(4):
        scores = nt.zeros(2, 3)
        for _ in range(8):
            scores = scores * 1.5 + 1
        with pytest.raises(nt.DimensionError, match="class 7 is out of range for extent 3"):
            nt.nll_loss(scores, nt.tensor([0, 7]))
