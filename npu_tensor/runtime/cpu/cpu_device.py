"""The CPU device: claims tasks for LLVM-compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from npu_tensor.runtime.cpu.data_ops import COMPOSED
from npu_tensor.runtime.cpu.gather_along import gather_kernel
from npu_tensor.runtime.cpu.kernels import (
    ComposedKernel,
    DequantizeKernel,
    LoopKernel,
    ProductKernel,
    QuantizedKernel,
)
from npu_tensor.runtime.cpu.loop_kernel import refusal
from npu_tensor.runtime.cpu.matrix_vector import as_product
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.put_rows import rows_kernel
from npu_tensor.runtime.cpu.write_strided import strided_kernel
from npu_tensor.task import Fusion, Kernel, Refusal, Task

__all__ = ["CpuDevice"]


KERNELS: Final[Mapping[str, Callable[[Processor, Task], Kernel | Refusal]]] = {
    "linear_quantized": QuantizedKernel,
    "dequantize": DequantizeKernel,
    "gather_along": gather_kernel,
    "put": rows_kernel,
    "write_strided": strided_kernel,
}
"""By data op, those of which kernels are written for it alone; or why a task has none."""


class CpuDevice(Processor):
    """The processor of this machine."""

    uri = "cpu"
    fusion = Fusion(arguments=MAX_SLOTS - 2)  # A product has two more: its factors, packed.

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Nothing takes long: LLVM compiles in milliseconds, one module at a time."""

    def claim(self, task: Task) -> Kernel | Refusal:
        """A compiled kernel, or why the task has none."""
        if task.kind == "data":
            if task.ops[0] in KERNELS:
                return KERNELS[task.ops[0]](self, task)
            compose = COMPOSED.get(task.ops[0])
            composed = Refusal("no compiled form") if compose is None else compose(task)
            return composed if isinstance(composed, Refusal) else ComposedKernel(self, task, composed)
        assert task.program is not None
        programs = [task.program, *(prologue.program for prologue in task.prologues if prologue)]
        for program in programs:
            reason = refusal(program)
            if reason is not None:
                return Refusal(reason)
        product = as_product(task) if task.kind == "row" else task
        if product is not None and product.kind == "matmul":
            return ProductKernel(self, product)
        return LoopKernel(self, task)
