"""What the cost model says of a workload on an NPU, without one: from host memory and back into it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import npu_tensor as nt
from npu_tensor.fuse import share_common, tasks
from npu_tensor.graph import capture, digraph
from npu_tensor.placement import Answer, Job, Movement, weight
from npu_tensor.runtime.sim.device import SimulatedDevice
from npu_tensor.selection import allocator, host_devices
from npu_tensor.task import Kernel, Refusal, Task

__all__ = ["GENERATIONS", "predicted_seconds"]

GENERATIONS: Final = ("npu1", "npu2")

NPU, CPU = 0, 1
"""Devices as `placement` numbers them."""


def predicted_seconds(generation: str, result: nt.Tensor, *fresh: nt.Tensor) -> float | str:
    """Of computing a pending tensor on an NPU, or why no kernel of that generation takes part.

    Every op that has a kernel runs on the NPU, the others on the CPU, as it is predicted. In every run the operands
    `fresh` are copied from the host's memory and the result back into it; other operands stay on the NPU.
    """
    device = SimulatedDevice(f"sim:{generation}", allocator())
    found = capture([result._node])
    graph = digraph(found)
    share_common(graph)
    new = {tensor._node for tensor in fresh}
    lasting = {item for item, leaf in found.leaves if leaf not in new}
    jobs, refusals = [], []
    for task in tasks(graph, device.fusion).tasks:
        answer = device.claim(task)
        if isinstance(answer, Refusal):
            refusals.append(answer.reason)
            jobs.append(_job(task, None, _host_kernel(task), lasting))
        else:
            jobs.append(_job(task, answer, None, lasting))
    if len(refusals) == len(jobs):
        return "; ".join(dict.fromkeys(refusals)) or "nothing is computed"
    places = [CPU if job.answers[NPU] is None else NPU for job in jobs]
    return weight(jobs, (device.switch.seconds,), places, range(len(jobs)), found.keep)


def _job(task: Task, npu: Kernel | None, cpu: Kernel | None, lasting: Collection[int]) -> Job:
    inputs = tuple(operand.item for operand in task.inputs)
    outputs = tuple(output.item for output in task.outputs)
    here = None if cpu is None else Answer(cpu.cost.expense.seconds)
    if npu is None:
        return Job(inputs, outputs, (None, here))
    cost = npu.cost
    reads = tuple(
        Movement(0.0 if item in lasting else move.expense.seconds, move.form)
        for item, move in zip(inputs, cost.reads, strict=True)
    )
    writes = tuple(Movement(move.expense.seconds, move.form) for move in cost.writes)
    return Job(inputs, outputs, (Answer(cost.expense.seconds, cost.context, reads, writes), here))


def _host_kernel(task: Task) -> Kernel:
    answers = (device.claim(task) for device in host_devices())
    return next(answer for answer in answers if not isinstance(answer, Refusal))
