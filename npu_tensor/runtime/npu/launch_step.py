"""Step of a plan that launches a program on an NPU, and its checks of the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_tensor import events
from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import uint8
from npu_tensor.errors import DeviceError, LaunchError
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import as_read, disagreement, tolerance
from npu_tensor.runtime.npu.buffers import Argument, Lease, OutOfMemory, ResidentBuffer, leased_copy
from npu_tensor.runtime.npu.driver import NpuProgram, Run
from npu_tensor.runtime.npu.faults import raises_on_fault
from npu_tensor.runtime.npu.launch_plan import LaunchPlan
from npu_tensor.runtime.npu.launches import Launch, LaunchBatch, on_host
from npu_tensor.runtime.npu.packing import check_indexes, flat
from npu_tensor.task import Step

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice


class LaunchStep:
    """Runs a launch on an NPU.

    In its first run, a kernel is compared with the CPU, and a launch of several kernels bit for bit with `steps`: the
    launches of each kernel by itself.

    Attributes:
        inputs: Items of the plan that are not made in the launch.
        size: Number of items of a list of values for these tasks.
        writes: For each buffer, True if the NPU writes it.
        run: Latest run, which belongs to a context.
        latest: Newest batch with a launch of this step.
        queued: True if a launch waits to be submitted.
    """

    def __init__(
        self, plan: LaunchPlan, device: NpuDevice, program: NpuProgram, steps: Sequence[LaunchStep] = ()
    ) -> None:
        self.device = device
        self.engine = device.engine
        self.program = program
        self.kernels = plan.kernels
        self.steps = steps
        self.has_words = any(kernel.offer.scalars for kernel in plan.kernels)
        self.own_words = plan.words
        self.arguments = plan.arguments
        self.writes = tuple([argument.output for argument in plan.arguments])
        tasks = [kernel.task for kernel in plan.kernels]
        results = {output.item for task in tasks for output in task.outputs}
        operands = dict.fromkeys(source.item for task in tasks for source in task.inputs)
        self.inputs = tuple(item for item in operands if item not in results)
        self.size = 1 + max((*operands, *results))
        self.run: Run | None = None
        self.latest: LaunchBatch | None = None
        self.queued = False

    @cached_property
    def on_host(self) -> Step:
        """Step that runs the same tasks on the CPU, compiled on first use."""
        steps = [self.device.on_host(kernel.task) for kernel in self.kernels]

        def run(values: list[Any]) -> None:
            for step in steps:
                step(values)

        return run

    def __call__(self, values: list[Any]) -> None:
        """Run the step on the values of a plan."""
        if self.own_words and self._words(values) != self.own_words:
            self._launch_singly(values)
            return
        engine, program, latest = self.engine, self.program, self.latest
        if latest is not None and latest.phase == "running" and engine.ready:
            engine.wait(latest)  # Its run objects are needed again. Here the wait is without the lock.
        while program.checked and not engine.health.failures and engine.ready and not program.refused:
            try:
                if self.launch(values) is not None:
                    return
            except OutOfMemory:
                break
        self._launch_carefully(values)

    def _words(self, values: list[Any]) -> tuple[int, ...]:
        """Return the runtime parameters of the kernels."""
        return tuple([word for kernel in self.kernels for word in kernel.words(values)])

    def _launch_singly(self, values: list[Any]) -> None:
        for step in self.steps:
            step(values)

    def launch(self, values: list[Any]) -> Launch | None:
        """Enqueue one run, and store its results in `values` at once. Returns None if there was a fault meanwhile.

        Raises OutOfMemory, and IndexError for an index that is out of range.
        """
        engine, device = self.engine, self.device
        faults = engine.faults
        inputs = tuple(map(values.__getitem__, self.inputs))
        words = self._words(values) if self.has_words and self.own_words is None else ()
        leases: list[Lease] = []
        results: list[tuple[int, ResidentBuffer]] = []
        for argument in self.arguments:
            item = argument.item
            if not argument.output:
                leases.append(self._lease_of(argument, values[item]))  # type: ignore[index]
                continue
            lease = engine.pool.take(argument.nbytes)
            leases.append(lease)
            if item is not None:
                results.append((item, ResidentBuffer(device, lease, argument)))
        launch = Launch(self, leases, inputs, results, words)
        if not engine.enqueue(launch, faults):
            return None
        for item, result in results:
            values[item] = result
        return launch

    def _lease_of(self, argument: Argument, value: Buffer) -> Lease:
        """Return a block with a value in the form that the NPU reads."""
        engine = self.engine
        if argument.host.indexes is not None:
            assert argument.dtype is not None
            check_indexes(argument.host, flat(value, argument.dtype), argument.call)
        if isinstance(value, ResidentBuffer) and value.home is self.device:
            pending = value.launch
            if pending is not None and (
                isinstance(pending, Exception)
                or pending.step.program.binary != self.program.binary  # Contexts do not wait for each other.
                or (pending.batch is not None and pending.batch.phase == "abandoned")
            ):
                engine.finish(pending)
            lease = value.lease
            if lease is not None and argument.direct and value.argument.direct:
                block = lease.block
                if block.nbytes >= argument.nbytes and block.pool is engine.pool:
                    return lease
        since = time.perf_counter()
        lease = leased_copy(value, argument, engine.pool)
        if events.listeners:
            engine.note_phase("convert", since)
        return lease

    def _launch_carefully(self, values: list[Any]) -> None:
        """Launch a program that needs a comparison, or on a device that is not trusted."""
        engine, program = self.engine, self.program
        engine.check_process()
        reason = program.refused or (engine.health.cause if engine.health.resting else "")
        if program.refused and self.steps:  # For example, its file declares too few host buffers.
            self._launch_singly(values)
            return
        if reason:
            self._fall_back(values, reason)
            return
        engine.synchronize()
        try:
            engine.reopen()
            while (launch := self.launch(values)) is None:
                pass  # Its inputs were abandoned, and are computed by now.
        except DeviceError as error:
            engine.health.failed(str(error))
            self._fall_back(values, str(error))
            return
        except OutOfMemory as error:
            if self.steps:  # Each of them needs less memory at once.
                self._launch_singly(values)
                return
            engine.decline(self.program, error)
            self.on_host(values)
            return
        engine.finish(launch)
        if launch.on_device and (engine.health.failures or not program.checked):
            self._compare(launch)

    def _fall_back(self, values: list[Any], reason: str) -> None:
        """Run on the CPU because the device or the kernel must not be used. Raises LaunchError without fallback."""
        uri = self.device.uri
        if raises_on_fault():
            raise LaunchError(f"{self.program.name} is not launched on {uri}: {reason}")
        if events.listeners:
            events.emit(events.Fallback(self.program.name, uri, reason))
        self.on_host(values)

    def _compare(self, launch: Launch) -> None:
        """Compare the results of a finished launch with those of the CPU or of its kernels one by one."""
        faults = self.engine.faults
        cause, right = self._compare_singly(launch) if self.steps else self._compare_with_host(launch)
        if self.engine.faults != faults:  # A single launch failed, so the CPU has computed a part of `right`.
            launch.replaced(right)
            return
        if cause is not None:
            self.engine.reject(launch, cause, right)
            return
        self.engine.health.recovered()
        self.program.faults = 0
        if not self.program.checked:
            self.program.checked = True
            if self.device.checked is not None:
                self.device.checked.add(self.program.key)

    def _compare_singly(self, launch: Launch) -> tuple[str | None, Sequence[Buffer]]:
        """Return the difference from the results of the kernels one by one, if any, and these results."""
        values = launch.values()
        self._launch_singly(values)
        right = [values[item] for item, _ in launch.results]
        for (_, result), expected in zip(launch.results, right, strict=True):
            if bytes(flat(result, uint8)) != bytes(flat(expected, uint8)):
                return f"a result of the {len(self.kernels)} kernels is not what they give one by one", right
        return None, right

    def _compare_with_host(self, launch: Launch) -> tuple[str | None, Sequence[Buffer]]:
        """Return the difference from the CPU's results, if any, and these results."""
        (kernel,) = self.kernels
        task = kernel.task
        right = on_host(launch, self._inputs_as_read(launch))
        numbers = {output.item: number for number, output in enumerate(task.outputs)}
        for (item, result), expected in zip(launch.results, right, strict=True):
            dtype = task.outputs[numbers[item]].dtype
            allowed = tolerance(task, numbers[item], coarse=kernel.offer.coarse)
            wrong = disagreement(flat(result, dtype), flat(expected, dtype), allowed)
            if wrong is not None:
                return f"its result differs from the CPU's: {wrong}", on_host(launch)
        return None, right

    def _inputs_as_read(self, launch: Launch) -> list[Any]:
        """Return the inputs of a launch, rounded if their host buffers have a smaller dtype."""
        values = dict(zip(self.inputs, launch.inputs, strict=True))
        for argument in self.arguments:
            host, dtype, item = argument.host, argument.dtype, argument.item
            if not argument.output and item is not None and dtype is not None and host.dtype != dtype.name:
                rounded = as_read(host, flat(values[item], dtype))
                values[item] = Buffer.from_array(np.ascontiguousarray(rounded))
        return [*values.values()]
