"""Launches: which kernels of a plan are one, what its arguments are, and where values inside of it lie.

    for plan in launch_plans(kernels, dying, mixes=True):
        plan.kernels, plan.arguments, plan.program

A value that one kernel makes and others of the same launch read stays in the NPU's memory: in an argument if somebody
reads it afterwards, else in a part of the scratch buffer, which serves another value when it is dead.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from npu_tensor.config import config
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand, room
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.runtime.npu.packing import form_of, host_bytes

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_kernel import NpuKernel

__all__ = ["Argument", "LaunchPlan", "alone", "launch_plans"]


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
    """kernels: in order. arguments: of the launch. program: what runs on them."""

    kernels: tuple[NpuKernel, ...]
    arguments: tuple[Argument, ...]
    program: ArrayProgram

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


def launch_plans(kernels: Sequence[NpuKernel], dying: Sequence[Sequence[int]], mixes: bool) -> list[LaunchPlan]:
    """The launches of kernels that follow each other, as few as possible.

    dying: by kernel, the items that nobody reads after it. mixes: whether a launch may have several configurations. A
    launch ends before a kernel that reads what the host must look at or convert first, and where it would have more
    arguments or take longer than a launch may.
    """
    plans, first = [], 0
    for end in range(1, len(kernels) + 1):
        if end == len(kernels) or not _continues(kernels[first:end], kernels[end], dying[first : end + 1], mixes):
            plans.append(_together(kernels[first:end], dying[first:end]))
            first = end
    return plans


def _continues(
    launch: Sequence[NpuKernel], kernel: NpuKernel, dying: Sequence[Sequence[int]], mixes: bool
) -> bool:
    """Whether a kernel can belong to the launch in front of it."""
    longer = (*launch, kernel)
    configurations = {id(each.request.design.configuration) for each in longer}
    # The words of a run are written into instructions of ours, and a launch with several configurations has others.
    if len(configurations) > 1 and not (mixes and all(not each.offer.scalars for each in longer)):
        return False
    if sum(each.cost.expense.seconds for each in longer) > config.launch_milliseconds / 1e3:
        return False
    made = {
        each.task.outputs[host.number].item: form_of(host, each.task.outputs[host.number].dtype)
        for each in launch
        for host in each.offer.operands
        if host.output and host.number is not None
    }
    for host in kernel.offer.operands:
        if host.output or host.number is None:
            continue
        source = kernel.task.inputs[host.number]
        assert source.dtype is not None
        if source.item in made and (host.indexes or made[source.item] or form_of(host, source.dtype)):
            return False
    return len(_together(longer, dying).arguments) <= HOST_BUFFERS


@dataclass
class _Value:
    """What the runs of a launch from `first` to `last` use. inside: whether it lies in the scratch buffer."""

    argument: Argument
    inside: bool
    first: int
    last: int = 0


def _together(kernels: Sequence[NpuKernel], dying: Sequence[Sequence[int]]) -> LaunchPlan:
    if len(kernels) == 1:
        return alone(kernels[0])
    dead = {item for items in dying for item in items}
    values: dict[Hashable, _Value] = {}
    used: list[list[_Value]] = []
    for place, kernel in enumerate(kernels):
        used.append([])
        buffers = kernel.request.design.host_buffers
        for slot, (host, buffer) in enumerate(zip(kernel.offer.operands, buffers, strict=True)):
            argument = _argument(kernel, host, buffer.type.nbytes)
            key: Hashable = ("made", argument.item)
            if argument.item is None:
                key = ("scratch", place, slot)
            elif not argument.output and key not in values:
                # In the tensor's own order its bytes are the same, whatever shape a kernel gives them.
                key = (argument.item, argument.form or math.prod(host.layout.shape), host.indexes)
            inside = argument.item is None or (argument.output and argument.item in dead)
            value = values.setdefault(key, _Value(argument, inside, place))
            value.argument = value.argument._replace(nbytes=max(value.argument.nbytes, argument.nbytes))
            value.last = place
            used[-1].append(value)
    arguments = [value for value in values.values() if not value.inside]
    offsets, scratch = _laid_out([value for value in values.values() if value.inside])
    where = {id(value): HostSlice(number, 0) for number, value in enumerate(arguments)}
    where |= {number: HostSlice(len(arguments), offset) for number, offset in offsets.items()}
    runs = [
        DesignRun(kernel.request.design, tuple([where[id(value)] for value in each]))
        for kernel, each in zip(kernels, used, strict=True)
    ]
    buffers_of_all = [value.argument for value in arguments]
    if scratch:
        host = HostOperand(None, True, Layout((scratch,), (1,)), (scratch,), "uint8", None)
        buffers_of_all.append(Argument(None, True, host, None, scratch))
    name = "+".join(kernel.task.name for kernel in kernels)
    program = ArrayProgram(name, tuple(runs), tuple(argument.nbytes for argument in buffers_of_all))
    return LaunchPlan(tuple(kernels), tuple(buffers_of_all), program)


def _laid_out(values: Sequence[_Value]) -> tuple[dict[int, int], int]:
    """Where values lie in a scratch buffer, by identity, and its bytes: the largest first, each as low as it can."""
    offsets: dict[int, int] = {}
    laid: list[_Value] = []
    for value in sorted(values, key=lambda value: -value.argument.nbytes):
        nbytes, offset = value.argument.nbytes, 0
        alive = [other for other in laid if other.first <= value.last and value.first <= other.last]
        for other in sorted(alive, key=lambda other: offsets[id(other)]):
            if offset + nbytes <= offsets[id(other)]:
                break
            offset = max(offset, offsets[id(other)] + other.argument.nbytes)
        offsets[id(value)] = offset
        laid.append(value)
    return offsets, max((offsets[id(value)] + value.argument.nbytes for value in values), default=0)


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
