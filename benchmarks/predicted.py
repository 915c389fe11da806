"""What the cost model says of a workload on an NPU, without one: from host memory and back into it. And on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

import npu_tensor as nt
from npu_tensor.graph.structure import digraph, structure_of
from npu_tensor.kernels.offer import Target
from npu_tensor.planner.fuse import cut, partitions
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.planner.measures import MEASURES
from npu_tensor.planner.placement import weight
from npu_tensor.planner.placing import job, overhead
from npu_tensor.runtime.devices.host import allocator, host_devices, host_kernel, host_step
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Refusal, Task

__all__ = ["GENERATIONS", "Prediction", "predicted", "predicted_on_cpu"]

GENERATIONS: Final = ("npu1", "npu2")

NPU, CPU = 0, 1
"""Devices as `placement` numbers them."""


class Prediction(NamedTuple):
    """Seconds of one run. note: how many of its kernels run on the NPU."""

    seconds: float
    note: str


def predicted(generation: str, result: nt.Tensor, *fresh: nt.Tensor) -> Prediction | str:
    """Of computing a pending tensor on an NPU, or why that would be no figure of one.

    Every op that has a kernel runs on the NPU, the others on the CPU, as it is predicted. In every run the operands
    `fresh` are copied from the host's memory and the result back into it; other operands stay on the NPU. The NPU must
    do half of the work or more: of matrix products, if there are any.
    """
    array = SIMULATED[generation]
    device = SimulatedDevice(f"sim:{generation}", Target(array, array.columns), allocator(), host_step)
    graph = structure_of([result._node])

    def takes(task: Task) -> bool:
        return not isinstance(device.claim(task), Refusal)

    tasks, _, kept = partitions(lower(digraph(graph, merge=True)), device.fusion, takes)[-1]
    new = {tensor._node for tensor in fresh}
    persistent = frozenset(item for item, leaf in graph.leaves if leaf not in new)
    answers = [device.claim(task) for task in tasks]
    on_npu = [not isinstance(answer, Refusal) for answer in answers]
    work = _work(tasks)
    if 2 * sum(compress(work, on_npu)) < sum(work) or not any(on_npu):
        reasons = dict.fromkeys(answer.reason for answer in answers if isinstance(answer, Refusal))
        return "; ".join(reasons) or "nothing is computed"
    jobs = [
        job(task, [answer], host_kernel(task), MEASURES["latency"], persistent)
        for task, answer in zip(tasks, answers, strict=True)
    ]
    places = [NPU if there else CPU for there in on_npu]
    seconds = weight(jobs, (overhead(device, MEASURES["latency"]),), places, range(len(jobs)), kept)
    return Prediction(seconds, f"kernels on the NPU: {sum(on_npu)} of {len(on_npu)}")


def predicted_on_cpu(result: nt.Tensor) -> float:
    """Seconds of computing a pending tensor on this machine's processor."""
    tasks = cut(structure_of([result._node]), host_devices()[0].fusion).tasks
    return sum(host_kernel(task).cost.expense.seconds for task in tasks)


def _work(tasks: Sequence[Task]) -> list[int]:
    """Of each task the multiplications of matrix products, or elements times ops if there are no products at all."""
    products = [task.macs for task in tasks]
    return products if any(products) else [math.prod(task.shape) * len(task.ops) for task in tasks]
