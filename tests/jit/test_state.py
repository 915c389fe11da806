"""State outside of captured functions: which tensors they read and change, and the random numbers that they draw."""

import functools
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

torch = pytest.importorskip("torch", reason="PyTorch, the oracle, cannot be imported")


def _share_by_data(tensor: nt.Tensor) -> nt.Tensor:
    other = nt.zeros(1)
    other.data = tensor
    return other


@pytest.mark.parametrize(
    "use",
    [
        lambda tensor: nt.select_scatter(nt.zeros(2, 2), tensor, 0, 1),
        lambda tensor: nt.slice_scatter(nt.zeros(2), tensor, 0),
        lambda tensor: nt.diagonal_scatter(nt.zeros(2, 2), tensor),
        nt.diag_embed,
        nt.nn.Parameter,
        lambda tensor: nt.nn.Parameter(tensor, requires_grad=False),
        _share_by_data,
        lambda tensor: tensor.detach(),
    ],
    ids=["select_scatter", "slice_scatter", "diagonal_scatter", "diag_embed", "Parameter", "frozen", "data", "detach"],
)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("captured", [True, False])
def test_a_tensor_is_read_through_the_handle_that_the_function_names(
    use: Callable[[nt.Tensor], Any], kept: bool, captured: bool
) -> None:
    weight = nt.ones(2)
    other = [] if captured else [use(weight)]
    if not kept:
        other.clear()

    @nt.jit
    def function(x: nt.Tensor) -> nt.Tensor:
        if captured:
            use(weight)
        return x * weight

    assert function(nt.ones(2)).tolist() == [1, 1]
    with nt.no_grad():
        weight += 1
    assert function(nt.ones(2)).tolist() == [2, 2]
    weight.copy_(nt.tensor([5.0, 6.0]))
    assert function(nt.ones(2)).tolist() == [5, 6]


def test_data_shares_memory_as_in_pytorch() -> None:
    for library in (torch, nt):
        weight, other = library.ones(2), library.zeros(2)
        other.data = weight
        function = nt.jit(lambda x, weight=weight: x * weight) if library is nt else lambda x, weight=weight: x * weight
        seen = [function(library.ones(2)).tolist()]
        weight += 1
        seen.append(function(library.ones(2)).tolist())
        other.zero_()
        seen.append(function(library.ones(2)).tolist())
        assert seen == [[1, 1], [2, 2], [0, 0]]


@pytest.mark.parametrize("library", [torch, nt])
def test_data_takes_views_shapes_and_dtypes_as_in_pytorch(library: Any) -> None:
    parameter = library.nn.Parameter(library.arange(6).float().reshape(2, 3))
    parameter.data = parameter.data.t()
    assert parameter.tolist() == [[0, 3], [1, 4], [2, 5]]
    parameter.data = parameter.data[:1]
    assert tuple(parameter.shape) == (1, 2)
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [[2, 2]]
    assert parameter.is_leaf
    assert parameter.requires_grad
    parameter.data = parameter.data.bfloat16()
    assert parameter.dtype is library.bfloat16
    with pytest.raises(TypeError):
        parameter.data = [1.0]


@pytest.mark.parametrize(
    "pass_argument", [lambda w: w, lambda w: w[:2], lambda w: w.reshape(2, 2), lambda w: w.detach()]
)
def test_an_argument_that_shares_memory_with_changed_state_sees_the_change(
    pass_argument: Callable[[Any], Any],
) -> None:
    def run(library: Any, jit: Callable[[Any], Any]) -> list[Any]:
        state = library.zeros(4)

        @jit
        def function(x: Any) -> Any:
            state.add_(1)
            return x * 2

        given = [pass_argument(state), pass_argument(state), library.ones(2)]
        return [function(each).tolist() for each in given] + state.tolist()

    assert run(nt, nt.jit) == run(torch, lambda function: function)


