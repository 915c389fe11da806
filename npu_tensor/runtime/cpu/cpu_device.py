"""The CPU device: claims tasks for LLVM-compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from npu_tensor.kernels.vector_product import as_sum_over_rows
from npu_tensor.runtime.cpu.attention_kernel import attention_kernel
from npu_tensor.runtime.cpu.bisection import search_kernel
from npu_tensor.runtime.cpu.bound_loops import BoundKernel, LoopTable, Packed
from npu_tensor.runtime.cpu.concat import concat_kernel
from npu_tensor.runtime.cpu.convolution_gradients import transposed_kernel, weight_gradient_kernel
from npu_tensor.runtime.cpu.convolution_kernel import convolution_kernel
from npu_tensor.runtime.cpu.data_ops import COMPOSED
from npu_tensor.runtime.cpu.kernels import CpuKernel, LoopKernel, ProductKernel, composed_kernel
from npu_tensor.runtime.cpu.loop_kernel import refusal
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.pool_kernel import pool_kernel, positions_kernel
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.quantized_product import DequantizeKernel, QuantizedKernel
from npu_tensor.runtime.cpu.recurrence_steps import recurrence_kernel
from npu_tensor.runtime.cpu.row_copies import rows_kernel
from npu_tensor.runtime.cpu.row_selection import selection_kernel
from npu_tensor.runtime.cpu.sample_kernel import samples_kernel
from npu_tensor.runtime.cpu.scan import scan_kernel
from npu_tensor.runtime.cpu.write_strided import strided_kernel
from npu_tensor.task import Fusion, Kernel, PlannedLaunch, Refusal, Step, Task

KERNELS: Final[Mapping[str, Callable[[Processor, Task], Kernel | Refusal]]] = {
    **dict.fromkeys(["conv_transpose_1d", "conv_transpose_2d", "conv_transpose_3d"], transposed_kernel),
    "conv_weight_gradient": weight_gradient_kernel,
    **dict.fromkeys(("attention", "attention_backward"), attention_kernel),
    "linear_quantized": QuantizedKernel,
    "concat": concat_kernel,
    "dequantize": DequantizeKernel,
    "gather_along": partial(rows_kernel, puts=False),
    "put": partial(rows_kernel, puts=True),
    "scatter_along": partial(rows_kernel, puts=True),
    "take": partial(rows_kernel, puts=False),
    "take_points": partial(rows_kernel, puts=False),
    **dict.fromkeys(("cumsum", "cumprod", "running_extreme"), scan_kernel),
    "search_places": search_kernel,
    "top_indices": selection_kernel,
    "write_strided": strided_kernel,
    **dict.fromkeys(("pool_1d", "pool_2d", "pool_3d", "adaptive_pool", "upscale", "resample_backward"), pool_kernel),
    **dict.fromkeys(("max_pool_positions", "max_pool_backward"), positions_kernel),
    **dict.fromkeys(("samples_at", "samples_at_backward_0", "samples_at_backward_1"), samples_kernel),
    **dict.fromkeys(("gru", "gru_backward", "lstm", "lstm_backward", "rnn", "rnn_backward"), recurrence_kernel),
    **dict.fromkeys(COMPOSED, composed_kernel),
}
"""Constructors of kernels by data op, which may refuse a task. A new kind of kernel is registered here."""


MOST_BYTES: Final = 1 << 26
"""Upper bound on the bytes of a new value in a joint call, which Ctrl-C does not end. Chosen, not measured."""


def _together(kernels: Sequence[Kernel]) -> list[BoundKernel]:
    """Return the loops of the first kernels that can be one call: what they pack must exist before."""
    bound: list[BoundKernel] = []
    made: set[int] = set()
    for kernel in kernels:
        if not isinstance(kernel, CpuKernel) or kernel.loops is None:
            break
        loops = kernel.loops
        if any(nbytes > MOST_BYTES for _, nbytes in loops.new):
            break
        if any(isinstance(slot, Packed) and slot.item in made for loop in loops.loops for slot in loop.slots):
            break
        bound.append(BoundKernel(loops, [output.item for output in kernel.task.outputs]))
        made.update(bound[-1].results)
    return bound


class CpuDevice(Processor):
    """The processor of this machine."""

    uri = "cpu"
    fusion = Fusion(arguments=MAX_SLOTS - 2)  # A product has two more: its factors, packed.

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Do nothing: LLVM compiles in milliseconds, one module at a time."""

    def launches(
        self, kernels: Sequence[Kernel], steps: Sequence[Step], dying: Sequence[Sequence[int]]
    ) -> list[PlannedLaunch]:
        """Join consecutive loops on small values in one call of native code. The `steps` run one kernel each."""
        result: list[PlannedLaunch] = []
        first = 0
        while first < len(kernels):
            bound = _together(kernels[first:])
            end = first + max(1, len(bound))
            if bound:
                table = LoopTable(self, bound, frozenset(chain(*dying[first:end])))
                result.append(PlannedLaunch(len(bound), table.step()))
            else:
                result.append(PlannedLaunch(1, steps[first]))
            first = end
        return result

    def claim(self, task: Task) -> Kernel | Refusal:
        """Return a compiled kernel, or the reason why the task has none."""
        if task.kind == "data":
            new_kernel = KERNELS.get(task.ops[0])
            return Refusal("no compiled form") if new_kernel is None else new_kernel(self, task)
        programs = [task.program, *(prologue.program for prologue in task.prologues if prologue)]
        for program in programs:
            reason = refusal(program)
            if reason is not None:
                return Refusal(reason)
        if task.kind == "conv":
            return convolution_kernel(self, task)
        if task.kind != "matmul":
            return LoopKernel(self, task)
        if task.shape[-2:] == (1, 1):  # Threads share a long row.
            return LoopKernel(self, as_sum_over_rows(task))
        return ProductKernel(self, task)
