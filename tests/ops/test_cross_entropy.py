"""Cross-entropy with class indices: one op, its mean and its gradient."""

from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor.events import KernelRan

torch = pytest.importorskip("torch")


def loss_and_gradient(
    scores: nt.Tensor, target: nt.Tensor, gradient: nt.Tensor, **options: Any
) -> tuple[nt.Tensor, nt.Tensor]:
    loss, pulled_back = nt.vjp(lambda x: nt.cross_entropy(x, target, **options), scores)
    return loss, pulled_back(gradient)[0]


def drawn(shape: tuple[int, ...], ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores and classes, some of which are ignored."""
    random = np.random.default_rng(sum(shape))
    classes = 0 if len(shape) == 1 else 1
    target = np.asarray(random.integers(0, shape[classes], shape[:classes] + shape[classes + 1 :]))
    if target.ndim and target.size:
        target.flat[0] = ignore_index
    return random.standard_normal(shape).astype(np.float32) * 5, target


@pytest.mark.covers("cross_entropy_rows", "cross_entropy_rows_gradient")
@pytest.mark.parametrize("captured", [False, True], ids=["lazy", "captured"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (33, 100), (3, 9000), (4, 5, 3), (2, 3, 4, 5), (0, 4)])
def test_values_and_gradients(shape: tuple[int, ...], reduction: str, captured: bool) -> None:
    for ignore_index in (-100, 2):
        scores, target = drawn(shape, ignore_index)
        options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
        x = torch.tensor(scores, requires_grad=True)
        expected = torch.nn.functional.cross_entropy(x, torch.tensor(target), **options)
        gradient = np.random.default_rng(0).standard_normal(tuple(expected.shape)).astype(np.float32)
        expected.backward(torch.tensor(gradient))

        function = nt.jit(loss_and_gradient) if captured else loss_and_gradient
        for _ in range(2 if captured else 1):
            loss, of_scores = function(*map(nt.tensor, (scores, target, gradient)), **options)
        np.testing.assert_allclose(loss.numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(of_scores.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_special_scores() -> None:
    """An ignored row counts as 0 even if it holds NaN, and a score of -inf gives an infinite loss."""
    scores = np.array([[np.nan, 1, 2], [-np.inf, 0, 1], [0, np.inf, 0]], np.float32)
    for target in ([-100, 1, -100], [-100, -100, -100], [-100, 0, 1]):
        options: dict[str, Any] = {"reduction": "none"}
        expected = torch.nn.functional.cross_entropy(torch.tensor(scores), torch.tensor(target), **options)
        result = nt.cross_entropy(nt.tensor(scores), nt.tensor(target), **options)
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("ignore_index", [-100, 2, 1 << 40])
def test_classes_of_int32(ignore_index: int) -> None:
    scores, target = drawn((5, 7), 2)
    x = torch.tensor(scores, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(x, torch.tensor(target), ignore_index=ignore_index)
    expected.backward()
    classes = nt.tensor(target.astype(np.int32))
    loss, of_scores = loss_and_gradient(nt.tensor(scores), classes, nt.ones(()), ignore_index=ignore_index)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(of_scores.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_second_derivatives() -> None:
    scores, target = drawn((4, 6), -100)
    x = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(torch.nn.functional.cross_entropy(x, torch.tensor(target)), x, create_graph=True)
    (expected,) = torch.autograd.grad(first.square().sum(), x)
    gradient = nt.grad(lambda x: nt.cross_entropy(x, nt.tensor(target)))
    second = nt.grad(lambda x: gradient(x).square().sum())(nt.tensor(scores).double())
    np.testing.assert_allclose(second.numpy(), expected.numpy(), rtol=1e-9)


def test_a_wrong_class_of_a_captured_function_is_an_error() -> None:
    function = nt.jit(nt.cross_entropy)
    scores = nt.zeros(2, 3)
    assert function(scores, nt.tensor([0, 2])).item() == pytest.approx(np.log(3))
    with pytest.raises(nt.DimensionError, match="cross_entropy: class 3 is out of range for extent 3"):
        function(scores, nt.tensor([0, 3])).item()


@pytest.mark.covers("counted_mean")
def test_a_step_takes_four_kernels() -> None:
    """They compute the losses, their mean, and the gradients of both."""
    scores, target = drawn((8, 3), -100)
    x = nt.tensor(scores).requires_grad_()
    classes = nt.tensor(target)
    with nt.default_device("cpu"), heard(KernelRan) as ran:
        loss = nt.cross_entropy(x, classes)
        loss.backward()
        nt.realize(loss, x.grad)
    assert sum(each.kernels for each in ran) <= 4
