"""Which device runs each task of a graph, and in which order, so that all of it takes least.

    there = Answer(3e-3, "gemm", reads=(Movement(1e-4),), writes=(Movement(1e-4),))
    jobs = [Job((0,), (1,), (there, Answer(9e-3)))]
    place(jobs, overheads=(Overhead(switch=2.6e-3, launch=3e-4),))

Devices are numbers; the last one is the processor, which takes every job. All weights have one unit, which a policy
has chosen: seconds, processor seconds or joules.
"""

from npu_tensor.planner.placement.assign import ordered, place
from npu_tensor.planner.placement.problem import Answer, Job, Movement, Overhead, Placement, weight

__all__ = ["Answer", "Job", "Movement", "Overhead", "Placement", "ordered", "place", "weight"]
