"""The interface of the planner and the devices.

The planner cuts a graph into `Task`s, each the work of one kernel. A device answers `claim(task)` with a `Kernel`
or a `Refusal` that says why not. Claiming is a look-up and must not raise; a kernel is compiled when it is bound.
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
    "Output",
    "PlannedLaunch",
    "Prologue",
    "Refusal",
    "Step",
    "Task",
]

T = TypeVar("T")

Step = Callable[[list[Any]], None]
"""A bound kernel: reads and writes the values of a plan, a list indexed by item."""


class PlannedLaunch(NamedTuple):
    """What a step of a plan runs at once. kernels: how many. pending: whether it will be more when that is built."""

    kernels: int
    step: Step
    pending: bool = False


class Input(NamedTuple):
    """An operand.

    item: its number in the plan.
    dtype: of its elements; None for a number.
    layout: how it lies over the task's shape; None for a number.
    """

    item: int
    dtype: DType | None
    layout: Layout | None


class Output(NamedTuple):
    """A result.

    item: its number in the plan.
    dtype: of its elements.
    layout: how it lies over the task's shape; stride 0 along reduced dimensions.
    nbytes: of its elements.
    donor: an operand whose buffer the result takes over, or None for a new buffer.
    """

    item: int
    dtype: DType
    layout: Layout
    nbytes: int
    donor: int | None = None


class Prologue(NamedTuple):
    """A program that computes an operand of a matrix product, which then has no memory of its own.

    program: element-wise, with one result; slot i is input i of the operand.
    inputs: how many inputs of the task belong to it.
    dtype: what every element is rounded to once, as if the operand had been stored.
    """

    program: Program
    inputs: int
    dtype: DType


class Task(NamedTuple):
    """The work of one kernel.

    kind: what a kernel for it looks like.
    items: numbers of the ops that it covers, in order.
    ops: their names.
    inputs: operands, see below for matrix products.
    outputs: results.
    shape: the iteration domain.
    rows: how many trailing dimensions of `shape` are one row; of row tasks.
    program: what is computed per element from the inputs.
    call: the op of a matmul or data task.
    prologues: of the operands A and B of a matrix product.
    calls: those of all ops, in order; for a copy, the view that it makes real. Kernels are named after them. Nothing is
        computed from them that the other fields do not say.

    The inputs of a matmul task are in this order: the inputs of operand A; the inputs of operand B, laid out over the
    batch and B's own rows and columns; the inputs of the program, whose slot 0 is the sum of products and slot i its
    own input i. An operand is its one input, or what its prologue computes from several; `split` tells them apart.
    An operand without a prologue may lie over several dimensions in place of each of batch, rows and columns, whose
    extents are their products: what windows of an image meet is no matrix with strides. See `ops.layouts.factored`.
    """

    kind: Literal["map", "row", "matmul", "data"]
    items: tuple[int, ...]
    ops: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    shape: tuple[int, ...]
    rows: int = 0
    program: Program | None = None
    call: Call | None = None
    prologues: tuple[Prologue | None, Prologue | None] = (None, None)
    calls: tuple[Call, ...] = ()

    def split(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """The inputs of a matmul task, or what stands for each: for A, for B and for the program."""
        a, b = (1 if prologue is None else prologue.inputs for prologue in self.prologues)
        return values[:a], values[a : a + b], values[a + b :]

    @property
    def depth(self) -> int:
        """How many products each sum of a matmul task has; 0 for other kinds."""
        if self.kind != "matmul":
            return 0
        assert self.call is not None
        left = self.call.operands[0]
        assert isinstance(left, Spec)
        return left.shape[-1]

    @property
    def macs(self) -> int:
        """Multiplications of a matmul task, each with an addition; 0 for other kinds."""
        return math.prod(self.shape) * self.depth

    @property
    def name(self) -> str:
        """The covered ops as one word, shortened in the middle."""
        ops = self.ops if len(self.ops) <= 5 else (*self.ops[:3], f"{len(self.ops) - 4} more", self.ops[-1])
        return "+".join(ops)


class Fusion(NamedTuple):
    """How much of a graph one kernel of a device can take.

    inputs: the most tensors that it reads.
    streams: of these, in a kernel that reduces rows, the most that may differ from row to row.
    prologues: whether operands of a matrix product may be computed on the way.
    residuals: whether what follows a product may read other tensors than vectors along its rows or columns.
    arguments: the most operands and results together; every view of a tensor is an operand of its own.
    """

    inputs: int = 24
    streams: int = 24
    prologues: bool = True
    residuals: bool = True
    arguments: int = 64


class Refusal(NamedTuple):
    """Why a device does not take a task. pending: it will, when its kernel is built."""

    reason: str
    pending: bool = False


class Expense(NamedTuple):
    """What something is predicted to take.

    seconds: until it is done.
    processor_seconds: of all cores of this machine together.
    joules: of everything.
    """

    seconds: float
    processor_seconds: float
    joules: float


class Move(NamedTuple):
    """How a value gets from the processor's memory to where a kernel reads it, or back from where one has left it.

    expense: of the move.
    form: equal for readers that share one copy in a device's memory; None if it is the tensor's own bytes in their
        order. What a kernel has left in form None is read in form None on the same device without any move.
    """

    expense: Expense
    form: Hashable = None


class Cost(NamedTuple):
    """What one run of a kernel is predicted to take, and what moving its operands and results takes besides.

    expense: of the run, in a launch.
    nbytes: read and written in the memory that processor and NPU share.
    context: kernels of a device with equal contexts follow each other without a switch; None on the processor.
    reads: one per input of the task; empty on the processor, which reads values where they were computed.
    writes: one per output of the task; empty on the processor.
    """

    expense: Expense
    nbytes: int
    context: Hashable = None
    reads: tuple[Move, ...] = ()
    writes: tuple[Move, ...] = ()


class Kernel(Protocol):
    """A device's answer to a task it takes.

    name: the kernel family.
    device: URI.
    reason: why this kernel, in words.
    origin: once it is bound, where its code came from: "precompiled", "cache", "memory" or "built"; "none" if it has no
        code of its own.
    """

    name: str
    device: str
    reason: str
    origin: str

    @property
    def cost(self) -> Cost:
        """What a run is predicted to take. Asking may take milliseconds the first time; it builds nothing."""
        ...

    def bind(self) -> Step:
        """Compile if needed and return the step. Raises BuildError."""
        ...


class Device(Protocol):
    """Where tasks run. `fusion` bounds what the scheduler joins for it."""

    uri: str
    fusion: Fusion

    def claim(self, task: Task) -> Kernel | Refusal:
        """A kernel for the task, or why there is none."""
        ...

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Do for all these kernels of its own what takes long in `bind`, several at once. Fails as `bind` will."""
        ...


class Accelerator(Device, Protocol):
    """A device with memory of its own, besides this machine's processor."""

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

        Called before `prepare`.

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
        """Begin with everything that its steps have asked for."""
        ...

    def synchronize(self) -> None:
        """Return when all of that has ended. Raises what went wrong."""
        ...


class HostDevice(Device, Protocol):
    """A device that uses this machine's processor."""

    def launches(
        self, kernels: Sequence[Kernel], steps: Sequence[Step], dying: Sequence[Sequence[int]]
    ) -> list[PlannedLaunch]:
        """Bound kernels of the processor, which follow each other, in as few calls as it can; see `Accelerator`."""
        ...

    @property
    def threads(self) -> int:
        """How many threads work on large tasks."""
        ...

    def set_threads(self, threads: int) -> None:
        """Change that number; 0 means all cores of the process."""
        ...
