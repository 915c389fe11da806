"""Placement by predicted cost, with devices whose costs and refusals a test chooses. They compute on the processor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor.config import Policy, config
from npu_tensor.events import Fallback, KernelRan, PlanBuilt
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.host import host_step
from npu_tensor.runtime.memory import Buffer
from npu_tensor.task import Cost, Expense, Fusion, Kernel, Move, PlannedLaunch, Refusal, Step, Task

MS = 1e-3


def expense(seconds: float, processor: float = 0.0, joules: float = 0.0) -> Expense:
    return Expense(seconds, processor, joules)


class Accelerator:
    """Takes the ops of `costs`, by name of the task, at such expenses; a copy in either direction takes `move` seconds.

    moves: instead, those of copies to it, by operand. contexts: by name of the task; a task that is not there has one
    of its own.
    """

    fusion = Fusion(inputs=4, prologues=False, residuals=())
    shared_contexts = 1

    def __init__(
        self,
        uri: str,
        costs: Mapping[str, Expense],
        move: float = 0.1 * MS,
        moves: Sequence[float] | None = None,
        fetch: float = 0.1 * MS,
        launch: float = 0.1 * MS,
        contexts: Mapping[str, str] | None = None,
        mixes: bool = False,
    ) -> None:
        self.uri = uri
        self.costs = costs
        self.move = expense(move, move, move)
        self.moves = moves
        self.fetch_expense = expense(fetch)
        self.launch_cost = expense(launch)
        self.switch_cost = expense(2.6 * MS)
        self.contexts = contexts or {}
        self.reconfiguration_cost = expense(0.04 * MS) if mixes else None
        self.ran: list[str] = []
        self.members = (self,)

    def fetch_cost(self, nbytes: int) -> Expense:
        return self.fetch_expense

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: object,
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        return [PlannedLaunch(1, step) for step in steps]

    def claim(self, task: Task) -> Kernel | Refusal:
        return Taken(self, task) if task.name in self.costs else Refusal(f"no kernel for {task.name}")

    def share_configurations(self, kernels: Sequence[Kernel], once: bool) -> None:
        pass

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        pass


class Taken:
    name = "test"
    reason = "as the test says"
    origin = "memory"

    def __init__(self, owner: Accelerator, task: Task) -> None:
        self.device = owner.uri
        self.owner = owner
        self.task = task

    @property
    def cost(self) -> Cost:
        owner, task = self.owner, self.task
        move = Move(owner.move)
        reads = (move,) * len(task.inputs)
        if owner.moves is not None:
            reads = tuple(Move(expense(seconds)) for seconds in owner.moves)
        context = owner.contexts.get(task.name, task.name)
        return Cost(owner.costs[task.name], 0, context, reads, (move,) * len(task.outputs))

    def bind(self) -> Step:
        on_host = host_step(self.task)

        def run(values: list[Any]) -> None:
            self.owner.ran.append(self.task.name)
            on_host(values)
            for output in self.task.outputs:
                left = Left(values[output.item])
                left.home = self.owner
                values[output.item] = left

        return run


class Left(Buffer):
    """A result in the memory of an accelerator, which this machine's processor happens to reach."""

    __slots__ = ("home", "result")

    def __init__(self, result: Buffer) -> None:
        super().__init__(result.address, result.nbytes)
        self.result = result


