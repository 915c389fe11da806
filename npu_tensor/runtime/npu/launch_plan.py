"""Launch planning: grouping kernels into launches, and placing values inside a launch.

    for plan in launch_plans(kernels, dying, mixes=True, numbers={3: 0.125}):
        plan.kernels, plan.arguments, plan.program

A value that one kernel makes for others of the same launch stays in the NPU's memory: in an argument if it is read
after the launch, otherwise in a part of the scratch buffer, which is reused once the value is dead.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from npu_tensor.config import config
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import Design, LastWords
from npu_tensor.kernels.offer import HostOperand, padded_nbytes
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.npu.buffers import Argument
from npu_tensor.runtime.npu.packing import form_of, host_bytes
from npu_tensor.runtime.scratch import Lifetime, laid_out

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_kernel import NpuKernel

MOST_CONFIGURATIONS: Final = 32
"""Limit per launch and per context: the firmware queues at most this many PDIs."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch.

    Attributes:
        words: Runtime parameters, if they are part of the program. A run with other ones cannot use this launch.
    """

    kernels: tuple[NpuKernel, ...]
    arguments: tuple[Argument, ...]
    program: ArrayProgram
    words: tuple[int, ...] | None = None


def launch_single_kernel(kernel: NpuKernel) -> LaunchPlan:
    """Plan the launch of one kernel, whose arguments are the host buffers of its design."""
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
    """Group consecutive kernels into as few launches as possible.

    A launch ends before a kernel whose input the host must inspect or convert first, and where it would exceed the
    limits on arguments, configurations or time.

    Args:
        kernels: Kernels in order of execution.
        dying: Items whose last use is each kernel.
        mixes: True if a launch may have several configurations.
        numbers: Current scalar values by item, for launches of several configurations that are full ELFs: a run cannot
            change their instructions. None if runs write their own scalars.
    """
    plans: list[LaunchPlan] = []
    builder = _Builder(mixes, numbers)
    for kernel, dies in zip(kernels, dying, strict=True):
        if not builder.add(kernel, dies):
            plans.append(builder.plan())
            builder = _Builder(mixes, numbers)
            builder.add(kernel, dies)
    return [*plans, builder.plan()]


@dataclass(slots=True)
class _Value:
    """Contents of a host buffer, with the first and the last run that uses them."""

    argument: Argument
    first: int
    last: int = 0


class _Builder:
    """A launch under construction."""

    def __init__(self, mixes: bool, numbers: Mapping[int, Any] | None) -> None:
        self.kernels: list[NpuKernel] = []
        self._mixes, self._numbers = mixes, numbers
        self._seconds = 0.0
        self._configurations: set[int] = set()
        self._dead: set[int] = set()
        self._values: dict[Hashable, _Value] = {}
        self._used: list[list[_Value]] = []

    def _fits(self, kernel: NpuKernel, operands: Sequence[tuple[Hashable, Argument]], dies: Sequence[int]) -> bool:
        """Return True if a kernel with these host buffers can join the launch."""
        changes = id(kernel.request.design.configuration) not in self._configurations
        if changes and not (self._mixes and len(self._configurations) < MOST_CONFIGURATIONS):
            return False
        if self._seconds + kernel.cost.expense.seconds > config.launch_milliseconds / 1e3:
            return False
        for key, argument in operands:
            value = self._values.get(key)
            if value is None or argument.output or not value.argument.output:
                continue
            # A value made here stays in the NPU's memory, where the host neither inspects nor converts it.
            if argument.host.indexes or value.argument.form or argument.form:
                return False
        dead = {*self._dead, *dies}
        arguments = [value.argument for value in self._values.values()]
        arguments += [argument for key, argument in dict(operands).items() if key not in self._values]
        # One argument may be needed for scratch.
        return sum(not _is_inside(argument, dead) for argument in arguments) < HOST_BUFFERS

    def add(self, kernel: NpuKernel, dies: Sequence[int]) -> bool:
        """Append a kernel, after which the items in `dies` are not read. Returns False if it does not fit."""
        operands = self._operands(kernel)
        if self.kernels and not self._fits(kernel, operands, dies):
            return False
        number = len(self.kernels)
        self.kernels.append(kernel)
        self._seconds += kernel.cost.expense.seconds
        self._configurations.add(id(kernel.request.design.configuration))
        self._dead |= {*dies}
        used = []
        for key, argument in operands:
            value = self._values.setdefault(key, _Value(argument, number))
            value.argument = replace(value.argument, nbytes=max(value.argument.nbytes, argument.nbytes))
            value.last = number
            used.append(value)
        self._used.append(used)
        return True

    def _operands(self, kernel: NpuKernel) -> list[tuple[Hashable, Argument]]:
        """Return a key for the contents of each host buffer, and its argument in a launch of its own."""
        operands: list[tuple[Hashable, Argument]] = []
        for slot, (host, buffer) in enumerate(
            zip(kernel.offer.operands, kernel.request.design.host_buffers, strict=True)
        ):
            argument = _argument(kernel, host, buffer.type.nbytes)
            key: Hashable = ("made", argument.item)
            if argument.item is None:
                key = ("scratch", id(kernel), slot)
            elif not argument.output and key not in self._values:
                key = (argument.item, argument.key, host.indexes)
            operands.append((key, argument))
        return operands

    def plan(self) -> LaunchPlan:
        """Plan the launch of all added kernels."""
        kernels = self.kernels
        if len(kernels) == 1:
            return launch_single_kernel(kernels[0])
        values = list(self._values.values())
        inside = [value for value in values if _is_inside(value.argument, self._dead)]
        outside = [value for value in values if not _is_inside(value.argument, self._dead)]
        offsets, scratch = laid_out([Lifetime(value.argument.nbytes, value.first, value.last) for value in inside])
        slices = {id(value): HostSlice(number, 0) for number, value in enumerate(outside)}
        slices |= {id(value): HostSlice(len(outside), at) for value, at in zip(inside, offsets, strict=True)}
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
            DesignRun(design, tuple([slices[id(value)] for value in used]))
            for design, used in zip(designs, self._used, strict=True)
        ]
        name = "+".join(kernel.task.name for kernel in kernels)
        program = ArrayProgram(name, tuple(runs), tuple([argument.nbytes for argument in arguments]))
        return LaunchPlan(tuple(kernels), tuple(arguments), program, words)


def _is_inside(argument: Argument, dead: Container[int]) -> bool:
    """Return True if a value lies in the scratch buffer because it is not read after the launch."""
    return argument.item is None or (argument.output and argument.item in dead)


def _with_words(design: Design, words: Sequence[int]) -> Design:
    """Fix the runtime parameters of a design."""
    if not words:
        return design
    values = dict(design.values)
    values |= {each.name: (*words, *values.get(each.name, ())) for each in design.parameters}
    return replace(design, values=tuple(map(LastWords, values.keys(), values.values())))


def _argument(kernel: NpuKernel, host: HostOperand, needed: int) -> Argument:
    """Create the argument for a host buffer of which the design needs this many bytes."""
    task, nbytes = kernel.task, padded_nbytes(max(host_bytes(host), needed))
    if host.number is None:
        return Argument(None, True, host, None, nbytes)
    if host.output:
        output = task.outputs[host.number]
        form = form_of(host, output.dtype)
        return Argument(output.item, True, host, output.dtype, nbytes, form, result_bytes=output.nbytes)
    source = task.inputs[host.number]
    assert source.dtype is not None
    form = form_of(host, source.dtype)
    # In the tensor's own order the bytes are the same for any shape.
    key = kernel.owner.engine.key(form or math.prod(host.layout.shape) * source.dtype.itemsize)
    return Argument(source.item, False, host, source.dtype, nbytes, form, call=task.call, key=key)
