"""Several compatible devices as one: every launch goes to one of them.

    device = LogicalDevice("sim:npu2x2", [first, second])

Independent parts of a graph go to different members, and threads that realize at the same time use them side by side.
A kernel is never split.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any, Protocol
from weakref import WeakSet

from npu_tensor import events
from npu_tensor._util.forks import in_child, new_lock
from npu_tensor.errors import BuildError, DeviceError, NpuTensorError
from npu_tensor.kernels.offer import Target
from npu_tensor.task import Accelerator, AsynchronousDevice, Cost, Expense, Kernel, PlannedLaunch, Refusal, Step, Task

__all__ = ["LogicalDevice", "LogicalKernel", "Member"]


class Member(Accelerator, Protocol):
    """A device that may be one of several. It opens what it needs when a kernel is bound, not before.

    Kernels are bound, and steps run, by several threads at the same time.
    """

    @property
    def target(self) -> Target:
        """What its kernels are claimed for; the same for all members."""
        ...

    @property
    def busy(self) -> int:
        """Launches that go on after their steps have returned; 0 where a step returns when its work is done.

        Read before every launch, under a lock: it must not wait.
        """
        ...

    @property
    def usable(self) -> bool:
        """False while launches would be computed elsewhere, after a fault. Other members get them meanwhile."""
        ...


class LogicalDevice:
    """Devices with the same target as one. What one of them fails at does not keep the others from working."""

    def __init__(self, uri: str, members: Sequence[Member]) -> None:
        """uri: of the logical device. Raises DeviceError, INCOMPATIBLE, unless all members have the same target."""
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
        self._asynchronous = {
            number: member for number, member in enumerate(members) if isinstance(member, AsynchronousDevice)
        }
        self._used: set[int] = set()
        self._turn = 0
        self.binding = new_lock()
        self._choosing = new_lock()
        # By thread: one that an interrupt took out of a launch is counted right again at its next one.
        self._running: dict[int, int] = {}
        _devices.add(self)

    @property
    def launch(self) -> Expense:
        """What a launch is predicted to take besides its kernels."""
        return self.members[0].launch

    @property
    def change(self) -> Expense | None:
        """What another context within a launch is predicted to take; None if a launch has one."""
        return self.members[0].change

    @property
    def shared_contexts(self) -> int:
        """How many contexts of a plan can be one in the hardware, on each member; 1 if each launch has its own."""
        return self.members[0].shared_contexts

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        """See `task.Accelerator`. Each launch goes to one member, divided as a member that has all kernels divides."""
        own = [kernel for kernel in kernels if isinstance(kernel, LogicalKernel)]
        number = next((n for n in range(len(self.members)) if all(n in kernel.bound for kernel in own)), None)
        if number is None:
            return [PlannedLaunch(1, step) for step in steps]
        launches: list[PlannedLaunch] = []
        first = 0
        for launch in self._on_member(number, own, dying, numbers):
            end = first + launch.kernels
            step = steps[first]
            if launch.kernels > 1:
                step = self._together(own[first:end], dying[first:end], numbers, {number: [launch]})
            launches.append(launch._replace(step=step))
            first = end
        return launches

    def _on_member(
        self,
        number: int,
        kernels: Sequence[LogicalKernel],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
    ) -> list[PlannedLaunch]:
        """The launches of a member for kernels that it has."""
        own, steps = zip(*(kernel.bound[number] for kernel in kernels), strict=True)
        return self.members[number].launches(own, steps, dying, numbers, own)

    def _together(
        self,
        kernels: Sequence[LogicalKernel],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        launches: dict[int, list[PlannedLaunch]],
    ) -> Step:
        """The step that runs kernels on one member, with as few launches as that one needs: those, as far as known."""
        results = {output.item for kernel in kernels for output in kernel.task.outputs}
        read = dict.fromkeys(source.item for kernel in kernels for source in kernel.task.inputs)
        refused: set[int] = set()

        def step_of(number: int) -> Step | None:
            if number not in launches:
                if not all(kernel.step(number) for kernel in kernels):
                    refused.add(number)
                    return None
                with self.binding:
                    launches[number] = self._on_member(number, kernels, dying, numbers)

            def run(values: list[Any]) -> None:
                for launch in launches[number]:
                    launch.step(values)

            return run

        return self.on_one_member([item for item in read if item not in results], refused, step_of)

    def on_one_member(
        self, items: Sequence[int], refused: Container[int], step_of: Callable[[int], Step | None]
    ) -> Step:
        """A step that `enter` gives to a member. step_of: what runs there, by number; None if this member cannot."""

        def run(values: list[Any]) -> None:
            step = None
            try:
                while step is None:
                    step = step_of(self.enter([values[item] for item in items], refused))
                step(values)
            finally:
                self.leave()

        return run

    @property
    def switch(self) -> Expense:
        """What it is predicted to take besides, if a kernel follows one of another context on the same member."""
        return self.members[0].switch

    def fetch(self, nbytes: int) -> Expense:
        """What it is predicted to take to bring a value back that lies in the memory of a member only."""
        return self.members[0].fetch(nbytes)

    def claim(self, task: Task) -> LogicalKernel | Refusal:
        """What the first member answers."""
        answer = self.members[0].claim(task)
        return answer if isinstance(answer, Refusal) else LogicalKernel(self, task, answer)

    def settle(self, kernels: Sequence[Kernel], once: bool) -> None:
        """See `task.Accelerator`. Other members have the best kernels for each task."""
        self.members[0].settle([kernel.first for kernel in kernels if isinstance(kernel, LogicalKernel)], once)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Let the first member do it: members have their kernels from the same place."""
        self.members[0].prepare([kernel.first for kernel in kernels if isinstance(kernel, LogicalKernel)])

    def submit(self) -> None:
        """Let what was launched begin."""
        self._for_each(methodcaller("submit"))

    def synchronize(self) -> None:
        """Wait until nothing is under way on any member. Raises what went wrong first, after waiting for all."""
        self.submit()  # Otherwise the others begin when the first has ended.
        self._for_each(methodcaller("synchronize"))

    def _for_each(self, action: Callable[[AsynchronousDevice], object]) -> None:
        """Let all that were used act before raising what the first of them raises: a warning may be an error, too."""
        failures = []
        for number in sorted(self._used):
            member = self._asynchronous.get(number)
            if member is not None:
                try:
                    action(member)
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    def enter(self, operands: Iterable[Any], refused: Container[int]) -> int:
        """The number of the member for a launch of this thread, which is in it until `leave`.

        operands: values; those in the memory of a member have it as `home`, and as `launch` what computes them
        until that is known to have ended. refused: members that cannot run the kernel.
        In this order: where operands are being computed, because the launch waits for them anyway; where the fewest
        launches are under way; where most bytes are that need not be copied; by turns.
        """
        count = len(self.members)
        held, pending = [0] * count, [0] * count
        for value in operands:
            number = self._numbers.get(id(getattr(value, "home", None)))
            if number is not None:
                held[number] += value.nbytes
                if value.launch is not None:
                    pending[number] += value.nbytes
        thread = threading.get_ident()
        with self._choosing:
            self._running.pop(thread, None)
            running = list(self._running.values())
            _, chosen = min(
                (
                    (
                        not member.usable,
                        -pending[number],
                        running.count(number) + member.busy,
                        -held[number],
                        (number - self._turn) % count,
                    ),
                    number,
                )
                for number, member in enumerate(self.members)
                if number not in refused
            )
            self._turn = chosen + 1
            self._running[thread] = chosen
            self._used.add(chosen)
        return chosen

    def leave(self) -> None:
        """The launch of this thread has returned."""
        self._running.pop(threading.get_ident(), None)

    def forget_launches(self) -> None:
        """Those that are under way in the parent of a forked process are not in this one."""
        self._running.clear()


