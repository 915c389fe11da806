"""NPU kernels: one Python file per family (claim and design) with its C++ for the AIE cores in include/nt.

`claim` finds the family that has a design for a task. Which families are asked follows from what the scheduler calls
the task's kind and, for data ops, from the op's name. Installed as `npu_tensor.kernels`.
"""

from __future__ import annotations

import math
from importlib import import_module

from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.task import Refusal, Task

FAMILIES = {
    "map": ("movement.claim", "elementwise.claim"),
    "row": ("rowwise.claim",),
    "matmul": ("gemm.claim",),
}
DATA_OPS = {"concat": "movement.claim_concat", "rotate": "rope.claim", "take": "get_rows.claim"}


def claim(task: Task, target: Target) -> Offer | Refusal:
    """The first family's offer, or what each of them said against the task. A look-up; never raises."""
    if not math.prod(task.shape):
        return Refusal("no elements to compute")
    families = FAMILIES.get(task.kind, ())
    if task.kind == "data":
        families = tuple(DATA_OPS[op] for op in task.ops if op in DATA_OPS)
    reasons = []
    for family in families:
        module, _, function = family.partition(".")
        try:
            answer = getattr(import_module(f"npu_tensor.kernels.{module}"), function)(task, target)
        except ImportError as error:
            answer = Refusal(str(error))
        if isinstance(answer, Offer):
            return answer
        reasons.append(answer.reason)
    return Refusal("; ".join(dict.fromkeys(reasons)) or "no NPU kernel for this op")
