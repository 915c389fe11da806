"""Optimizers and schedules against PyTorch's: loss curves of an MLP, states, and captured steps."""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

torch = pytest.importorskip("torch")

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd momentum": ("SGD", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd dampening": ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.3}),
    "sgd nesterov": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam decay": ("Adam", {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.99)}),
    "adam amsgrad": ("Adam", {"lr": 0.01, "amsgrad": True, "betas": (0.5, 0.6)}),
    "adamw": ("AdamW", {"lr": 0.01}),
    "adamw amsgrad": ("AdamW", {"lr": 0.01, "amsgrad": True, "betas": (0.5, 0.6)}),
    "rmsprop": ("RMSprop", {"lr": 0.002}),
    "rmsprop centered": ("RMSprop", {"lr": 0.002, "momentum": 0.5, "centered": True, "weight_decay": 0.01}),
}
SHAPES = ((8, 16), (16,), (16, 1))


def _arrays(dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    drawn = np.random.default_rng(1)
    return [(0.4 * drawn.standard_normal(shape)).astype(dtype) for shape in SHAPES]


def _data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    drawn = np.random.default_rng(0)
    x = drawn.standard_normal((32, 8), np.float32)
    return x, np.sin(x.sum(1, keepdims=True))


def _parameters(lib: Any, dtype: str = "float32") -> list[Any]:
    make = lib.from_numpy
    return [make(array).requires_grad_() for array in _arrays(dtype)]


def _step(parameters: list[Any], optimizer: Any) -> Callable[[Any, Any], Any]:
    w, b, v = parameters

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = (((x @ w + b).tanh() @ v - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _curve(lib: Any, step: Callable[[Any, Any], Any], count: int = 100, each: Any = None) -> list[float]:
    x, y = map(lib.from_numpy, _data())
    losses = []
    for _ in range(count):
        losses.append(step(x, y).item())
        if each is not None:
            each.step()
    return losses


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("case", OPTIMIZERS)
def test_losses_are_those_of_pytorch(case: str, captured: bool) -> None:
    name, options = OPTIMIZERS[case]
    ours, theirs = _parameters(nt), _parameters(torch)
    step = _step(ours, getattr(nt.optim, name)(ours, **options))
    jitted = nt.jit(step)
    expected = _curve(torch, _step(theirs, getattr(torch.optim, name)(theirs, **options)))
    np.testing.assert_allclose(_curve(nt, jitted if captured else step), expected, rtol=1e-3)
    assert expected[-1] < 0.8 * expected[0]
    assert jitted.captures == captured
    for own, other in zip(ours, theirs, strict=True):
        assert own.requires_grad
        np.testing.assert_allclose(own.numpy(), other.detach().numpy(), rtol=1e-2, atol=1e-4)
        np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=5e-2, atol=1e-4)


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "step": lambda lib, optimizer: lib.StepLR(optimizer, 7, 0.5),
    "multi-step": lambda lib, optimizer: lib.MultiStepLR(optimizer, [12, 3, 12, 30], 0.5),
    "exponential": lambda lib, optimizer: lib.ExponentialLR(optimizer, 0.9),
    "cosine": lambda lib, optimizer: lib.CosineAnnealingLR(optimizer, 20, 0.001),
    "linear": lambda lib, optimizer: lib.LinearLR(optimizer, 0.1, total_iters=10),
    "constant": lambda lib, optimizer: lib.ConstantLR(optimizer, 0.25, total_iters=7),
    "polynomial": lambda lib, optimizer: lib.PolynomialLR(optimizer, total_iters=30, power=1.5),
    "lambda": lambda lib, optimizer: lib.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    "one cycle": lambda lib, optimizer: lib.OneCycleLR(optimizer, 0.05, total_steps=31),
    "one cycle linear": lambda lib, optimizer: lib.OneCycleLR(
        optimizer, 0.05, epochs=4, steps_per_epoch=8, anneal_strategy="linear", pct_start=0.4
    ),
    "sequence": lambda lib, optimizer: lib.SequentialLR(
        optimizer, [lib.LinearLR(optimizer, 0.1, total_iters=5), lib.StepLR(optimizer, 10)], [5]
    ),
    "sequence to polynomial": lambda lib, optimizer: lib.SequentialLR(
        optimizer, [lib.ConstantLR(optimizer), lib.ConstantLR(optimizer, 0.5), lib.PolynomialLR(optimizer, 9)], [4, 12]
    ),
}


CHAINS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in SCHEDULES},
    "linear and step": ("linear", "step"),
    "cosine and linear": ("cosine", "linear"),
    "step and cosine": ("step", "cosine"),
    "step and lambda": ("step", "lambda"),
    "constant and polynomial": ("constant", "polynomial"),
    "multi-step and exponential": ("multi-step", "exponential"),
    "three": ("step", "linear", "cosine"),
}


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("schedules", CHAINS.values(), ids=CHAINS)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
def test_rates_are_those_of_pytorch(schedules: tuple[str, ...], halved: bool) -> None:
    rates = []
    for lib in (nt, torch):
        optimizer = lib.optim.Adam(_parameters(lib), lr=0.02)
        chosen = [SCHEDULES[each](lib.optim.lr_scheduler, optimizer) for each in schedules]
        rates.append([])
        for step in range(50 if "one" not in schedules[0] else 30):
            group = optimizer.param_groups[0]
            if halved and step == 4:
                group["lr"] /= 2
            rates[-1].append([group["lr"], *group["betas"], *(each.get_last_lr()[0] for each in chosen)])
            for each in chosen:
                each.step()
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
def test_a_schedule_goes_on_from_a_state(schedule: str) -> None:
    """Compare states of both libraries, loaded from objects and from text."""

    def begun(lib: Any) -> tuple[Any, Any]:
        optimizer = lib.optim.SGD(_parameters(lib), lr=0.02, momentum=0.5)
        return optimizer, SCHEDULES[schedule](lib.optim.lr_scheduler, optimizer)

    states, rates = [], []
    for lib in (nt, torch):
        optimizer, chosen = begun(lib)
        for _ in range(12):
            chosen.step()
        states.append(pickle.dumps((optimizer.state_dict(), chosen.state_dict())))
        rates.append([])
        for _ in range(12):
            chosen.step()
            rates[-1].append([optimizer.param_groups[0][name] for name in ("lr", "momentum")])
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9)
    for lib, state in ((nt, states[0]), (nt, states[1]), (torch, states[0])):
        optimizer, chosen = begun(lib)
        for own, loaded in zip((optimizer, chosen), pickle.loads(state), strict=True):
            own.load_state_dict(loaded)
        gone_on = []
        for _ in range(12):
            chosen.step()
            gone_on.append([optimizer.param_groups[0][name] for name in ("lr", "momentum")])
        np.testing.assert_allclose(gone_on, rates[0], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"mode": "max", "factor": 0.5, "patience": 0, "threshold": 0.2, "threshold_mode": "abs", "cooldown": 2},
        {"patience": 0, "min_lr": 0.004, "threshold": 0.1},
        {"mode": "max", "patience": 0, "eps": 1e-3, "factor": 0.7},
    ],
)
def test_rates_on_a_plateau(options: dict[str, Any]) -> None:
    metrics = np.random.default_rng(0).uniform(0.5, 2, 30).round(2)
    rates = []
    for lib in (nt, torch):
        optimizer = lib.optim.SGD(_parameters(lib), lr=0.02)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates.append([])
        for metric in metrics:
            schedule.step(lib.tensor(float(metric)))
            rates[-1].append([optimizer.param_groups[0]["lr"], *schedule.get_last_lr()])
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-12)
    assert len({rate for rate, _ in rates[0]}) > 1


