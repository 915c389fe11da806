"""Predictions of the cost model for a workload on an NPU, from and to host memory, and on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

import npu_tensor as nt
from npu_tensor.graph.structure import item_graph, structure_of
from npu_tensor.kernels.offer import Target
from npu_tensor.planner.device_choice import job, overhead
from npu_tensor.planner.fuse import cut, partitions
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.planner.measures import MEASURES
from npu_tensor.planner.placement import weight
from npu_tensor.runtime.devices.host import allocator, host_devices, host_kernel, host_step
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Refusal, Task

GENERATIONS: Final = ("npu1", "npu2")

NPU, CPU = 0, 1
"""Device numbers of `placement`."""


class Prediction(NamedTuple):
    """Predicted seconds of one run. `note` gives the number of kernels on the NPU."""

    seconds: float
    note: str


def predicted(generation: str, result: nt.Tensor, *fresh: nt.Tensor) -> Prediction | str:
    """Predict the time of a pending tensor on an NPU, or return why the figure would not describe an NPU.

    Ops with a kernel run on the NPU, the others on the CPU. The NPU must do at least half of the work; of the matrix
    products, if there are any. `fresh` operands are copied from host memory in every run; others stay on the NPU.
    """
    array = SIMULATED[generation]
    device = SimulatedDevice(f"sim:{generation}", Target(array, array.columns), allocator(), host_step)
    graph = structure_of([result._node])

    def takes(task: Task) -> bool:
        return not isinstance(device.claim(task), Refusal)

    tasks, _, kept = partitions(lower(item_graph(graph, merge=True)), device.fusion, takes)[-1]
    new = {tensor._node for tensor in fresh}
    persistent = frozenset(item for item, leaf in enumerate(graph.leaves) if leaf not in new)
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


def npu_tasks(*results: nt.Tensor) -> Sequence[Task]:
    """Cut pending tensors that are computed together into tasks of an NPU, in order."""
    return cut(structure_of([result._node for result in results]), SimulatedDevice.fusion).tasks


def predicted_on_cpu(result: nt.Tensor) -> float:
    """Predict the seconds of a pending tensor on this machine's processor."""
    tasks = cut(structure_of([result._node]), host_devices()[0].fusion).tasks
    return sum(host_kernel(task).cost.expense.seconds for task in tasks)


def _work(tasks: Sequence[Task]) -> list[int]:
    """Return the work of each task: MACs of matrix products, or elements times ops if no task has products."""
    products = [task.macs for task in tasks]
    return products if any(products) else [math.prod(task.shape) * len(task.ops) for task in tasks]