Make = Callable[..., Accelerator]


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes an accelerator, the default device of the test with a policy."""
    selection.reset()
    made: dict[str, Accelerator] = {}
    monkeypatch.setattr(selection, "open_device", lambda uri, *rest: made[uri.text])
    before = nt.get_default_device()

    def make(
        costs: Mapping[str, Expense], policy: Policy = "latency", uri: str = "npu:0", **settings: Any
    ) -> Accelerator:
        made[uri] = Accelerator(uri, costs, **settings)
        selection.reset()
        nt.set_default_device(uri, policy)
        return made[uri]

    yield make
    nt.set_default_device(before)
    selection.reset()


def ones(*shape: int) -> nt.Tensor:
    return nt.ones(shape).realize()


def ran(*tensors: nt.Tensor) -> list[tuple[str, str]]:
    """The kernels and devices of a realize."""
    with heard(KernelRan) as seen:
        nt.realize(*tensors)
    return [(event.kernel, event.device) for event in seen]


BIG = (1024, 1024)
"""Shape whose product takes the CPU longer than the launches of these tests."""


def test_what_is_faster_there_goes_there(accelerator: Make) -> None:
    accelerator({"contract": expense(0.2 * MS), "exp": expense(100 * MS)})
    a, b = ones(*BIG), ones(*BIG)
    assert ran(a @ b) == [("contract", "npu:0")]
    assert ran(a.exp()) == [("exp", "cpu")]
    np.testing.assert_array_equal((a @ b).numpy(), np.full(BIG, 1024, np.float32))


def test_a_chain_stays_where_its_data_is(accelerator: Make) -> None:
    """The norm in the middle is faster on the CPU, but by less than the cost of the copies."""
    costs = {"contract": expense(0.2 * MS), "softmax": expense(2 * MS)}
    one = dict.fromkeys(costs, "one")
    a, b = ones(*BIG), ones(*BIG)
    accelerator(costs, move=5 * MS, contexts=one)
    assert {device for _, device in ran(nt.softmax(a @ b, dim=-1) @ b)} == {"npu:0"}
    accelerator({**costs, "softmax": expense(200 * MS)}, move=0.01 * MS, contexts=one)
    assert [device for _, device in ran(nt.softmax(a @ b, dim=-1) @ b)] == ["npu:0", "cpu", "npu:0"]


def test_configurations_that_kernels_can_share_are_compared(accelerator: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a common one, the changes around the softmax take longer than the CPU."""
    a, b = ones(*BIG), ones(*BIG)
    costs = dict.fromkeys(("contract", "softmax"), expense(0.2 * MS))
    for middle in ("cpu", "npu:0"):
        device = accelerator(costs, move=0.01 * MS)
        device.switch_cost = expense(1.0)
        if middle == "npu:0":
            share = partial(device.contexts.update, dict.fromkeys(costs, "one"))
            monkeypatch.setattr(device, "share_configurations", lambda *_, share=share, **__: share())
        assert [where for _, where in ran(nt.softmax(a @ b, dim=-1) @ b)] == ["npu:0", middle, "npu:0"]


def test_kernels_of_one_context_run_together(accelerator: Make) -> None:
    device = accelerator({"contract": expense(0.2 * MS), "softmax": expense(1e-9)}, policy="energy", move=0)
    device.switch_cost = expense(0, 0, 1e-9)
    x = [ones(*BIG) for _ in range(3)]
    ran(*[nt.softmax(each @ each, dim=-1) for each in x])
    assert device.ran == ["contract"] * 3 + ["softmax"] * 3


def test_policies_weigh_different_things(accelerator: Make) -> None:
    a = ones(*BIG)
    slow_but_idle = {"contract": expense(0.4, processor=1e-6, joules=1e3)}
    accelerator(slow_but_idle, policy="latency")
    assert ran(a @ a) == [("contract", "cpu")]
    accelerator(slow_but_idle, policy="cpu_time", launch=0)
    assert ran(a @ a) == [("contract", "npu:0")]
    accelerator(slow_but_idle, policy="energy")
    assert ran(a @ a) == [("contract", "cpu")]
    accelerator(slow_but_idle, policy="always")
    assert ran(a @ a) == [("contract", "npu:0")]


def test_the_setting_is_the_policy_where_none_is_given(accelerator: Make) -> None:
    accelerator({"exp": expense(100)})
    with config.scope(policy="always"), nt.default_device("npu:0"):
        assert ran(ones(16).exp()) == [("exp", "npu:0")]
    with nt.default_device("npu:0", policy="auto"):
        assert ran(ones(16).exp()) == [("exp", "cpu")]  # for a simulated device it means always


def test_an_unknown_policy_is_named(accelerator: Make) -> None:
    with pytest.raises(nt.ArgumentError, match=r"no policy .fast.; there are auto, latency, cpu_time, .*always"):
        nt.set_default_device("cpu", policy="fast")  # type: ignore[arg-type]


def test_force_a_device(accelerator: Make) -> None:
    accelerator({"exp": expense(100)})
    x = ones(16)
    np.testing.assert_allclose(x.exp().realize(device="npu:0").numpy(), np.exp(np.ones(16)), rtol=1e-6)
    with heard(KernelRan) as seen:
        x.exp().realize(device="npu:0")
        x.exp().realize()
        nt.realize(x.exp(), x.exp() + 1, device="cpu")
    assert [event.device for event in seen] == ["npu:0", "cpu", "cpu"]
    with pytest.raises(nt.DeviceError, match="sin cannot run on npu:0: no kernel for sin"):
        nt.realize(x.exp(), x.sin(), device="npu:0")
    np.testing.assert_allclose(x.sin().numpy(), np.sin(np.ones(16)), rtol=1e-6)