def test_a_schedule_of_the_program() -> None:
    for lib in (nt, torch):

        class Harmonic(lib.optim.lr_scheduler.LRScheduler):  # type: ignore[name-defined, misc]
            def get_lr(self) -> list[float]:
                return [base / (1 + self.last_epoch) for base in self.base_lrs]

        optimizer = lib.optim.SGD(_parameters(lib), lr=1.0)
        schedule = Harmonic(optimizer)
        optimizer.step()
        rates = [optimizer.param_groups[0]["lr"]]
        for _ in range(3):
            schedule.step()
            rates += schedule.get_last_lr()
        assert rates == [1, 1 / 2, 1 / 3, 1 / 4]
        optimizer.param_groups[0].pop("initial_lr")
        with pytest.raises(KeyError, match="initial_lr"):
            Harmonic(optimizer, last_epoch=3)
    with pytest.raises(NotImplementedError, match="LRScheduler defines no get_lr"):
        nt.optim.lr_scheduler.LRScheduler(optimizer)
    with pytest.raises(NotImplementedError, match="Optimizer defines neither"):
        nt.optim.Optimizer([nt.ones(1, requires_grad=True)], {}).step()


def test_an_optimizer_of_the_program() -> None:
    results = []
    for lib in (nt, torch):

        class Sign(lib.optim.Optimizer):  # type: ignore[name-defined, misc]
            def __init__(self, params: Any, lr: float) -> None:
                super().__init__(params, {"lr": lr, "extra": -1})

            def step(self, closure: Any = None) -> None:
                for group in self.param_groups:
                    for each in group["params"]:
                        if each.grad is not None:
                            self.state[each]["count"] = self.state[each].get("count", 0) + 1
                            each.data.add_(each.grad.sign(), alpha=-group["lr"])

        parameters = _parameters(lib)
        optimizer = Sign(parameters, 0.01)
        losses = _curve(lib, _step(parameters, optimizer), 5)
        state = optimizer.state_dict()
        assert state["state"] == {number: {"count": 5} for number in range(3)}
        other = Sign(_parameters(lib), 1.0)
        other.load_state_dict(state)
        assert other.param_groups[0]["lr"] == 0.01
        assert [own["count"] for own in other.state.values()] == [5] * 3
        results.append(losses)
    np.testing.assert_allclose(*results, rtol=1e-4)


