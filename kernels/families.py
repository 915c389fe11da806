"""Selection of the kernel family that has a design for a task, by the name of the op or by the kind of the task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from npu_tensor.kernels import attention, conv, elementwise, gemm, get_rows, movement, quantized, rope, rowwise, windows
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.kernels.vector_product import is_vector_product
from npu_tensor.task import Refusal, Task

Claim = Callable[[Task, Target], Offer | Refusal]


def _claim_map(task: Task, target: Target) -> Offer | Refusal:
    """Claim a map task.

    A copy that no DMA can make does not suit the cores either: the host would have to lay it out.
    """
    return movement.claim(task, target) if movement.is_copy(task) else elementwise.claim(task, target)


def _claim_product(task: Task, target: Target) -> Offer | Refusal:
    return rowwise.claim(task, target) if is_vector_product(task) else gemm.claim(task, target)


BY_KIND: Final[Mapping[str, Claim]] = {
    "map": _claim_map,
    "row": rowwise.claim,
    "matmul": _claim_product,
}
"""Families by kind of task."""

BY_OP: Final[Mapping[str, Claim]] = {
    "attention": attention.claim,
    "concat": movement.claim_concat,
    "conv_2d": conv.claim,
    "conv_2d_dw": windows.claim_convolution,
    "linear_quantized": quantized.claim,
    "pool_2d": windows.claim_pool,
    "rotate": rope.claim,
    "take": get_rows.claim,
}
"""Families of data ops and convolutions, by name of the op."""


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return the offer of the task's family, or its reason for refusing. A lookup; never raises."""
    if not math.prod(task.shape):
        return Refusal("no elements to compute")
    op = task.call.op if task.call is not None else None
    family: Claim | None = (op and (op.claim or BY_OP.get(op.name))) or BY_KIND.get(task.kind)
    if family is None:
        return Refusal("no NPU kernel for this op")
    dtypes = [source.dtype for source in task.inputs if source.dtype is not None and source.dtype.is_quantized]
    if dtypes and family is not quantized.claim:
        return Refusal(f"no NPU kernel for weights in {dtypes[0].name} but that of their product")
    return family(task, target)
