"""A step of a plan that launches a program on an NPU: what it reads and writes, and what it does in doubt."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from npu_tensor import events
from npu_tensor.dtypes import uint8
from npu_tensor.errors import DeviceError, LaunchError
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import as_read, disagreement, tolerance
from npu_tensor.runtime.npu.buffers import LaunchOperand, Lease, OutOfMemory, ResidentBuffer, leased_copy
from npu_tensor.runtime.npu.faults import is_strict
from npu_tensor.runtime.npu.launch_plan import Argument, LaunchPlan
from npu_tensor.runtime.npu.launches import KernelStep, Launch, on_host
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.runtime.npu.packing import check_indexes, flat

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice

__all__ = ["LaunchStep"]

CHECK_INTERVAL: Final = 1000
"""Launches of a program from one comparison with the CPU to the next: what ages or heats up shows, at little cost."""


def _operand(engine: NpuEngine, argument: Argument) -> LaunchOperand:
    item, output, host, dtype, nbytes, form, result_bytes, call = argument
    key = 0
    if item is not None and not output:
        assert dtype is not None
        # In the tensor's own order the bytes are the same, whatever shape a kernel gives them.
        key = engine.key(math.prod(host.layout.shape) * dtype.itemsize if form is None else form)
    direct = item is not None and form is None
    return LaunchOperand(item, output, host, dtype, nbytes, direct, key, result_bytes, call)


class LaunchStep(KernelStep):
    """Runs a launch on an NPU. steps: of each kernel by itself.

    A kernel is compared with the CPU, and a launch of several with these kernels one by one, bit for bit.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        device: NpuDevice,
        program: NpuProgram,
        steps: Sequence[LaunchStep] = (),
    ) -> None:
        self.device = device
        self.engine = device.engine
        self.kernels = plan.kernels
        self.steps = steps
        self.has_words = any(kernel.offer.scalars for kernel in plan.kernels)
        self.own_words = plan.words
        self.operands = [_operand(self.engine, argument) for argument in plan.arguments]
        tasks = [kernel.task for kernel in plan.kernels]
        super().__init__(tasks, program, [operand.output for operand in self.operands], device.on_host)

    def __call__(self, values: list[Any]) -> None:
        """What the plan calls."""
        if self.own_words and self._words(values) != self.own_words:
            self._one_by_one(values)
            return
        engine, program, latest = self.engine, self.program, self.latest
        if latest is not None and latest.phase == "running" and engine.ready:
            engine.wait(latest)  # Its run objects are needed again; here nobody has to wait for us.
        program.launches += 1
        if program.launches % CHECK_INTERVAL == 0 and self.device.checks_now:
            for each in (self, *self.steps):
                each.program.checked = False
        while program.checked and engine.health.trusted and engine.ready and not program.refused:
            try:
                if self.launch(values) is not None:
                    return
            except OutOfMemory:
                break
        self.launch_with_care(values)

    def _words(self, values: list[Any]) -> tuple[int, ...]:
        """What a run gives the runtime parameters of its kernels."""
        return tuple([word for kernel in self.kernels for word in kernel.words(values)])

    def _one_by_one(self, values: list[Any]) -> None:
        """Launch each kernel by itself."""
        for step in self.steps:
            step(values)

    def launch(self, values: list[Any]) -> Launch | None:
        """Enqueue one run; its results are in `values` at once. None if there was a fault meanwhile.

        Raises OutOfMemory and what the user's values cause.
        """
        engine, device = self.engine, self.device
        faults = engine.faults
        inputs = tuple(map(values.__getitem__, self.inputs))
        words = self._words(values) if self.has_words and self.own_words is None else ()
        leases: list[Lease] = []
        results: list[tuple[int, ResidentBuffer]] = []
        take = engine.pool.take
        for operand in self.operands:
            item = operand.item
            if not operand.output:
                leases.append(self._reading(operand, values[item]))  # type: ignore[index]
                continue
            lease = take(operand.nbytes)
            leases.append(lease)
            if item is not None:
                results.append((item, ResidentBuffer(device, lease, operand)))
        launch = Launch(self, leases, inputs, results, words)
        if not engine.enqueue(launch, faults):
            return None
        for item, result in results:
            values[item] = result
        return launch

    def _reading(self, operand: LaunchOperand, value: Buffer) -> Lease:
        """Where the NPU finds a value."""
        engine = self.engine
        if operand.host.indexes is not None:
            assert operand.dtype is not None
            check_indexes(operand.host, flat(value, operand.dtype), operand.call)
        if isinstance(value, ResidentBuffer) and value.home is self.device:
            pending = value.launch
            if pending is not None and (
                isinstance(pending, Exception)
                or pending.step.program.binary != self.program.binary  # Contexts do not wait for each other.
                or (pending.batch is not None and pending.batch.abandoned)
            ):
                engine.finish(pending)
            lease = value.lease
            if lease is not None and operand.direct and value.operand.direct:
                block = lease.block
                if block.nbytes >= operand.nbytes and block.pool is engine.pool:
                    return lease
        since = time.perf_counter()
        lease = leased_copy(value, operand, engine.pool)
        if events.listeners:
            engine.notices.add_phase("convert", since)
        return lease

    def launch_with_care(self, values: list[Any]) -> None:
        """Where something is in doubt: the first run of a kernel, every thousandth, or the device after a fault."""
        engine, program = self.engine, self.program
        engine.check_process()
        reason = program.refused or (engine.health.cause if engine.health.state == "resting" else "")
        if program.refused and self.steps:  # Such as where a file declares fewer host buffers.
            self._one_by_one(values)
            return
        if reason:
            self._leave(values, reason)
            return
        engine.synchronize()
        try:
            engine.reopen()
            while (launch := self.launch(values)) is None:
                pass  # What it reads was abandoned, and is computed by now.
        except DeviceError as error:
            engine.health.failed(str(error))
            self._leave(values, str(error))
            return
        except OutOfMemory as error:
            if self.steps:  # Of which each needs less at once.
                self._one_by_one(values)
                return
            engine.decline(self.program, error)
            self.on_host(values)
            return
        engine.finish(launch)
        if launch.on_device and not (program.checked and engine.health.trusted):
            self._compare(launch)

    def _leave(self, values: list[Any], reason: str) -> None:
        """Let the CPU compute it while the device or the kernel is not to be used. Raises LaunchError if strict."""
        uri = self.device.uri
        if is_strict():
            raise LaunchError(f"{self.program.name} is not launched on {uri}: {reason}")
        if events.listeners:
            events.emit(events.Fallback(self.program.name, uri, reason))
        self.on_host(values)

    def _compare(self, launch: Launch) -> None:
        """Compare the results of a launch that has ended with the CPU's, or with those of its kernels one by one."""
        faults = self.engine.faults
        cause, right = self._differs_singly(launch) if self.steps else self._differs_from_host(launch)
        if self.engine.faults != faults:  # Of what it was compared with, which the CPU has computed in part.
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

    def _differs_singly(self, launch: Launch) -> tuple[str | None, Sequence[Buffer]]:
        """How the results differ from those of the kernels one by one, and these."""
        values = launch.values()
        self._one_by_one(values)
        right = [values[item] for item, _ in launch.results]
        for (_, result), expected in zip(launch.results, right, strict=True):
            if bytes(flat(result, uint8)) != bytes(flat(expected, uint8)):
                return f"a result of the {len(self.kernels)} kernels is not what they give one by one", right
        return None, right

    def _differs_from_host(self, launch: Launch) -> tuple[str | None, Sequence[Buffer]]:
        """How the results differ from the CPU's, and what the CPU computes."""
        (kernel,) = self.kernels
        task = kernel.task
        right = on_host(launch, self._as_read(launch))
        numbers = {output.item: number for number, output in enumerate(task.outputs)}
        for (item, result), expected in zip(launch.results, right, strict=True):
            dtype = task.outputs[numbers[item]].dtype
            allowed = tolerance(task, numbers[item], coarse=kernel.offer.coarse)
            wrong = disagreement(flat(result, dtype), flat(expected, dtype), allowed)
            if wrong is not None:
                return f"its result differs from the CPU's: {wrong}", on_host(launch)
        return None, right

    def _as_read(self, launch: Launch) -> list[Any]:
        """The inputs of a launch, rounded where its host buffers have a smaller dtype."""
        values = dict(zip(self.inputs, launch.inputs, strict=True))
        for operand in self.operands:
            host, dtype, item = operand.host, operand.dtype, operand.item
            if not operand.output and item is not None and dtype is not None and host.dtype != dtype.name:
                rounded = as_read(host, flat(values[item], dtype))
                values[item] = Buffer.from_array(np.ascontiguousarray(rounded))
        return [*values.values()]
