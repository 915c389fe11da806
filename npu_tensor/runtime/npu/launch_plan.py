"""Launches: which kernels of a plan are one, what its arguments are, and where values inside of it lie.

    for plan in launch_plans(kernels, dying, mixes=True, numbers={3: 0.125}):
        plan.kernels, plan.arguments, plan.program

A value that one kernel makes and others of the same launch read stays in the NPU's memory: in an argument if somebody
reads it afterwards, else in a part of the scratch buffer, which serves another value when it is dead.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npu_tensor.config import config
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import Design, LastWords
from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand, room
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.runtime.npu.packing import form_of, host_bytes
from npu_tensor.runtime.scratch import Lifetime, laid_out

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_kernel import NpuKernel

__all__ = ["MOST_CONFIGURATIONS", "Argument", "LaunchPlan", "alone", "launch_plans"]


MOST_CONFIGURATIONS: Final = 32
"""Of a launch, and of the launches of one context: firmware takes so many PDIs in a queue."""


class Argument(NamedTuple):
    """A buffer of a launch.

    item: of the plan; None for scratch.
    output: whether the NPU writes it first.
    host: how it holds the tensor, whose elements are `dtype`.
    nbytes: that the designs need, with room.
    form: see `form_of`.
    result_bytes: of the tensor's own buffer, if it is a result.
    call: the op that reads it first, for messages.
    """

    item: int | None
    output: bool
    host: HostOperand
    dtype: DType | None
    nbytes: int
    form: HostOperand | None = None
    result_bytes: int = 0
    call: Call | None = None


class LaunchPlan(NamedTuple):
    """kernels: in order. arguments: of the launch. program: what runs on them.

    words: those of the runtime parameters, if they are part of the program. A run with others cannot be this launch.
    """

    kernels: tuple[NpuKernel, ...]
    arguments: tuple[Argument, ...]
    program: ArrayProgram
    words: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """Of its kernels."""
        return self.program.name


def alone(kernel: NpuKernel) -> LaunchPlan:
    """The launch of one kernel, whose arguments are the host buffers of its design."""
    design = kernel.request.design
    arguments = [
        _argument(kernel, host, buffer.type.nbytes)
        for host, buffer in zip(kernel.offer.operands, design.host_buffers, strict=True)
    ]
    sizes = tuple([argument.nbytes for argument in arguments])
    return LaunchPlan((kernel,), tuple(arguments), ArrayProgram.of(design, kernel.request.name, sizes))


def launch_plans(
    kernels: Sequence[NpuKernel], dying: Sequence[Sequence[int]], mixes: bool, numbers: Mapping[int, Any] | None
) -> list[LaunchPlan]:
    """The launches of kernels that follow each other, as few as possible.

    dying: by kernel, the items that nobody reads after it. mixes: whether a launch may have several configurations.
    numbers: by item, what a launch of several configurations is made for if it is a full ELF, whose instructions a run
    cannot change; None if a run writes its own numbers. A launch ends before a kernel that reads what the host must
    look at or convert first, and where it would have more arguments or take longer than a launch may.
    """
    plans: list[LaunchPlan] = []
    builder = _Builder(mixes, numbers)
    for kernel, dies in zip(kernels, dying, strict=True):
        if not builder.add(kernel, dies):
            plans.append(builder.plan())
            builder = _Builder(mixes, numbers)
            builder.add(kernel, dies)
    return [*plans, builder.plan()]


@dataclass
class _Value:
    """What the runs of a launch from `first` to `last` use."""

    argument: Argument
    first: int
    last: int = 0


class _Builder:
    """A launch that kernels are added to."""

    def __init__(self, mixes: bool, numbers: Mapping[int, Any] | None) -> None:
        self.kernels: list[NpuKernel] = []
        self._mixes, self._numbers = mixes, numbers
        self._seconds = 0.0
        self._configurations: set[int] = set()
        self._dead: set[int] = set()
        self._values: dict[Hashable, _Value] = {}
        self._used: list[list[_Value]] = []

    def _takes(self, kernel: NpuKernel, places: Sequence[tuple[Hashable, Argument]], dies: Sequence[int]) -> bool:
        """Whether a kernel with these host buffers can belong to the launch."""
        changes = id(kernel.request.design.configuration) not in self._configurations
        if changes and not (self._mixes and len(self._configurations) < MOST_CONFIGURATIONS):
            return False
        if self._seconds + kernel.cost.expense.seconds > config.launch_milliseconds / 1e3:
            return False
        for key, argument in places:
            value = self._values.get(key)
            if value is None or argument.output or not value.argument.output:
                continue
            # What was made here stays in the NPU's memory, where the host neither looks at it nor converts it.
            if argument.host.indexes or value.argument.form or argument.form:
                return False
        dead = {*self._dead, *dies}
        arguments = [value.argument for value in self._values.values()]
        arguments += [argument for key, argument in dict(places).items() if key not in self._values]
        # One may be for scratch.
        return sum(not _is_inside(argument, dead) for argument in arguments) < HOST_BUFFERS

    def add(self, kernel: NpuKernel, dies: Sequence[int]) -> bool:
        """Run a kernel behind the others; False if it cannot belong to them. dies: items that nobody reads after it."""
        places = self._places(kernel)
        if self.kernels and not self._takes(kernel, places, dies):
            return False
        place = len(self.kernels)
        self.kernels.append(kernel)
        self._seconds += kernel.cost.expense.seconds
        self._configurations.add(id(kernel.request.design.configuration))
        self._dead |= {*dies}
        used = []
        for key, argument in places:
            value = self._values.setdefault(key, _Value(argument, place))
            value.argument = value.argument._replace(nbytes=max(value.argument.nbytes, argument.nbytes))
            value.last = place
            used.append(value)
        self._used.append(used)
        return True

    def _places(self, kernel: NpuKernel) -> list[tuple[Hashable, Argument]]:
        """For each host buffer of a kernel's design: what stands for its contents, and what it would be alone."""
        places: list[tuple[Hashable, Argument]] = []
        for slot, (host, buffer) in enumerate(
            zip(kernel.offer.operands, kernel.request.design.host_buffers, strict=True)
        ):
            argument = _argument(kernel, host, buffer.type.nbytes)
            key: Hashable = ("made", argument.item)
            if argument.item is None:
                key = ("scratch", id(kernel), slot)
            elif not argument.output and key not in self._values:
                # In the tensor's own order its bytes are the same, whatever shape a kernel gives them.
                key = (argument.item, argument.form or math.prod(host.layout.shape), host.indexes)
            places.append((key, argument))
        return places

    def plan(self) -> LaunchPlan:
        """The launch of the kernels that were added."""
        kernels = self.kernels
        if len(kernels) == 1:
            return alone(kernels[0])
        values = list(self._values.values())
        inside = [value for value in values if _is_inside(value.argument, self._dead)]
        outside = [value for value in values if not _is_inside(value.argument, self._dead)]
        offsets, scratch = laid_out([Lifetime(value.argument.nbytes, value.first, value.last) for value in inside])
        where = {id(value): HostSlice(number, 0) for number, value in enumerate(outside)}
        where |= {id(value): HostSlice(len(outside), at) for value, at in zip(inside, offsets, strict=True)}
        arguments = [value.argument for value in outside]
        if scratch:
            host = HostOperand(None, True, Layout((scratch,), (1,)), (scratch,), "uint8", None)
            arguments.append(Argument(None, True, host, None, scratch))
        designs = [kernel.request.design for kernel in kernels]
        words = None
        if self._numbers is not None and len(self._configurations) > 1:
            each = [kernel.words(self._numbers) for kernel in kernels]
            designs = [_with_words(design, own) for design, own in zip(designs, each, strict=True)]
            words = tuple(chain.from_iterable(each))
        runs = [
            DesignRun(design, tuple([where[id(value)] for value in used]))
            for design, used in zip(designs, self._used, strict=True)
        ]
        name = "+".join(kernel.task.name for kernel in kernels)
        program = ArrayProgram(name, tuple(runs), tuple([argument.nbytes for argument in arguments]))
        return LaunchPlan(tuple(kernels), tuple(arguments), program, words)


def _is_inside(argument: Argument, dead: Container[int]) -> bool:
    """Whether a value lies in the scratch buffer: nobody reads it after the launch."""
    return argument.item is None or (argument.output and argument.item in dead)


def _with_words(design: Design, words: Sequence[int]) -> Design:
    """The design with the words that a run would give all of its runtime parameters."""
    if not words:
        return design
    values = dict(design.values)
    every = [LastWords(each.name, (*words, *values.get(each.name, ()))) for each in design.parameters]
    return replace(design, values=tuple(every))


def _argument(kernel: NpuKernel, host: HostOperand, needed: int) -> Argument:
    """What a kernel alone would have for a host buffer, of which its design needs so many bytes."""
    task, nbytes = kernel.task, room(max(host_bytes(host), needed))
    if host.number is None:
        return Argument(None, True, host, None, nbytes)
    if host.output:
        item, dtype, _, result_bytes, _ = task.outputs[host.number]
        return Argument(item, True, host, dtype, nbytes, form_of(host, dtype), result_bytes)
    source = task.inputs[host.number]
    assert source.dtype is not None
    return Argument(source.item, False, host, source.dtype, nbytes, form_of(host, source.dtype), 0, task.call)