def test_the_parts_of_a_refused_task_go_there_if_that_is_better(accelerator: Make) -> None:
    """If not, the processor runs the whole."""
    a = ones(*BIG)
    cheap = dict.fromkeys(("contract", "contract+tanh", "softmax"), expense(0.01 * MS))
    one = dict.fromkeys(cheap, "one")
    accelerator(cheap, contexts=one)
    y = (a @ a).tanh().softmax(-1)  # outside of assert, which keeps intermediate results
    assert ran(y) == [("contract+tanh", "npu:0"), ("softmax", "npu:0")]
    accelerator({**cheap, "contract+tanh": expense(0.4), "softmax": expense(0.4)}, contexts=one, move=0)
    y = (a @ a).tanh().softmax(-1)
    assert ran(y) == [("contract", "npu:0"), ("tanh+softmax", "cpu")]


def test_results_that_were_left_there_are_used_there(accelerator: Make) -> None:
    device = accelerator({"exp": expense(0.01 * MS)}, policy="always", move=0, fetch=1000)
    a = ones(*BIG)
    there = a.exp().realize()
    nt.set_default_device("npu:0", policy="latency")
    device.costs = {"exp": expense(0.4)}
    assert ran(there.exp()) == [("exp", "npu:0")]
    assert ran(a.exp()) == [("exp", "cpu")]


def test_jit_does_not_count_bringing_weights(accelerator: Make) -> None:
    accelerator({"contract": expense(0.01 * MS)}, move=0, moves=(0, 1000))
    x, weights = ones(*BIG), ones(*BIG)

    @nt.jit
    def layer(x: nt.Tensor) -> nt.Tensor:
        return x @ weights

    with heard(KernelRan) as seen:
        layer(x)
        (x @ weights).realize()
    assert [event.device for event in seen] == ["npu:0", "cpu"]


def test_an_op_without_a_kernel_is_told_of_however_little_it_costs(accelerator: Make) -> None:
    accelerator({"exp": expense(1)})
    x = ones(4)
    assert x.relu().tolist() == [1.0] * 4  # The default allows the fallback.
    with config.scope(fallback="error"), pytest.raises(nt.DeviceError, match=r"no kernel for add\+relu"):
        (x + 1).relu().realize()
    with config.scope(fallback="warn"), pytest.warns(RuntimeWarning, match=r"no kernel for add\+abs"):
        assert (x + 1).abs().tolist() == [2.0] * 4


def test_the_reason_says_what_was_compared(accelerator: Make) -> None:
    accelerator({"contract": expense(0.2 * MS), "softmax": expense(0.3)}, contexts={"contract": "one"})
    a = ones(*BIG)
    y = nt.softmax(a @ a, dim=-1)
    with heard(PlanBuilt) as built:
        y.realize()
    (reason,) = [refusal.reason for event in built for placed in event.plan.placed for refusal in placed.refusals]
    compared = "300.10 ms there and up to 200.0 us for copies, 2.60 ms more after"
    assert reason.startswith(f"npu:0 by predicted cost: {compared}")
    assert reason.endswith("on the CPU")


def test_what_the_driver_would_end_is_not_launched(accelerator: Make) -> None:
    """Even where it would be the better choice."""
    accelerator({"contract": expense(0.6)}, policy="cpu_time", launch=0)
    a = ones(*BIG)
    assert ran(a @ a) == [("contract", "cpu")]


def test_a_device_that_takes_every_part_of_a_larger_task_declines_by_cost(accelerator: Make) -> None:
    """The processor's kernels may be larger than those of the device, which has none for such a task."""
    costs = dict.fromkeys(("contract", "mul"), expense(0.4))
    accelerator(costs, launch=0)
    a = ones(256, 256)
    why = nt.explain((a * 2) @ a)[-1].why
    assert why.count("npu:0") == 1
    # Two kernels, copies of `a`, the number and the result, and, as two contexts alternate, two switches.
    there = "the whole graph takes 805.50 ms with all that it has kernels for there; "
    assert f"not on npu:0 by predicted cost: {there}" in why
    with config.scope(fallback="error"), heard(Fallback) as fallbacks:
        kernels = ran((a * 3) @ a)  # outside of assert, which keeps intermediate results
    assert (kernels, fallbacks) == ([("mul+contract", "cpu")], [])
    accelerator({"contract": expense(0.4)}, launch=0)
    with config.scope(fallback="error"), pytest.raises(nt.DeviceError, match=r"mul.contract does not run on npu:0"):
        ((a * 3) @ a).realize()


def test_force_one_of_several(accelerator: Make) -> None:
    """If the CPU is in the list, it runs the ops that the other devices refuse."""
    accelerator({"exp": expense(100)})
    x = ones(16)
    x.sin().realize(device="npu:0,cpu")
    with pytest.raises(nt.DeviceError, match="sin cannot run on npu:0"):
        x.sin().realize(device="npu:0")
    with pytest.raises(nt.DeviceError, match="cannot run on npu:0"):
        nt.explain(x.sin(), device="npu:0")
    with pytest.raises(nt.DeviceError, match="bogus"):
        x.realize(device="bogus")
