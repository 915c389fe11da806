"""Several compatible devices as one. Each launch runs on one of them.

    device = LogicalDevice("sim:npu2x2", [first, second])

Independent parts of a graph run on different members, and so do graphs that several threads realize at the same time.
A kernel is never split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from npu_tensor import events
from npu_tensor.errors import BuildError, DeviceError, NpuTensorError
from npu_tensor.runtime.npu.npu_device import NpuDevice
from npu_tensor.task import Cost, Expense, Kernel, PlannedLaunch, Refusal, Step, Task


class LogicalDevice:
    """Devices with a common target as one. A failure of one member does not stop the others."""

    reconfiguration_cost = None  # A launch is one kernel.
    shared_contexts = 1

    def __init__(self, uri: str, members: Sequence[NpuDevice]) -> None:
        """Combine members. Raises DeviceError (INCOMPATIBLE) unless all have the same target."""
        if not members:
            raise DeviceError(f"{uri}: a logical device needs a member", code="NOT_FOUND")
        first = members[0]
        for other in members:
            if other.target != first.target:
                raise DeviceError(f"{uri}: {other.uri} is not compatible with {first.uri}", code="INCOMPATIBLE")
        self.uri = uri
        self.members = tuple(members)
        self.target = first.target
        self.fusion = first.fusion
        self._numbers = {id(member): number for number, member in enumerate(members)}
        self._turn = 0

    # Kernels are the same on all members and run equally fast there, so the first member predicts for all.

    @property
    def launch_cost(self) -> Expense:
        """See `task.Accelerator`."""
        return self.members[0].launch_cost

    @property
    def switch_cost(self) -> Expense:
        """See `task.Accelerator`."""
        return self.members[0].switch_cost

    def fetch_cost(self, nbytes: int) -> Expense:
        """See `task.Accelerator`."""
        return self.members[0].fetch_cost(nbytes)

    def claim(self, task: Task) -> LogicalKernel | Refusal:
        """Return the answer of the first member."""
        answer = self.members[0].claim(task)
        return answer if isinstance(answer, Refusal) else LogicalKernel(self, task, answer)

    def share_configurations(self, kernels: Sequence[Kernel], once: bool) -> None:
        """Choose tilings for the first member. Other members use the best kernel of each task."""
        self.members[0].share_configurations(_first_kernels(kernels), once)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Compile for the first member. All members have the same kernel library."""
        self.members[0].prepare(_first_kernels(kernels))

    def submit(self) -> None:
        """Start the queued launches of all members."""
        _for_each(member.submit for member in self.members)

    def synchronize(self) -> None:
        """Wait for all members, and then raise the first error."""
        self.submit()  # Otherwise the other members begin when the first has ended.
        _for_each(member.synchronize for member in self.members)

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        """See `task.Accelerator`. Each kernel is a launch, so that members share the work."""
        return [PlannedLaunch(1, step) for step in steps]

    def choose(self, operands: Iterable[Any], numbers: Iterable[int]) -> int:
        """Return one of the members `numbers` for a launch that reads these values.

        In this order: usable members; where operands are being computed, because the launch waits for them anyway; the
        fewest launches in flight; the most operand bytes that need no copy; turns.
        """
        count = len(self.members)
        held, pending = [0] * count, [0] * count
        for value in operands:
            number = self._numbers.get(id(getattr(value, "home", None)))
            if number is not None:
                held[number] += value.nbytes
                if value.launch is not None:
                    pending[number] += value.nbytes

        def rank(number: int) -> tuple[bool, int, int, int, int]:
            member = self.members[number]
            turn = (number - self._turn) % count
            return not member.usable, -pending[number], member.busy, -held[number], turn

        chosen = min(numbers, key=rank)
        self._turn = chosen + 1
        return chosen


class LogicalKernel:
    """A kernel that every member can have.

    Attributes:
        first: Kernel of the first member, which answered the claim.
    """

    def __init__(self, owner: LogicalDevice, task: Task, first: Kernel) -> None:
        self.owner = owner
        self.task = task
        self.first = first
        self.device = owner.uri
        self.name = first.name
        self.reason = first.reason
        self.origin = first.origin

    @property
    def cost(self) -> Cost:
        """Predicted cost of a run on any member."""
        return self.first.cost

    def bind(self) -> Step:
        """Bind the kernel on all members that can have it. Raises BuildError if there are none."""
        owner, steps, refused = self.owner, dict[int, Step](), list[str]()
        for number, member in enumerate(owner.members):
            answer = self.first if number == 0 else member.claim(self.task)
            try:
                if isinstance(answer, Refusal):
                    raise BuildError(answer.reason)
                step = answer.bind()
            except NpuTensorError as error:
                if isinstance(error, BuildError) and error.pending:
                    raise  # The build goes on; the member is not at fault.
                refused.append(str(error))
                if events.listeners:
                    events.emit(events.Fallback(self.task.name, member.uri, str(error)))
                continue
            if not steps:
                self.origin, self.reason = answer.origin, answer.reason
            steps[number] = step
        if not steps:
            raise BuildError("; ".join(dict.fromkeys(refused)))
        items = [operand.item for operand in self.task.inputs]

        def run(values: list[Any]) -> None:
            steps[owner.choose([values[item] for item in items], steps)](values)

        return run


def _first_kernels(kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel.first for kernel in kernels if isinstance(kernel, LogicalKernel)]


def _for_each(actions: Iterable[Callable[[], object]]) -> None:
    """Run all actions, and then raise their first exception, which may be a warning, too."""
    failures = []
    for action in actions:
        try:
            action()
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]