def test_a_rule_of_the_program_writes_as_in_place_ops_do() -> None:
    def steps(rule: Any, parameter: nt.Tensor) -> nt.optim.Optimizer:
        class Own(nt.optim.SGD):
            pass

        Own.rule = staticmethod(rule)
        optimizer = Own([parameter], lr=0.1)
        (parameter * nt.arange(1.0, 1.0 + parameter.numel())).sum().backward()
        optimizer.step()
        return optimizer

    def lookahead(p: Any, g: Any, slots: Any, options: Any) -> Any:
        new = p - g * 0.1
        return new, {"slow": new}

    parameter = nt.ones(2, requires_grad=True)
    slow = steps(lookahead, parameter).state[parameter]["slow"]
    assert not slow.requires_grad
    slow.mul_(2.0)
    np.testing.assert_allclose(parameter.tolist(), [0.9, 0.8])
    np.testing.assert_allclose(slow.tolist(), [1.8, 1.6])

    with pytest.raises(nt.ShapeError, match=r"cannot change \[2\] to \[\]"):
        steps(lambda p, g, slots, options: ((p - g).sum(), {}), nt.ones(2, requires_grad=True))
    with pytest.raises(nt.ArgumentError, match="expanded"):
        steps(lookahead, nt.ones(1).expand(3).requires_grad_())


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "numpy": lambda lib, group: group.update(lr=np.float32(0.1)),
    "tensor": lambda lib, group: group.update(lr=lib.tensor(0.1)),
    "update": lambda lib, group: group.update(lr=0.1, weight_decay=0.1),
    "integer": lambda lib, group: group.__setitem__("lr", 1),
    "momentum": lambda lib, group: group.__setitem__("momentum", 0.9),
    "nesterov": lambda lib, group: group.update(momentum=0.9, nesterov=True),
    "dampening": lambda lib, group: group.update(momentum=0.9, dampening=0.5),
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_options_are_read_at_each_step(change: str, captured: bool) -> None:
    curves = []
    for lib in (nt, torch):
        parameters = _parameters(lib)
        optimizer = lib.optim.SGD(parameters, lr=0.01)
        step = _step(parameters, optimizer)
        first = nt.jit(step) if captured and lib is nt else step
        losses = _curve(lib, first, 3)
        CHANGES[change](lib, optimizer.param_groups[0])
        # A captured step has fixed terms.
        again = "momentum" in optimizer.param_groups[0] and optimizer.param_groups[0]["momentum"]
        again = again or optimizer.param_groups[0]["weight_decay"]
        second = nt.jit(step) if captured and lib is nt and again else first
        curves.append(losses + _curve(lib, second, 4))
        assert not captured or lib is torch or second.captures == 1
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", ["SGD", "RMSprop", "AdamW"])
def test_steps_follow_a_schedule(name: str, captured: bool) -> None:
    """The schedule changes momenta too; SGD and RMSprop have none by default."""
    curves = []
    for lib in (nt, torch):
        parameters = _parameters(lib)
        optimizer = getattr(lib.optim, name)(parameters, lr=0.01)
        schedule = lib.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=31)
        step = _step(parameters, optimizer)
        run = nt.jit(step) if captured and lib is nt else step
        curves.append(_curve(lib, run, 30, schedule))
        assert run is step or run.captures == 1
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-3)