@pytest.mark.parametrize("change", ["t_", "transpose_", "unsqueeze_", "squeeze_"])
def test_a_shape_changed_in_place_outside_is_followed(change: str) -> None:
    arguments = {"t_": (), "transpose_": (0, 1), "unsqueeze_": (0,), "squeeze_": ()}[change]
    results = []
    for library in (torch, nt):
        weight = library.arange(6.0).reshape(1, 6).clone()
        function = (nt.jit if library is nt else lambda f: f)(lambda x, weight=weight: x * weight + weight.shape[0])
        function(library.ones(1))
        getattr(weight, change)(*arguments)
        results.append(function(library.ones(1)).tolist())
    assert results[0] == results[1]


# --- random numbers


@pytest.mark.parametrize(
    "body",
    [
        nt.nn.functional.dropout,
        lambda x: x * nt.rand(8),
        lambda x: x + nt.randn(8),
        lambda x: x + nt.bernoulli(x * 0.5),
        lambda x: (x[:3] + nt.randperm(3), nt.rand(2)),
        lambda x: nt.multinomial(x, 3),
        lambda x: nt.rrelu(-x, training=True),
        lambda x: nt.rand(3),
    ],
)
def test_random_numbers_are_drawn_anew_at_each_call(body: Callable[[nt.Tensor], Any]) -> None:
    def run(function: Callable[[nt.Tensor], Any], seed: int) -> list[Any]:
        nt.manual_seed(seed)
        drawn = [function(nt.ones(8)) for _ in range(5)]
        return [[part.tolist() for part in (each if isinstance(each, tuple) else (each,))] for each in drawn]

    captured = nt.jit(body)
    for seed in (1, 2, 1):
        expected = run(body, seed)
        assert run(captured, seed) == expected
        assert any(each != expected[0] for each in expected)
    assert captured.captures == 1


def test_generators_are_drawn_from_in_order() -> None:
    def body(x: nt.Tensor, generator: nt.Generator) -> nt.Tensor:
        nt.rand(2, generator=generator)  # not read
        own = nt.Generator(7)
        return x + nt.rand(2, generator=generator) + nt.rand(2) + nt.rand(2, generator=own)

    def run(function: Callable[..., nt.Tensor]) -> list[Any]:
        nt.manual_seed(0)
        generator = nt.Generator(3)
        return [function(nt.zeros(2), generator).tolist() for _ in range(3)]

    assert run(nt.jit(body)) == run(body)


# --- threads


def test_arrays_do_not_change_under_captured_writes_of_another_thread() -> None:
    cache, changed, torn, done = nt.zeros(64, 8), [0], [0], threading.Event()

    @nt.jit
    def write(index: nt.Tensor, row: nt.Tensor) -> nt.Tensor:
        cache[index] = row
        return cache.sum()

    def read() -> None:
        while not done.is_set():
            array = cache.numpy()
            before = array.copy()
            doubled = (cache * 2).numpy()
            changed[0] += not np.array_equal(array, before)
            torn[0] += bool((doubled != doubled[:, :1]).any())

    write(nt.tensor([0]), nt.zeros(1, 8))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=read) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for number in range(1500):
            write(nt.tensor([number % 64]), nt.full((1, 8), float(number)))
    finally:
        sys.setswitchinterval(interval)
        done.set()
        for thread in threads:
            thread.join()
    assert (changed, torn) == ([0], [0])
    assert cache[:, 0].tolist() == [1472 + row if row < 28 else 1408 + row for row in range(64)]


# --- what can be captured


class _Scale:
    def __call__(self, x: nt.Tensor) -> nt.Tensor:
        return x * 3


