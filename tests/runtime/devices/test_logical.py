"""Several devices as one: choice of a member for a launch, and failures of members."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import BuildError
from npu_tensor.kernels.offer import FUSION, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.devices.logical import LogicalDevice
from npu_tensor.task import Cost, Expense, Kernel, NumberInput, Output, Refusal, Step, Task, TensorInput

LAUNCH = "a launch"
NPU2 = Target(ARRAYS["aie2p"], 8)
SECONDS = 30
"""Until a test that hangs fails; nothing here takes as long."""


COST = Cost(Expense(1, 0, 0), 64)


class FakeMember:
    """A member that records its calls. Its steps return at once, and tests set `busy` and `usable`."""

    fusion = FUSION
    launch_cost = Expense(2, 0, 0)
    switch_cost = Expense(3, 0, 0)

    def __init__(self, uri: str, target: Target = NPU2) -> None:
        self.uri = uri
        self.target = target
        self.busy = 0
        self.usable = True
        self.refuses = ""  # a word in an op's name: no kernel for it
        self.failure: Exception | None = None  # of bind
        self.launch_failure: Exception | None = None
        self.bound: list[str] = []
        self.launches: list[str] = []
        self.prepared: list[Kernel] = []
        self.barrier: threading.Barrier | None = None  # for launches to meet at

    @property
    def members(self) -> tuple[FakeMember]:
        return (self,)

    def fetch_cost(self, nbytes: int) -> Expense:
        return Expense(nbytes, 0, 0)

    def claim(self, task: Task) -> FakeKernel | Refusal:
        if self.refuses and self.refuses in task.name:
            return Refusal(f"{self.uri} has no {task.name}")
        return FakeKernel(self, task)

    def share_configurations(self, kernels: Sequence[Kernel], once: bool) -> None:
        pass

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        self.prepared += kernels

    def submit(self) -> None:
        pass

    def synchronize(self) -> None:
        if self.launch_failure is not None:
            raise self.launch_failure


class FakeKernel:
    def __init__(self, owner: FakeMember, task: Task) -> None:
        self.owner = owner
        self.task = task
        self.device = owner.uri
        self.name = "fake"
        self.cost = COST
        self.origin = "none"
        self.reason = "claimed"

    def bind(self) -> Step:
        owner = self.owner
        owner.bound.append(self.task.name)
        if owner.failure is not None:
            raise owner.failure
        self.origin, self.reason = "built", f"bound by {owner.uri}"

        def run(values: list[Any]) -> None:
            owner.launches.append(self.task.name)
            if owner.launch_failure is not None:
                raise owner.launch_failure
            if owner.barrier is not None:
                owner.barrier.wait(SECONDS)
            values[-1] = Value(owner)

        return run


@dataclass
class Value:
    """Result of a launch, stored on a member of this logical device or another."""

    home: FakeMember
    nbytes: int = 64
    launch: object = None  # while it is under way


@dataclass
class Several:
    """A logical device of fake members."""

    count: int = 2
    members: list[FakeMember] = field(init=False)
    device: LogicalDevice = field(init=False)

    def __post_init__(self) -> None:
        self.members = [FakeMember(f"fake#{number}") for number in range(self.count)]
        self.device = LogicalDevice("fake", cast(Any, self.members))

    def step(self, *ops: str) -> Step:
        answer = self.device.claim(task(*ops))
        assert not isinstance(answer, Refusal)
        return answer.bind()

    def launched_on(self, step: Step, *operands: object) -> int:
        """Run a step of two operands; returns the number of the member."""
        before = [len(member.launches) for member in self.members]
        step([*operands, *[object()] * (2 - len(operands)), None])
        changed = [n for n, member in enumerate(self.members) if len(member.launches) > before[n]]
        assert len(changed) == 1
        return changed[0]


def task(*ops: str) -> Task:
    """The work of ops on two tensors and a number: items 0, 1 and 2 of a list whose last is the result."""
    layout = Layout((16,), (1,))
    inputs = (TensorInput(0, nt.bfloat16, layout), TensorInput(1, nt.bfloat16, layout), NumberInput(2))
    return Task("map", (3,), ops or ("add",), inputs, (Output(3, nt.bfloat16, layout, 32),), (16,))


def test_idle_members_take_turns() -> None:
    three = Several(3)
    step = three.step()
    assert [three.launched_on(step) for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_launch_goes_where_its_operand_lies() -> None:
    three = Several(3)
    step = three.step()
    for number in (2, 2, 0, 1, 1):
        assert three.launched_on(step, object(), Value(three.members[number])) == number
    small, large = Value(three.members[0], 64), Value(three.members[2], 4096)
    assert three.launched_on(step, small, large) == 2
    assert three.launched_on(step, large, small) == 2


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("failure", [BuildError("no context"), nt.DeviceError("no context")])
def test_a_member_that_cannot_have_a_kernel_leaves_it_to_the_others(failing: int, failure: Exception) -> None:
    two = Several()
    two.members[failing].failure = failure
    seen: list[events.Event] = []
    with events.listen(seen.append):
        step = two.step()
        assert [two.launched_on(step) for _ in range(4)] == [1 - failing] * 4
    assert seen == [events.Fallback("add", f"fake#{failing}", "no context")]
    assert len(two.members[failing].bound) == 1
    two.members[failing].failure = None
    other = two.step("mul")
    assert {two.launched_on(other) for _ in range(2)} == {0, 1}


@pytest.mark.parametrize("launch", [None, LAUNCH])
def test_a_member_that_is_not_usable_gets_no_launch_while_another_is(launch: object) -> None:
    two = Several()
    step = two.step()
    two.members[0].usable = False
    assert [two.launched_on(step, Value(two.members[0], launch=launch)) for _ in range(3)] == [1, 1, 1]
    two.members[1].usable = False  # Then each member reports its own problem.
    assert {two.launched_on(step) for _ in range(2)} == {0, 1}


def test_threads_work_on_all_members_at_the_same_time() -> None:
    """Every launch waits until all four are under way, which they only are if no member and no lock holds them up."""
    four = Several(4)
    barrier = threading.Barrier(4)
    step = four.step()
    for member in four.members:
        member.barrier = barrier
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(step, [None] * 4) for _ in range(4)]
        for run in runs:
            run.result(SECONDS)
    assert [len(member.launches) for member in four.members] == [1, 1, 1, 1]


def test_members_must_be_compatible() -> None:
    members: list[Any] = [FakeMember("npu:0"), FakeMember("npu:1", Target(ARRAYS["aie2"], 4))]
    with pytest.raises(nt.DeviceError, match=r"npu://0,1: npu:1 is not compatible with npu:0") as caught:
        LogicalDevice("npu://0,1", members)
    assert caught.value.code == "INCOMPATIBLE"
    with pytest.raises(nt.DeviceError, match="needs a member"):
        LogicalDevice("npu", [])