_devices: WeakSet[LogicalDevice] = WeakSet()


def _forget_launches() -> None:
    for device in _devices:
        device.forget_launches()


in_child(_forget_launches)


class LogicalKernel:
    """A kernel that every member can have.

    first: that of the first member, which answered the claim. bound: the kernel and its step, by number of the member.
    """

    def __init__(self, owner: LogicalDevice, task: Task, first: Kernel) -> None:
        self.owner = owner
        self.task = task
        self.first = first
        self.device = owner.uri
        self.name = first.name
        self.reason = first.reason
        self.origin = first.origin
        self.bound: dict[int, tuple[Kernel, Step]] = {}
        self._refused: dict[int, str] = {}

    @property
    def cost(self) -> Cost:
        """What a run is predicted to take, on any member."""
        return self.first.cost

    def bind(self) -> Step:
        """Bind the kernel on one member; on each of the others it is bound when it gets its first launch.

        Raises BuildError if no member can have it.
        """
        owner = self.owner
        numbers = sorted(range(len(owner.members)), key=lambda number: not owner.members[number].usable)
        if not any(self.step(number) for number in numbers):
            raise BuildError("; ".join(dict.fromkeys(self._refused.values())))
        return owner.on_one_member([operand.item for operand in self.task.inputs], self._refused, self.step)

    def step(self, number: int) -> Step | None:
        """The step of a member, which is bound when first asked for; None if this member cannot have the kernel."""
        if number in self.bound:
            return self.bound[number][1]
        with self.owner.binding:
            if number in self.bound:
                return self.bound[number][1]
            if number in self._refused:
                return None
            member = self.owner.members[number]
            answer = self.first if number == 0 else member.claim(self.task)
            try:
                if isinstance(answer, Refusal):
                    raise BuildError(answer.reason)
                step = answer.bind()
            except NpuTensorError as error:
                if isinstance(error, BuildError) and error.pending:
                    raise  # That is no fault of the member.
                self._refused[number] = str(error)
                if events.listeners:
                    events.emit(events.Fallback(self.task.name, member.uri, str(error)))
                return None
            if not self.bound:
                self.origin, self.reason = answer.origin, answer.reason
            self.bound[number] = answer, step
            return step
