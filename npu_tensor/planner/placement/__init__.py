"""Placement of a graph: the device of each task and the order of the tasks, at the lowest total cost.

    there = Option(3e-3, "gemm", reads=(Movement(1e-4),), writes=(Movement(1e-4),))
    jobs = [Job((0,), (1,), (there, Option(9e-3)))]
    place(jobs, overheads=(Overhead(switch=2.6e-3, launch=3e-4),))

Devices are numbers; the last one is the processor, which takes every job. All weights have one unit, chosen by a
policy: seconds, processor seconds or joules.
"""

from npu_tensor.planner.placement.assign import ordered, place
from npu_tensor.planner.placement.problem import Job, Movement, Option, Overhead, Placement, Usage, weight

__all__ = ["Job", "Movement", "Option", "Overhead", "Placement", "Usage", "ordered", "place", "weight"]
