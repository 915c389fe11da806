"""Values of captured functions that depend only on constants and weights: computed once, and again after a change."""

import random
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor import events

torch = pytest.importorskip("torch", reason="PyTorch, the oracle, cannot be imported")


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _prepared(function: Callable[..., Any], *args: nt.Tensor) -> list[str]:
    return [row["op"] for row in nt.jit(function).explain(*args).rows if row["why"].startswith("prepared once")]


def _changes(lib: Any, parameter: Any) -> dict[str, Callable[[], None]]:
    def write_data() -> None:
        parameter.data = lib.full((4, 4), 3.0)

    def write_view() -> None:
        with lib.no_grad():
            parameter.reshape(16)[3:9] = 0.25

    def step() -> None:
        optimizer = lib.optim.SGD([parameter], lr=0.5)
        (parameter * parameter).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def add() -> None:
        with lib.no_grad():
            parameter.add_(1)

    return {"add_": add, "data": write_data, "view": write_view, "optimizer": step}


@pytest.mark.parametrize("change", ["add_", "data", "view", "optimizer"])
def test_a_prepared_value_follows_its_parameter(change: str) -> None:
    results = []
    for lib in (torch, nt):
        parameter = lib.nn.Parameter(lib.arange(16).float().reshape(4, 4) / 16)

        def function(x: Any, lib: Any = lib, parameter: Any = parameter) -> Any:
            with lib.no_grad():
                return x @ (parameter.exp() * 2).t() + lib.arange(4).float().sqrt()

        captured = nt.jit(function) if lib is nt else function
        x = lib.ones(3, 4)
        seen = [captured(x).tolist(), captured(x).tolist()]
        _changes(lib, parameter)[change]()
        results.append([*seen, captured(x).tolist(), captured(x).tolist()])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_prepared_values_follow_a_loaded_state() -> None:
    model = nt.nn.Sequential(nt.nn.Conv2d(2, 3, 1), nt.nn.BatchNorm2d(3)).eval()
    state = {name: nt.rand(*value.shape) + 1 for name, value in model.state_dict().items() if value.ndim}
    state["1.num_batches_tracked"] = nt.tensor(0)
    x = nt.rand(1, 2, 4, 4)
    with nt.no_grad():
        captured = nt.jit(lambda x: model(x))
        captured(x)
        model.load_state_dict(state)
        np.testing.assert_allclose(captured(x).numpy(), model(x).numpy(), rtol=1e-5)


def test_what_depends_on_weights_and_constants_alone_runs_once() -> None:
    variance, mean = nt.rand(8), nt.rand(8)
    function = nt.jit(lambda x: (x - mean) * (variance + 1e-5).rsqrt() + nt.arange(8).exp().sum())
    x = nt.rand(4, 8)
    function(x)
    variance.realize()
    counts = []
    for change in (lambda: None, lambda: variance.add_(1).realize(), lambda: None):
        change()
        with heard(events.KernelRan) as ran:
            function(x)
        counts.append(len(ran))
    assert counts[0] == counts[2] == 1
    assert counts[1] > 1


def test_explain_names_what_is_prepared() -> None:
    weight = nt.rand(4, 4)
    assert _prepared(lambda x: x @ weight.exp() + 1, nt.rand(2, 4)) == ["exp"]