@pytest.mark.parametrize("captured", [False, True])
def test_freezing_between_steps(captured: bool) -> None:
    results = []
    for lib in (nt, torch):
        parameters = _parameters(lib)
        optimizer = lib.optim.SGD(parameters, lr=0.05, momentum=0.9)
        step = _step(parameters, optimizer)
        step = nt.jit(step) if captured and lib is nt else step
        seen = _curve(lib, step, 2)
        for frozen in (True, False, True):
            parameters[1].requires_grad_(not frozen)
            other = nt.jit(_step(parameters, optimizer)) if captured and lib is nt else step
            seen += _curve(lib, other, 2)
            for each in parameters:
                each.requires_grad_(False)
            optimizer.step()  # With the previous gradients.
            for each in parameters:
                each.requires_grad_(True)
            seen += parameters[1].tolist() + parameters[0].reshape(-1).tolist()
        results.append(seen)
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_a_state_goes_on_in_either_library(case: str) -> None:
    name, options = OPTIMIZERS[case]
    ours, theirs, again = _parameters(nt), _parameters(torch), _parameters(nt)
    own, other = getattr(nt.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **options)
    step = nt.jit(_step(ours, own))
    _curve(torch, _step(theirs, other), 5)
    expected_step = _step(theirs, other)
    _curve(nt, step, 2)  # Captured before the state is loaded.
    own.load_state_dict(other.state_dict())
    with nt.no_grad():
        for mine, parameter in zip(ours, theirs, strict=True):
            mine.copy_(nt.from_numpy(parameter.detach().numpy()))
    np.testing.assert_allclose(_curve(nt, step, 5), _curve(torch, expected_step, 5), rtol=1e-4)
    with nt.no_grad():
        for mine, parameter in zip(again, ours, strict=True):
            mine.copy_(parameter)
    other_own = getattr(nt.optim, name)(again, **options)
    other_own.load_state_dict(own.state_dict())
    expected = _curve(nt, step, 5)
    assert _curve(nt, _step(again, other_own), 5) == pytest.approx(expected, rel=1e-5)
    for mine, parameter in zip(again, ours, strict=True):
        np.testing.assert_allclose(mine.numpy(), parameter.numpy(), rtol=1e-4)


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_pytorch_goes_on_from_a_state(case: str) -> None:
    name, options = OPTIMIZERS[case]
    ours, theirs = _parameters(nt), _parameters(torch)
    own, other = getattr(nt.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, lr=1.0)
    assert own.param_groups[0].keys() == other.param_groups[0].keys()
    step = nt.jit(_step(ours, own))
    _curve(nt, step, 3)
    with torch.no_grad():
        for mine, parameter in zip(ours, theirs, strict=True):
            parameter.copy_(torch.from_dlpack(mine.detach()))
    other.load_state_dict(own.state_dict(torch.from_dlpack))
    np.testing.assert_allclose(_curve(nt, step, 5), _curve(torch, _step(theirs, other), 5), rtol=1e-4)
    assert all(type(each) is torch.Tensor for own in other.state.values() for each in own.values())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
@pytest.mark.parametrize("case", OPTIMIZERS)
def test_copies_go_on(case: str, again: Any) -> None:
    """Copies of an optimizer include its parameters."""
    name, options = OPTIMIZERS[case]
    parameters = _parameters(nt)
    optimizer = getattr(nt.optim, name)(parameters, **options)
    schedule = nt.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=10, cycle_momentum=name != "RMSprop")
    _curve(nt, _step(parameters, optimizer), 3, schedule)
    others, other, other_schedule = again((parameters, optimizer, schedule))
    expected = _curve(nt, nt.jit(_step(parameters, optimizer)), 3, schedule)
    assert _curve(nt, nt.jit(_step(others, other)), 3, other_schedule) == pytest.approx(expected, rel=1e-6)
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_groups_have_options_of_their_own() -> None:
    ours, theirs = _parameters(nt), _parameters(torch)
    curves = []
    for lib, (w, b, v) in ((nt, ours), (torch, theirs)):
        optimizer = lib.optim.SGD([{"params": [w, b]}, {"params": v, "lr": 0.1}], lr=0.01)
        assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.1]
        assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[0, 1], [2]]
        curves.append(_curve(lib, _step([w, b, v], optimizer), 20))
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


@pytest.mark.slow
def test_memory_stays_flat_over_many_captured_steps() -> None:
    parameters = _parameters(nt)
    step = nt.jit(_step(parameters, nt.optim.Adam(parameters)))
    x, y = map(nt.from_numpy, _data())
    for _ in range(10):
        step(x, y)
    gc.collect()
    before = nt.memory_stats()["in_use"]
    for _ in range(10_000):
        step(x, y)
    gc.collect()
    assert nt.memory_stats()["in_use"] == before
    assert step.captures == 1


