"""requires_grad and backward() against torch.autograd, their rules and errors, and bugs known from other libraries."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.errors import ArgumentError, CaptureError, DTypeError, GradientError

torch = pytest.importorskip("torch")

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def leaf(values: Any = X, dtype: Any = None) -> nt.Tensor:
    return nt.tensor(values, dtype, requires_grad=True)


def _accumulated(lib: Any, x: Any) -> Any:
    (x * x).sum().backward()
    (x.exp()).sum().backward()
    return x.grad


def _given(lib: Any, x: Any) -> Any:
    (x.T @ x).backward(lib.ones(3, 3))
    return x.grad


def _retained(lib: Any, x: Any) -> Any:
    y = x.tanh().sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def _parts_constant(lib: Any, x: Any) -> Any:
    with lib.no_grad():
        a = x.exp()
        with lib.enable_grad():
            b = x.sin()
    (x * a * b * x.detach()).sum().backward()
    return x.grad


def _changed_result(lib: Any, x: Any) -> Any:
    y = x * 2
    y[0] = x[1] * 3
    y += 1
    y[1:].mul_(2)
    (y * y).sum().backward()
    return x.grad


def _constant_becomes_result(lib: Any, x: Any) -> Any:
    total = lib.zeros(3)
    for row in x:
        total += row * row
    total.sum().backward()
    return x.grad


def _changed_leaf(lib: Any, x: Any) -> Any:
    for _ in range(3):
        x.grad = None
        (x**2).sum().backward()
        with lib.no_grad():
            x -= 0.1 * x.grad
            x[0].mul_(0.5)
            x.T[1] += 1
    (x**3).sum().backward()
    return x.grad + x.detach()


def _read(lib: Any, x: Any) -> Any:
    y = x * x
    y.sum().item(), y.tolist()
    z = y.sin()
    str(z)
    z.sum().backward()
    return x.grad


def _decorated(lib: Any, x: Any) -> Any:
    scale = lib.no_grad()(lambda x: x * x)
    (scale(x) * x).sum().backward()
    return x.grad


def _data(lib: Any, x: Any) -> Any:
    x.data += 1
    x.data = x.data * 2
    (x * x.data).sum().backward()
    return x.grad


def _retained_results(lib: Any, x: Any) -> Any:
    for _ in range(3):  # The later passes use the template of the first one.
        x.grad = None
        y, z = x.exp(), x * 2
        total = y + z
        for each in (y, total, total, x):
            each.retain_grad()
        (total * total + y).sum().backward()
        assert [each.retains_grad for each in (x, y, z, total)] == [False, True, False, True]
        (x.exp() + x * 2).sum().backward()  # The same structure, without results to retain.
    return lib.cat([x.grad, y.grad, total.grad])


def _retained_of_changed(lib: Any, x: Any) -> Any:
    y = x * 2
    y.retain_grad()
    y.mul_(x)
    view = y[0]
    view.retain_grad()
    loss = (y * y).sum() + view.sin().sum()
    loss.retain_grad()
    loss.backward(retain_graph=True)
    loss.backward()
    return lib.cat([x.grad, y.grad, view.grad[None], loss.grad.expand(1, 3)])


def _set(lib: Any, x: Any) -> Any:
    x.grad = lib.ones(2, 3)
    (x * 2).sum().backward()
    return x.grad


@pytest.mark.parametrize(
    "run",
    [
        _accumulated,
        _given,
        _retained,
        _parts_constant,
        _changed_result,
        _constant_becomes_result,
        _changed_leaf,
        _read,
        _decorated,
        _data,
        _retained_results,
        _retained_of_changed,
        _set,
    ],
)
def test_gradients_are_those_of_pytorch(run: Callable[[Any, Any], Any]) -> None:
    theirs = run(torch, torch.from_numpy(X.copy()).requires_grad_())
    np.testing.assert_allclose(run(nt, leaf()).numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_requires_grad_propagates() -> None:
    x, c = leaf(), nt.ones(3)
    y = x * c
    seen = [(t.requires_grad, t.is_leaf) for t in (x, c, y, y.detach(), y.argmax(), x == 1, x[0], c * 2, y.data)]
    a, b = torch.tensor(X, requires_grad=True), torch.ones(3)
    z = a * b
    theirs = [(t.requires_grad, t.is_leaf) for t in (a, b, z, z.detach(), z.argmax(), a == 1, a[0], b * 2, z.data)]
    assert seen == theirs
    assert x.grad is None
    assert c.grad is None
    for creates in (nt.zeros, nt.ones, nt.randn, nt.rand, nt.empty):
        assert creates(2, 2, requires_grad=True).requires_grad
    assert nt.zeros_like(x, requires_grad=True).is_leaf
    c.requires_grad = True
    assert (c * 2).requires_grad
    c.requires_grad_(False)
    assert not (c * 2).requires_grad
    y.detach_()
    assert not y.requires_grad


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_generators_run_in_the_mode_of_their_decorator(name: str) -> None:
    seen = []
    for lib in (torch, nt):
        w = lib.ones(1, requires_grad=True)

        @getattr(lib, name)()
        def states(lib: Any = lib, w: Any = w) -> Iterator[Any]:
            try:
                sent = yield (w * 2).requires_grad
                yield (w * 2).requires_grad, sent
            except KeyError:
                yield "caught", (w * 2).requires_grad
            finally:
                seen.append((w * 2).requires_grad)
            return "the end"

        for outside in (True, False):
            with lib.set_grad_enabled(outside):
                first, second = states(), states()
                seen.append([next(first), lib.is_grad_enabled(), first.send(7), lib.is_grad_enabled()])
                seen.append([next(second), second.throw(KeyError("x")), lib.is_grad_enabled()])
                with pytest.raises(StopIteration) as end:
                    next(first)
                second.close()
                seen.append([end.value.value, lib.is_grad_enabled()])
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


@pytest.mark.covers("is_grad_enabled", "set_grad_enabled")
def test_modes() -> None:
    x = leaf()
    assert nt.is_grad_enabled()
    with nt.no_grad():
        assert not nt.is_grad_enabled()
        assert not (x * 2).requires_grad
        assert leaf().requires_grad
        with nt.enable_grad():
            assert (x * 2).requires_grad
    with nt.inference_mode():
        assert not (x * 2).requires_grad
    with nt.inference_mode(False):
        assert (x * 2).requires_grad
    with nt.set_grad_enabled(False):
        assert not nt.is_grad_enabled()
    assert nt.is_grad_enabled()
    nt.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    nt.set_grad_enabled(True)
    with pytest.raises(KeyError), nt.no_grad():
        raise KeyError
    assert nt.is_grad_enabled()


@pytest.mark.covers("backward")
def test_invalid_calls() -> None:
    x = leaf()
    with pytest.raises(DTypeError, match="only floats"):
        nt.tensor([1, 2], requires_grad=True)
    with pytest.raises(GradientError, match="does not require a gradient"):
        nt.ones(()).backward()
    with pytest.raises(GradientError, match="needs the argument gradient"):
        (x * 2).backward()
    with pytest.raises(ArgumentError, match=r"the gradient of float32\[2, 3\] cannot be float32\[3\]"):
        (x * 2).backward(nt.ones(3))
    with pytest.raises(GradientError, match="leaves only"):
        (x * 2).requires_grad_(False)
    with pytest.raises(ArgumentError, match="cannot be"):
        x.grad = nt.ones(3)
    with pytest.raises(GradientError, match="leaves that require"):
        nt.ones(2).grad = nt.ones(2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(GradientError, match=r"second time.*retain_graph=True.*test_backward\.py"):
        y.backward()
    for change in (lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), lambda: x[0].zero_(), lambda: x.T.mul_(2)):
        with pytest.raises(GradientError, match="leaf that requires"):
            change()
    assert x.tolist() == X.tolist()
    with pytest.raises(GradientError, match="unique has no derivative"):
        nt.unique(x)


@pytest.mark.parametrize("run", [_retained_results, _retained_of_changed])
def test_a_captured_pass_retains_gradients(run: Callable[[Any, Any], Any]) -> None:
    x = leaf()
    expected = run(nt, leaf()).tolist()

    @nt.jit
    def captured() -> nt.Tensor:
        x.grad = None
        return run(nt, x)

    for _ in range(2):
        assert captured().tolist() == expected


@pytest.mark.parametrize("own_leaf", [True, False])
def test_a_captured_pass_adds_to_a_gradient_of_its_own_tensor(own_leaf: bool) -> None:
    @nt.jit
    def captured(x: nt.Tensor) -> nt.Tensor | None:
        y = x.detach().requires_grad_() if own_leaf else x.detach().requires_grad_() * 1
        y.retain_grad()
        assert y.grad is None
        (y * y).sum().backward()
        return y.grad

    assert [captured(nt.ones(1) * number).tolist() for number in range(3)] == [[0.0], [2.0], [4.0]]
    assert captured.captures == 1


def test_a_captured_pass_sets_the_gradient_of_a_result_from_outside() -> None:
    x = leaf([1.0])
    y = x * 3
    y.retain_grad()
    captured = nt.jit(lambda factor: (y * y * factor).sum().backward(retain_graph=True))
    for number in range(3):
        x.grad = y.grad = None
        captured(nt.ones(1) * number)
        assert (x.grad.tolist(), y.grad.tolist()) == ([18.0 * number], [6.0 * number])


def test_a_constant_has_no_gradient_to_retain() -> None:
    with pytest.raises(GradientError, match="does not require a gradient"):
        nt.ones(2).retain_grad()


def test_a_tensor_that_changes_after_its_use_keeps_the_earlier_gradient() -> None:
    x = leaf([2.0])
    y = x * 1
    z = y * y
    y += 10  # PyTorch refuses backward() now, because it has lost the 2.
    z.sum().backward()
    assert x.grad.tolist() == [4.0]


def test_memory_is_freed() -> None:
    x = leaf(np.ones((256, 256)))
    x.realize()

    def pass_through() -> None:
        y = x
        for _ in range(8):
            y = (y @ x).tanh()
            y.realize()
        y.sum().backward()
        x.grad.realize()
        x.grad = None

    for _ in range(3):  # Plans keep memory.
        pass_through()
    gc.collect()
    before = nt.memory_stats()["in_use"]
    for _ in range(3):
        pass_through()
        gc.collect()
        assert nt.memory_stats()["in_use"] == before


def test_functions_and_backward_are_one_graph() -> None:
    x = leaf([1.0, 2.0])
    penalty = nt.grad(lambda x: (x**3).sum())(x).sum()
    penalty.backward()
    np.testing.assert_allclose(x.grad.numpy(), [6.0, 12.0])
    w, v = leaf([3.0]), nt.tensor([2.0])
    value, gradient = nt.value_and_grad(lambda v: (w * v * v).sum())(v)
    assert value.requires_grad
    gradient.sum().backward()
    assert w.grad.tolist() == [4.0]
    assert not nt.grad(lambda v: (v * v).sum())(v).requires_grad


# --- jit


def test_results_of_jit_can_be_differentiated() -> None:
    w = leaf([2.0])
    double = nt.jit(lambda x: x * w)
    for _ in range(2):
        x = leaf([3.0])
        double(x).sum().backward()
        assert x.grad.tolist() == [2.0]
        double(nt.tensor([5.0])).sum().backward()
    assert w.grad.tolist() == [16.0]
    with nt.no_grad():
        assert [double(nt.tensor([5.0])).requires_grad for _ in range(2)] == [False, False]
    assert double(nt.tensor([5.0])).requires_grad


def test_a_captured_pass_is_right_at_each_call() -> None:
    x, w, v = leaf(), nt.ones(3, 2, requires_grad=True), nt.ones(2, requires_grad=True)

    @nt.jit
    def both(data: nt.Tensor) -> nt.Tensor:
        w.grad = v.grad = None
        h = (data @ w).tanh()
        (h @ v).sum().backward(retain_graph=True)
        (h * h).sum().backward()
        return h.sum().detach()

    drawn = np.random.default_rng(0)
    for _ in range(4):
        data = drawn.standard_normal((4, 3)).astype(np.float32)
        both(nt.from_numpy(data))
        theirs = [torch.ones(3, 2, requires_grad=True), torch.ones(2, requires_grad=True)]
        h = (torch.from_numpy(data) @ theirs[0]).tanh()
        ((h @ theirs[1]).sum() + (h * h).sum()).backward()
        for own, other in zip((w, v), theirs, strict=True):
            np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert both.captures == 1
    assert x.grad is None


def test_captured_gradients_accumulate() -> None:
    w = leaf([2.0])
    w.grad = nt.zeros(1)
    add = nt.jit(lambda x: (w * x).sum().backward())
    for _ in range(3):
        add(nt.ones(1))
    assert w.grad.tolist() == [3.0]
    w.grad = nt.tensor([10.0])  # A new tensor.
    add(nt.ones(1))
    assert w.grad.tolist() == [11.0]
    w.grad = None
    fresh = nt.jit(lambda x: (w * x).sum().backward())
    fresh(nt.ones(1))
    with pytest.raises(CaptureError, match="zero_grad"):
        fresh(nt.ones(1))
    assert w.grad.tolist() == [1.0]


@pytest.mark.parametrize("viewed", [False, True])
def test_a_frozen_leaf_keeps_its_gradient(viewed: bool) -> None:
    """The parameters of a discriminator are frozen while the generator is trained."""
    seen = []
    for lib in (nt, torch):
        w = lib.ones(2, requires_grad=True)
        view = w.detach()[:1] if viewed else lib.zeros(1)
        before = (w * 5).sum()
        (w * 3).sum().backward()
        w.requires_grad = False
        before.backward()  # Reaches no leaf.
        seen += [w.grad.tolist(), w.requires_grad, (w * 2).requires_grad]
        view += 1  # The value is derived again afterwards.
        seen += [w.tolist(), w.requires_grad]
        w.requires_grad = True
        (w * 2).sum().backward()
        seen += [w.grad.tolist(), w.requires_grad]
        w.detach_()
        seen += [w.grad.tolist()]
        w.grad = None
        seen += [w.grad, w.requires_grad_().grad]
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_async_functions_are_not_decorated_with_a_mode() -> None:
    async def wait() -> None: ...

    async def count() -> Any:
        yield 1

    for function in (wait, count):
        with pytest.raises(TypeError, match=r"no_grad cannot decorate an async function; write `with no_grad\(\):`"):
            nt.no_grad()(function)