@pytest.mark.parametrize("view", [lambda y: y, lambda y: y.reshape(2, 2), lambda y: y[1:]])
def test_results_can_be_changed_without_changing_what_is_kept(view: Callable[[nt.Tensor], nt.Tensor]) -> None:
    weight = nt.ones(4)

    @nt.jit
    def function(x: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        doubled = weight * 2
        return view(doubled), x + (doubled + 1)

    for _ in range(3):
        constant, result = function(nt.zeros(4))
        assert constant.flatten().tolist() == [2.0] * constant.numel()
        assert result.tolist() == [3.0] * 4
        constant += 5
        result.zero_()

        @nt.jit
        def overwrite(constant: nt.Tensor = constant) -> None:
            constant.mul_(7)

        overwrite()
        overwrite()


def test_written_tensors_and_their_views_are_not_prepared() -> None:
    def run(lib: Any, jit: Callable[[Any], Any]) -> list[Any]:
        state, frozen = lib.ones(4), lib.ones(4)
        part = state[1:3]

        @jit
        def step(x: Any) -> Any:
            result = x[:2] * (part * 2) + (frozen * 3).sum()
            state.add_(1)
            return result + (state * 2)[:2]

        return [step(lib.ones(4)).tolist() for _ in range(4)] + [state.tolist()]

    assert run(nt, nt.jit) == run(torch, _plain)


def test_seeds_are_not_prepared_but_what_is_drawn_from_a_weight_follows_it() -> None:
    weight = nt.ones(4)
    function = nt.jit(lambda x: x + nt.bernoulli(weight * 0.5) + nt.rand(4).exp())
    assert len({tuple(function(nt.zeros(4)).tolist()) for _ in range(4)}) == 4


def test_a_failed_preparation_is_tried_again() -> None:
    table, index = nt.arange(4.0), nt.tensor([9])
    function = nt.jit(lambda x: x + table[index].exp())
    for _ in range(2):
        with pytest.raises(IndexError):
            function(nt.zeros(1))
    index.zero_()
    assert function(nt.zeros(1)).tolist() == [1.0]


def test_a_write_that_fails_later_is_followed() -> None:
    weight, table, index = nt.ones(1 << 16), nt.arange(4.0), nt.tensor([0])
    read = nt.jit(lambda x: x + weight.sum())

    @nt.jit
    def step(x: nt.Tensor) -> nt.Tensor:
        weight.mul_(2)
        return table[index] + weight.sum() * x

    step(nt.zeros(1))
    index.fill_(9)
    for _ in range(2):
        read(nt.zeros(1))
        with pytest.raises(IndexError):
            step(nt.zeros(1)).tolist()
        assert read(nt.zeros(1)).tolist() == [weight.sum().item()]


def test_threads_see_the_present_weights() -> None:
    weight = nt.zeros(64)
    function = nt.jit(lambda x: x + (weight * 2 + 1))
    function(nt.zeros(64))
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        latest = 0.0
        while not done.is_set():
            value = function(nt.zeros(64)).tolist()
            if len({*value}) != 1 or value[0] < latest:
                wrong.append(value)
            latest = value[0]

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        weight += 1
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert function(nt.zeros(64)).tolist() == [401.0] * 64


# --- random programs


def _program(seed: int) -> Callable[[Any], tuple[Callable[[Any], Any], list[Callable[[], None]]]]:
    """Return a function from a library to a random function of one argument and changes of the tensors it reads."""
    shape = random.Random(seed)
    steps = [(shape.randrange(9), shape.random(), shape.random()) for _ in range(shape.randrange(4, 14))]
    shown = [shape.random() for _ in range(shape.randrange(1, 4))]
    written = shape.choice([None, None, 0, 1, 2])
    changed = [(shape.randrange(4), shape.randrange(3)) for _ in range(5)]

    def build(lib: Any) -> tuple[Callable[[Any], Any], list[Callable[[], None]]]:
        weights = [(lib.arange(16).float().reshape(4, 4) + k) / 20 for k in range(3)]
        view = weights[0][1:3].t()

        def function(x: Any) -> Any:
            values = [*weights, view @ view.t(), x, lib.arange(4).float() / 4]
            for op, first, second in steps:
                a, b = values[int(first * len(values))], values[int(second * len(values))]
                if op == 0:
                    values.append(a + b)
                elif op == 1:
                    values.append(a * b)
                elif op == 2:
                    values.append((a * 0.5).tanh())
                elif op == 3:
                    values.append((a + b).expand(4, 4).t())
                elif op == 4:
                    values.append((a + b).expand(4, 4) @ (b + 0.1).expand(4, 4) / 8)
                elif op == 5:
                    values.append(a.sum(-1, keepdim=True) / 4 + lib.ones(4, 4))
                elif op == 6:
                    values.append((a + b).expand(4, 4).t().reshape(16)[2:6])
                elif op == 7:
                    values.append(lib.flip(a, (-1,)) + b)
                elif written is not None:
                    weights[written].mul_(0.5).add_(a.mean())
                    values.append(weights[written] + b)
            return tuple(values[6 + int(each * (len(values) - 6))] + 0 for each in shown if len(values) > 6)

        def change(kind: int, which: int) -> None:
            if kind == 0:
                weights[which].mul_(0.9)
            elif kind == 1:
                weights[which][1] = 0.5
            elif kind == 2:
                view.add_(0.1)
            else:
                weights[which].data = lib.ones(4, 4) / 3

        return function, [lambda each=each: change(*each) for each in changed]

    return build


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(10, 60, 10))])
def test_random_functions_equal_pytorch_while_tensors_outside_change(first: int) -> None:
    for seed in range(first, first + 10):
        outcomes = []
        for lib, wrap in ((torch, _plain), (nt, nt.jit)):
            function, changes = _program(seed)(lib)
            captured, seen = wrap(function), []
            with torch.no_grad() if lib is torch else nullcontext():
                for change in changes:
                    for _ in range(2):
                        results = captured(lib.arange(4).float())
                        seen += [each.tolist() for each in results]
                        for each in results:
                            each.zero_()
                    change()
            outcomes.append(seen)
        for expected, found in zip(*outcomes, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}")