@pytest.mark.parametrize(
    "function", [functools.partial(lambda x, factor: x * factor, factor=3), _Scale(), nt.nn.Softplus(), nt.nn.ReLU()]
)
def test_partials_modules_and_callables_warn_of_many_captures(function: Callable[[nt.Tensor], nt.Tensor]) -> None:
    captured = nt.jit(function)
    for extent in range(1, 9):
        assert captured(nt.ones(extent)).tolist() == function(nt.ones(extent)).tolist()
    with pytest.warns(UserWarning, match="has been captured 9 times"):
        captured(nt.ones(9))


def test_values_that_cannot_be_captured_are_named() -> None:
    with pytest.raises(TypeError, match="cannot take or return a generator"):
        nt.jit(lambda x: (each for each in [x]))(nt.ones(2))

    with pytest.raises(TypeError, match="jit cannot take or return set, which is not hashable"):
        nt.jit(lambda x: {x})(nt.ones(2))
    with pytest.raises(TypeError, match="jit cannot take or return bytearray"):
        nt.jit(lambda x, y: x)(nt.ones(2), bytearray(2))


def test_the_default_dtype_is_followed() -> None:
    function = nt.jit(lambda x: x + nt.ones(2))
    assert function(nt.ones(2)).dtype is nt.float32
    x = nt.ones(2)
    try:
        nt.set_default_dtype(nt.float64)
        assert function(x).dtype is nt.float64
    finally:
        nt.set_default_dtype(nt.float32)
    assert function(x).dtype is nt.float32


# --- reading state while a captured function writes it

READ_IN_A_HANDLER = """
import signal
import npu_tensor as nt
weight, seen = nt.zeros(500, 500), []
@nt.jit
def step():
    weight.mul_(0.5).add_(1)
step(); step()
signal.signal(signal.SIGALRM, lambda *_: seen.append(weight.sum().item()))
for _ in range(30):
    count = len(seen)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while len(seen) == count:
        step()
print("read", len(seen))
"""


def test_signal_handlers_read_what_a_captured_function_writes() -> None:
    command = [sys.executable, "-c", READ_IN_A_HANDLER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("read 30\n", 0), done.stderr


# --- gradients and options of training steps


def test_captured_steps_follow_gradients_freezing_and_groups() -> None:
    def run(library: Any, jit: Callable[[Any], Any]) -> list[float]:
        weight = library.ones(1).requires_grad_()
        optimizer = library.optim.SGD([weight], lr=0.1)
        step, values = jit(optimizer.step), []

        def stepped() -> None:
            step()
            values.append(weight.item())

        stepped()
        (weight * 2).sum().backward()
        stepped()
        weight.grad = None
        stepped()
        (weight * 2).sum().backward()
        stepped()
        weight.requires_grad_(False)
        stepped()
        weight.requires_grad_(True)
        stepped()
        optimizer.param_groups = [optimizer.param_groups[0] | {"lr": 0.5}]
        stepped()
        return values

    np.testing.assert_allclose(run(nt, nt.jit), run(torch, lambda function: function), rtol=1e-6)


def test_data_of_a_tensor_from_outside_is_assigned_in_a_capture() -> None:
    target, source = nt.zeros(2), nt.ones(2)

    @nt.jit
    def function() -> nt.Tensor:
        target.data = source
        source.add_(1)
        return target + 0

    assert [function().tolist() for _ in range(2)] == [[1, 1], [2, 2]]
    assert (target.tolist(), source.tolist()) == ([2, 2], [3, 3])


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer: optimizer.state.clear(),
        lambda optimizer: setattr(optimizer, "state", defaultdict(dict)),
        lambda optimizer: optimizer.param_groups[0].update(weight_decay=0.5),
        lambda optimizer: optimizer.param_groups[0].update(maximize=True),
        lambda optimizer: optimizer.param_groups[0].update(momentum=0),
        lambda optimizer: optimizer.param_groups[0].update(lr=0.3),
    ],
    ids=["clear", "state", "weight_decay", "maximize", "momentum", "lr"],
)
def test_captured_steps_follow_state_and_options(change: Callable[[Any], Any]) -> None:
    def run(library: Any, jit: Callable[[Any], Any]) -> float:
        weight = library.ones(1).requires_grad_()
        optimizer = library.optim.SGD([weight], lr=0.1, momentum=0.9)

        @jit
        def step() -> None:
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()

        for _ in range(2):
            step()
        change(optimizer)
        for _ in range(2):
            step()
        return weight.item()

    assert run(nt, nt.jit) == pytest.approx(run(torch, lambda function: function))


