"""A program of the array: designs that run one after another in one launch, without the host in between.

    program = ArrayProgram(
        "rms_norm+mul_mat",
        (
            DesignRun(norm, (HostSlice(0, 0), HostSlice(2, 0))),  # x -> scratch
            DesignRun(product, (HostSlice(2, 0), HostSlice(1, 0), HostSlice(3, 0))),  # scratch, weight -> result
        ),
        arguments=(4096, 1 << 20, 4096, 8192),
    )

The host buffers of its designs are parts of the program's own, the arguments of the launch: tensors from outside,
results, and scratch, parts of which serve one value after another. What a run writes, those behind it read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.design import Configuration, Design, KernelFunction
from npu_tensor.errors import ArgumentError

__all__ = ["ArrayProgram", "DesignRun", "HostSlice"]


class HostSlice(NamedTuple):
    """Where a host buffer of a design lies. argument: number of the program's. offset: in it, in bytes."""

    argument: int
    offset: int


class DesignRun(NamedTuple):
    """One run of a design. slices: one per host buffer of the design, in order."""

    design: Design
    slices: tuple[HostSlice, ...]


@dataclass(frozen=True)
class ArrayProgram:
    """What one launch does. name: the ops as one word. arguments: the bytes of each.

    Raises ArgumentError if it has no runs, these are not for one array, or a host buffer lies in no argument.
    """

    name: str
    runs: tuple[DesignRun, ...]
    arguments: tuple[int, ...]

    @classmethod
    def of(cls, design: Design, name: str | None = None, arguments: tuple[int, ...] | None = None) -> ArrayProgram:
        """One run of a design, whose host buffers are the arguments, of these sizes or just as large as they are."""
        buffers = design.host_buffers
        run = DesignRun(design, tuple([HostSlice(number, 0) for number in range(len(buffers))]))
        sizes = tuple([buffer.type.nbytes for buffer in buffers]) if arguments is None else arguments
        return cls(name or design.name, (run,), sizes)

    def __post_init__(self) -> None:
        arrays = sorted({run.design.arch for run in self.runs})
        if len(arrays) != 1:
            raise ArgumentError(f"program {self.name}: its designs are for {' and '.join(arrays) or 'no array'}")
        for number, run in enumerate(self.runs):
            for buffer, (argument, offset) in zip(run.design.host_buffers, run.slices, strict=True):
                size = self.arguments[argument] if 0 <= argument < len(self.arguments) else 0
                if not 0 <= offset <= size - buffer.type.nbytes:
                    raise ArgumentError(
                        f"program {self.name}: buffer {buffer.name} of run {number} ({run.design.name}) needs "
                        f"{buffer.type.nbytes} bytes from {offset} on, and argument {argument} has {size}"
                    )

    @property
    def array(self) -> Array:
        """What it is for."""
        return self.runs[0].design.array

    @property
    def columns(self) -> int:
        """How many it takes, as many as the widest of its designs."""
        return max(run.design.columns for run in self.runs)

    @cached_property
    def functions(self) -> tuple[KernelFunction, ...]:
        """What its cores call, of all configurations."""
        return tuple(dict.fromkeys(f for configuration in self.configurations for f in configuration.functions))

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Each that it needs, in the order in which they are first loaded."""
        by_identity = {id(run.design.configuration): run.design.configuration for run in self.runs}
        return tuple(by_identity.values())

    @property
    def changes(self) -> int:
        """How often the array is configured anew while it runs again and again: the first run follows the last one."""
        used = [run.design.configuration for run in self.runs]
        return sum(a is not b for a, b in pairwise((used[-1], *used)))
