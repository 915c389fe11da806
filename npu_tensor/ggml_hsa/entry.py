"""`Entry`: one kernel of a configuration, from its descriptors to the request that builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa import function_files as kernel_source
from npu_tensor.ggml_hsa import ops_json as recorded
from npu_tensor.ggml_hsa.single_task import capture_task, request_for
from npu_tensor.kernels.offer import Bfloat16, Float32, Functions, Offer, Target
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.runtime.store.requests import Request
from npu_tensor.task import Refusal, Task


class Planned(NamedTuple):
    """Task of an entry, and the offer of a kernel family for it."""

    task: Task
    offer: Offer


@dataclass(frozen=True)
class Entry:
    """A kernel to be made.

    Attributes:
        kernel_name: Function in `source`; only a label if there are `ops`.
        source: Python file.
        arch: Generation of the array.
        input_tensors: Descriptors of the operands.
        output_tensor: Descriptor of the result.
        exported_name: Name of the files.
        op_params: Keywords of the function.
        cols: Number of columns of the array; 0 for all.
        float32: Precision of float32 on the array.
        bfloat16: Precision of bfloat16 on the array.
        functions: Precision of exp, tanh and sigmoids on the array.
        ops: Recorded ops in place of a function; see `ops_json`.
    """

    kernel_name: str
    source: Path | None
    arch: Arch
    input_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    exported_name: str
    op_params: Mapping[str, Any] = field(default_factory=dict)
    cols: int = 0
    float32: Float32 = recorded.DEFAULT_FLOAT32
    bfloat16: Bfloat16 = "exact"
    functions: Functions = "exact"
    ops: tuple[Mapping[str, Any], ...] = ()

    @property
    def target(self) -> Target:
        """The array that the kernel is for."""
        array = ARRAYS[self.arch]
        return Target(array, self.cols or array.columns, self.float32, self.bfloat16, self.functions)

    @cached_property
    def planned(self) -> Planned:
        """The task and the offer of a kernel family, without the design. Raises ArgumentError if there is no kernel."""
        try:
            task, answer = self._task()
        except NpuTensorError:
            raise
        except Exception as error:  # attributes come from a file, and only the bodies of ops check them
            raise ArgumentError(f"{type(error).__name__}: {error}") from error
        if isinstance(answer, Refusal):
            raise ArgumentError(f"no NPU kernel for {self.kernel_name} on {self.arch}: {answer.reason}")
        return Planned(task, answer)

    def _task(self) -> tuple[Task, Offer | Refusal]:
        if self.ops:
            return recorded.replay(self.ops, self.input_tensors, self.output_tensor, self.target)
        assert self.source is not None
        function = kernel_source.function(self.source, self.kernel_name)
        return capture_task(function, self.input_tensors, self.target, self.output_tensor, self.op_params)

    def request(self) -> Request:
        """Return the request for the kernel library. Raises ArgumentError."""
        return request_for(*self.planned)