def test_a_write_to_a_copy_that_is_a_view_in_a_plain_call_is_refused() -> None:
    def lost(x: nt.Tensor, i: nt.Tensor) -> nt.Tensor:
        row = x.clone()
        element = row[i]
        element += 1
        return row

    def stored(x: nt.Tensor, i: nt.Tensor) -> nt.Tensor:
        row = x.clone()
        row[i] += 1
        return row

    index = nt.tensor(1)
    assert lost(nt.zeros(3), index).tolist() == [0, 1, 0]
    with pytest.raises(nt.CaptureError, match=r"does not change x, at test_state.py:\d+: element \+= 1"):
        nt.jit(lost)(nt.zeros(3), index)
    assert nt.jit(stored)(nt.zeros(3), index).tolist() == [0, 1, 0]
    assert nt.jit(lambda x, i: x[i] * 2)(nt.arange(3.0), index).item() == 2


@pytest.mark.parametrize("make", [lambda m: nt.jit(m), lambda m: nt.jit(lambda x: m(x))], ids=["module", "function"])
def test_each_training_mode_has_a_capture(make: Any) -> None:
    model = nt.nn.Sequential(nt.nn.Linear(4, 4), nt.nn.BatchNorm1d(4), nt.nn.Dropout(0.5))
    captured, x = make(model), nt.rand(8, 4)
    with nt.no_grad():
        for _ in range(2):
            model.train()
            assert not nt.equal(captured(x), captured(x))
            model.eval()
            mean = model[1].running_mean.tolist()
            np.testing.assert_allclose(captured(x).numpy(), model(x).numpy(), rtol=1e-6)
            assert nt.equal(captured(x), captured(x))
            assert model[1].running_mean.tolist() == mean
    assert captured.captures == 2


def test_modules_that_the_function_makes_do_not_prevent_replays() -> None:
    captured = nt.jit(lambda x: nt.nn.Dropout(0.5)(x))
    assert not nt.equal(captured(nt.ones(64)), captured(nt.ones(64)))
    assert captured.captures == 1


def test_calls_with_and_without_gradients_alternate() -> None:
    """A replay of the latest signature must not take arguments that need gradients, while leaves exist."""

    def program(lib: Any, function: Callable[[Any], Any]) -> list[Any]:
        leaf = lib.ones(1).requires_grad_()
        results: list[Any] = [leaf.requires_grad]
        for needed, enabled in [*product([False, True], repeat=2)] * 2 + [(False, True), (True, True), (True, False)]:
            x = lib.tensor([1.0, 2.0]).requires_grad_(needed)
            with nullcontext() if enabled else lib.no_grad():
                y = function(x)
            if y.requires_grad:
                y.sum().backward()
            results.append((y.tolist(), y.requires_grad, None if x.grad is None else x.grad.tolist()))
        return results

    def cubed(x: Any) -> Any:
        return x * x * x

    captured = nt.jit(cubed)
    assert program(nt, captured) == program(torch, cubed)
    assert captured.captures == 2  # with gradients enabled, and without


def test_a_function_that_reads_the_mode_of_gradients() -> None:
    """Without leaves, replays are the same in both modes for all other functions."""
    captured = nt.jit(lambda x: x * 2 if nt.is_grad_enabled() else x * 3)
    for _ in range(3):
        assert captured(nt.ones(1)).item() == 2
        with nt.no_grad():
            assert captured(nt.ones(1)).item() == 3