def test_zero_grad() -> None:
    parameters = _parameters(nt)
    optimizer = nt.optim.SGD(parameters, lr=0.1)
    parameters[0].sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert parameters[0].grad.tolist() == np.zeros(SHAPES[0]).tolist()
    assert parameters[1].grad is None
    optimizer.zero_grad()
    assert parameters[0].grad is None
    before = parameters[0].tolist()
    optimizer.step()
    assert parameters[0].tolist() == before


def test_steps_with_a_closure_and_maximize() -> None:
    w = nt.tensor([1.0, 2.0], requires_grad=True)
    optimizer = nt.optim.SGD([w], lr=0.5, maximize=True)

    def closure() -> nt.Tensor:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 5
    assert w.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_the_dtype_of_parameters_stays(dtype: str) -> None:
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        w = nt.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        optimizer = getattr(nt.optim, name)([w], lr=0.1)
        (w * w).sum().backward()
        optimizer.step()
        assert w.dtype.name == dtype
        theirs = torch.tensor([1.0, 2.0], dtype=getattr(torch, dtype), requires_grad=True)
        (theirs * theirs).sum().backward()
        getattr(torch.optim, name)([theirs], lr=0.1).step()
        tolerance = 1e-2 if dtype == "bfloat16" else 1e-12
        np.testing.assert_allclose(w.tolist(), theirs.tolist(), rtol=tolerance, atol=tolerance)


def test_invalid_parameters() -> None:
    w = nt.ones(2, requires_grad=True)
    for params, text in (
        ([], "takes a list"),
        (w, "takes a list"),
        ([w * 2], "changes leaves"),
        ([nt.ones(2, dtype=nt.int32)], "changes leaves"),
        ([w, w], "twice"),
    ):
        with pytest.raises(nt.ArgumentError, match=text):
            nt.optim.SGD(params, lr=0.1)
    with pytest.raises(nt.ArgumentError, match="lr must be"):
        nt.optim.SGD([w], lr=-1.0)
    for make in (
        lambda lib: lambda p: lib.SGD(p, lr=None),
        lambda lib: lambda p: lib.SGD(p, lr="0.1"),
        lambda lib: lambda p: lib.SGD(p, nesterov=True),
        lambda lib: lambda p: lib.SGD(p, momentum=0.9, dampening=0.1, nesterov=True),
        lambda lib: lambda p: lib.SGD(p, momentum=-0.9),
        lambda lib: lambda p: lib.Adam(p, betas=(0.9, 1.0)),
        lambda lib: lambda p: lib.AdamW(p, betas=(-0.1, 0.9)),
        lambda lib: lambda p: lib.Adam(p, eps=-1e-8),
        lambda lib: lambda p: lib.AdamW(p, weight_decay=-1),
        lambda lib: lambda p: lib.RMSprop(p, alpha=-1),
    ):
        with pytest.raises((ValueError, TypeError)):
            make(torch.optim)([torch.ones(2, requires_grad=True)])
        with pytest.raises(nt.ArgumentError):
            make(nt.optim)([w])
    with pytest.raises(nt.ArgumentError, match="groups of"):
        nt.optim.SGD([w]).load_state_dict(nt.optim.SGD([w, nt.ones(2, requires_grad=True)]).state_dict())


def test_states_of_older_pytorch_count_steps_in_a_number() -> None:
    results = []
    for library in (torch, nt):
        weight = library.ones(2).requires_grad_()
        optimizer = library.optim.Adam([weight], lr=0.1)
        state = {"step": 3, "exp_avg": library.full((2,), 0.5), "exp_avg_sq": library.full((2,), 0.25)}
        if library is torch:
            state["step"] = torch.tensor(3.0)
        optimizer.load_state_dict({"state": {0: state}, "param_groups": optimizer.state_dict()["param_groups"]})
        (weight * weight).sum().backward()
        optimizer.step()
        results.append(weight.tolist())
    assert results[1] == pytest.approx(results[0], rel=1e-5)


@pytest.mark.covers("moving_average", "moving_square", "opt_step_adam")
def test_a_step_after_a_captured_backward_pass() -> None:
    ours, theirs = nt.tensor([1.0, -2.0], requires_grad=True), torch.tensor([1.0, -2.0], requires_grad=True)
    steps = nt.optim.Adam([ours], 0.1), torch.optim.Adam([theirs], 0.1)
    left = []

    @nt.jit
    def backward(x: nt.Tensor) -> nt.Tensor:
        loss = ((x @ ours) ** 2).sum()
        loss.backward()
        left.append(loss)
        return loss

    x = np.eye(2, dtype=np.float32) + 1
    backward(nt.from_numpy(x))
    ((torch.from_numpy(x) @ theirs) ** 2).sum().backward()
    for each in steps:
        each.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
