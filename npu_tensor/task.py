"""The interface between the planner and the devices.

The planner cuts a graph into `Task`s, each the work of one kernel. `claim(task)` of a device returns a `Kernel`, or a
`Refusal` with the reason. Claiming is a lookup and must not raise; a kernel is compiled when it is bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from npu_tensor.dtypes import DType
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.expression import Program
from npu_tensor.spec import Spec

__all__ = [
    "Accelerator",
    "AsynchronousDevice",
    "Cost",
    "Device",
    "Expense",
    "Fusion",
    "HostDevice",
    "Input",
    "Kernel",
    "Move",
    "NumberInput",
    "Output",
    "PlannedLaunch",
    "Prologue",
    "Refusal",
    "Step",
    "Task",
    "TensorInput",
]

T = TypeVar("T")

Step = Callable[[list[Any]], None]
"""A bound kernel: reads and writes the values of a plan, a list indexed by item."""


class PlannedLaunch(NamedTuple):
    """A step of a plan.

    Attributes:
        kernels: Number of kernels that the step runs.
        step: Bound step.
        pending: True if the step will run more kernels once a background build has finished.
    """

    kernels: int
    step: Step
    pending: bool = False


class TensorInput(NamedTuple):
    """An operand that is a tensor.

    Attributes:
        item: Number in the plan.
        dtype: Dtype of the elements.
        layout: Layout over the task's shape.
        persistent: True if the value is the same in every run of the plan, False if it is not, None if unknown.
    """

    item: int
    dtype: DType
    layout: Layout
    persistent: bool | None = None


class NumberInput(NamedTuple):
    """An operand that is a number; `layout is None` tells it from a tensor."""

    item: int
    dtype: None = None
    layout: None = None
    persistent: bool | None = None


Input = TensorInput | NumberInput
"""An operand."""


class Output(NamedTuple):
    """A result.

    Attributes:
        item: Number in the plan.
        dtype: Dtype of the elements.
        layout: Layout over the task's shape, with stride 0 along reduced dimensions.
        nbytes: Size in bytes.
        donor: Operand whose buffer the result takes over, or None for a new buffer.
    """

    item: int
    dtype: DType
    layout: Layout
    nbytes: int
    donor: int | None = None


class Prologue(NamedTuple):
    """A program that computes an operand of a matrix product on the fly, without storing it.

    Attributes:
        program: Element-wise program with one result; slot i is input i of the operand.
        inputs: Number of inputs of the task that belong to it.
        dtype: Dtype to which every element is rounded once, as if the operand had been stored.
    """

    program: Program
    inputs: int
    dtype: DType


class Task(NamedTuple):
    """The work of one kernel.

    The inputs of a matmul task are in this order: the inputs of operand A; the inputs of operand B, laid out over the
    batch and B's own rows and columns; the inputs of the program, whose slot 0 is the sum of products and slot i its
    own input i. An operand is a single input, or is computed from several inputs by its prologue; `split` separates
    them. An operand without a prologue may have several dimensions in place of batch, rows or columns, because windows
    of an image are not a matrix with strides. See `ops.layouts.factored`. The inputs of a conv task are the image and
    the weight, in their own shapes, and then those of the program, whose slot 0 is the convolution.

    Attributes:
        kind: Structure of its kernel.
        items: Numbers of the ops that it covers, in order.
        ops: Names of these ops.
        inputs: Operands.
        outputs: Results.
        shape: Iteration domain.
        rows: Number of trailing dimensions of `shape` that form a row, for row tasks.
        program: Program per element; empty for data tasks.
        call: The op of a matmul, conv or data task.
        prologues: Prologues of the operands A and B of a matrix product.
        calls: Calls of all ops, in order; for a copy, the view that it materializes. They determine the names of
            kernels and add no information to the other fields.
    """

    kind: Literal["map", "row", "matmul", "conv", "data"]
    items: tuple[int, ...]
    ops: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    shape: tuple[int, ...]
    rows: int = 0
    program: Program = Program((), ())
    call: Call | None = None
    prologues: tuple[Prologue | None, Prologue | None] = (None, None)
    calls: tuple[Call, ...] = ()

    def numbered(self) -> tuple[Task, tuple[int, ...]]:
        """Return the task with items that are numbered from 0, and its own items in that order."""
        numbers: dict[int, int] = {}

        def number(item: int) -> int:
            return numbers.setdefault(item, len(numbers))

        task = self._replace(
            inputs=tuple([source._replace(item=number(source.item)) for source in self.inputs]),
            outputs=tuple(
                [
                    Output(number(item), dtype, layout, nbytes, None if donor is None else number(donor))
                    for item, dtype, layout, nbytes, donor in self.outputs
                ]
            ),
            items=tuple(map(number, self.items)),
        )
        return task, tuple(numbers)

    def split(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Split one value per input of a matmul or conv task into those of A, of B and of the program."""
        a, b = (1 if prologue is None else prologue.inputs for prologue in self.prologues)
        return values[:a], values[a : a + b], values[a + b :]

    @property
    def tensors(self) -> tuple[TensorInput, ...]:
        """Operands that are tensors, in order."""
        return tuple([source for source in self.inputs if isinstance(source, TensorInput)])

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the op of a matmul, conv or data task."""
        assert self.call is not None
        return self.call.attributes

    @property
    def depth(self) -> int:
        """Number of products in each sum of a matmul or conv task; 0 for other kinds."""
        if self.kind not in ("matmul", "conv"):
            return 0
        assert self.call is not None
        left, right = self.call.operands
        assert isinstance(left, Spec)
        assert isinstance(right, Spec)
        return left.shape[-1] if self.kind == "matmul" else math.prod(right.shape[1:])

    @property
    def macs(self) -> int:
        """Number of multiply-adds of a matmul or conv task; 0 for other kinds."""
        return math.prod(self.shape) * self.depth

    @property
    def name(self) -> str:
        """Names of the covered ops as one word, shortened in the middle."""
        ops = self.ops if len(self.ops) <= 5 else (*self.ops[:3], f"{len(self.ops) - 4} more", self.ops[-1])
        return "+".join(ops)


class Fusion(NamedTuple):
    """Limits on the part of a graph that one kernel of a device can compute.

    Attributes:
        inputs: Maximum number of tensors that it reads.
        streams: Maximum number of these that differ from row to row, in a kernel that reduces rows.
        prologues: True if operands of a matrix product may be computed on the fly.
        residuals: Kinds of products whose epilogue may read tensors other than vectors along its rows or columns.
        arguments: Maximum number of operands and results together; every view of a tensor is a separate operand.
    """

    inputs: int = 24
    streams: int = 24
    prologues: bool = True
    residuals: tuple[str, ...] = ("matmul", "conv")
    arguments: int = 64


class Refusal(NamedTuple):
    """Refusal of a task.

    Attributes:
        reason: Reason, in words.
        pending: True if the device will take the task once its kernel is built.
    """

    reason: str
    pending: bool = False


class Expense(NamedTuple):
    """Predicted cost.

    Attributes:
        seconds: Elapsed time.
        processor_seconds: Time of all cores of this machine together.
        joules: Total energy.
    """

    seconds: float
    processor_seconds: float
    joules: float


class Move(NamedTuple):
    """Transfer of a value between the processor's memory and the memory of a kernel.

    Attributes:
        expense: Cost of the transfer.
        form: Key that is equal for readers that share one copy in a device's memory; None for the tensor's own bytes
            in order. A result in form None is read in form None on the same device without a transfer.
    """

    expense: Expense
    form: Hashable = None


class Cost(NamedTuple):
    """Predicted cost of one run of a kernel, and of the transfers of its operands and results.

    Attributes:
        expense: Cost of the run, without the launch.
        nbytes: Bytes read and written in the memory that processor and NPU share.
        context: Key of the context. Kernels with equal contexts follow each other without a switch. None on the CPU.
        reads: Transfer of each input; empty on the processor, which reads values where they were computed.
        writes: Transfer of each output; empty on the processor.
    """

    expense: Expense
    nbytes: int
    context: Hashable = None
    reads: tuple[Move, ...] = ()
    writes: tuple[Move, ...] = ()


class Kernel(Protocol):
    """A device's implementation of a task.

    Attributes:
        name: Kernel family.
        device: URI of the device.
        reason: Reason for the choice of this kernel, in words.
        origin: Source of the code of a bound kernel: "precompiled", "cache", "memory" or "built"; "none" if it has no
            code of its own.
    """

    name: str
    device: str
    reason: str
    origin: str

    @property
    def cost(self) -> Cost:
        """Predicted cost of a run. The first access may take milliseconds; it builds nothing."""
        ...

    def bind(self) -> Step:
        """Compile if needed and return the step. Raises BuildError."""
        ...


class Device(Protocol):
    """A device that runs tasks.

    Attributes:
        uri: URI.
        fusion: Limits on the tasks that the scheduler forms for it.
    """

    uri: str
    fusion: Fusion

    def claim(self, task: Task) -> Kernel | Refusal:
        """Return a kernel for the task, or a refusal."""
        ...

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Do the slow part of `bind` for several kernels of this device at once. Errors are those of `bind`."""
        ...


