"""What the scheduler and the devices say to each other.

The scheduler cuts a graph into `Task`s, each the work of one kernel. A device answers `claim(task)` with a `Kernel`
or a `Refusal` that says why not. Claiming is a look-up and must not raise; a kernel is compiled when it is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from npu_tensor.dtypes import DType
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.expression import Program

__all__ = [
    "AsynchronousDevice",
    "Device",
    "Fusion",
    "HostDevice",
    "Input",
    "Kernel",
    "Output",
    "Prologue",
    "Refusal",
    "Step",
    "Task",
]

T = TypeVar("T")

Step = Callable[[list[Any]], None]
"""A bound kernel: reads and writes the values of a plan, a list indexed by item."""


class Input(NamedTuple):
    """An operand: its item in the plan, its dtype and how it lies over the task's shape; None for a number."""

    item: int
    dtype: DType | None
    layout: Layout | None


class Output(NamedTuple):
    """A result: its item, dtype and layout over the task's shape; stride 0 along reduced dimensions.

    donor: an operand whose buffer the result takes over, or None for a new buffer.
    """

    item: int
    dtype: DType
    layout: Layout
    nbytes: int
    donor: int | None = None


class Prologue(NamedTuple):
    """What computes an operand of a matrix product, which has no memory of its own.

    program: element-wise, slot i is the operand's input i; one result. inputs: how many inputs belong to it.
    dtype: what every element is rounded to once, as if the operand had been stored.
    """

    program: Program
    inputs: int
    dtype: DType


class Task(NamedTuple):
    """The work of one kernel.

    kind: "map", "row", "matmul" or "data". items and ops: numbers and names of the ops it covers, in order.
    shape: the iteration space;
    `rows` of its trailing dimensions are one row (row tasks only). program: what is computed per element from the
    inputs. call: the Call of a matmul or data task. calls: those of all ops, in order; of a copy the Call of the view
    that it makes real. Nothing is computed from them that the other fields do not say; kernels are named after them.

    The inputs of a matmul task are those of operand A, those of operand B (laid out over the batch and the operand's
    own rows and columns) and those of the program, whose slot 0 is the sum of products and slot i the i-th of its own.
    An operand is its one input, or what its prologue computes from several; `split` tells them apart.
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
    def name(self) -> str:
        """The covered ops as one word, shortened in the middle."""
        ops = self.ops if len(self.ops) <= 5 else (*self.ops[:3], f"{len(self.ops) - 4} more", self.ops[-1])
        return "+".join(ops)


class Fusion(NamedTuple):
    """What one kernel of a device takes: so many tensors, and around a matrix product prologues and full operands.

    streams: how many of the tensors of a kernel that reduces rows may differ from row to row. residuals: whether what
    follows a product may read other tensors than vectors along its rows or columns.
    """

    inputs: int = 24
    streams: int = 24
    prologues: bool = True
    residuals: bool = True


class Refusal(NamedTuple):
    """Why a device does not take a task."""

    reason: str


class Kernel(Protocol):
    """A device's answer to a task it takes.

    name: the kernel family. device: URI. seconds: predicted run time. reason: why this kernel, in words.
    """

    name: str
    device: str
    seconds: float
    reason: str

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


@runtime_checkable
class AsynchronousDevice(Device, Protocol):
    """A device whose steps return before their work is done. Whoever looks at a result waits for it."""

    def submit(self) -> None:
        """Begin with everything that its steps have asked for."""
        ...

    def synchronize(self) -> None:
        """Return when all of that has ended. Raises what went wrong."""
        ...


class HostDevice(Device, Protocol):
    """A device that uses this machine's processor."""

    @property
    def threads(self) -> int:
        """How many threads work on large tasks."""
        ...

    def set_threads(self, threads: int) -> None:
        """Change that number; 0 means all cores of the process."""
        ...