class Accelerator(Device, Protocol):
    """A device with its own memory, other than this machine's processor."""

    @property
    def launch_cost(self) -> Expense:
        """Predicted overhead of a launch, without its kernels."""
        ...

    @property
    def switch_cost(self) -> Expense:
        """Predicted extra cost of a launch that follows one of another hardware context."""
        ...

    @property
    def reconfiguration_cost(self) -> Expense | None:
        """Predicted cost of another configuration within a launch; None if a launch can have only one."""
        ...

    @property
    def shared_contexts(self) -> int:
        """Maximum number of configurations that the launches of a plan share in one hardware context."""
        ...

    def share_configurations(self, kernels: Sequence[Kernel], once: bool) -> None:
        """Give consecutive kernels a common configuration where that lowers their total cost.

        Called before their costs are compared with those of other devices, and before `prepare`.

        Args:
            kernels: Kernels of this device, in order of execution.
            once: True if the plan is made for a single run, so that built and loaded kernels are cheaper.
        """
        ...

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        """Group consecutive bound kernels into as few launches as possible.

        Args:
            kernels: Bound kernels of this device, in order of execution.
            steps: Step of each kernel by itself.
            dying: Items whose last use is each kernel. A value that is made and dies within one launch is never
                stored in the list of values.
            numbers: Current values of scalar operands, by item. A launch may be built for these values; a run with
                other ones executes its kernels one by one.
            together: All kernels that the plan has for this device. They may share a binary.
        """
        ...

    def fetch_cost(self, nbytes: int) -> Expense:
        """Predicted cost of reading a value of `nbytes` that only the device's memory holds."""
        ...

    @property
    def members(self) -> Sequence[Accelerator]:
        """Devices that this one consists of; the device itself if it is a single one."""
        ...


@runtime_checkable
class AsynchronousDevice(Device, Protocol):
    """A device whose steps return before their work is done. Reading a result waits for it."""

    def submit(self) -> None:
        """Start all pending work of its steps."""
        ...

    def synchronize(self) -> None:
        """Wait for all started work. Raises the error of a failed launch."""
        ...


class HostDevice(Device, Protocol):
    """A device that uses this machine's processor."""

    def launches(
        self, kernels: Sequence[Kernel], steps: Sequence[Step], dying: Sequence[Sequence[int]]
    ) -> list[PlannedLaunch]:
        """Combine consecutive bound kernels into as few calls as possible; see `Accelerator.launches`."""
        ...

    @property
    def threads(self) -> int:
        """Number of threads that work on large tasks."""
        ...

    def set_threads(self, threads: int) -> None:
        """Set the number of threads; 0 means all cores of the process."""
        ...
