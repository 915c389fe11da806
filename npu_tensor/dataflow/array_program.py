"""Program of the array: designs that run one after another in one launch, without the host in between.

    program = ArrayProgram(
        "rms_norm+mul_mat",
        (
            DesignRun(norm, (HostSlice(0, 0), HostSlice(2, 0))),  # x -> scratch
            DesignRun(product, (HostSlice(2, 0), HostSlice(1, 0), HostSlice(3, 0))),  # scratch, weight -> result
        ),
        arguments=(4096, 1 << 20, 4096, 8192),
    )

The host buffers of its designs are parts of the program's own, the arguments of the launch: tensors from outside,
results, and scratch memory, which is reused for one value after another. Later runs read the data that earlier runs
write.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.design import Configuration, Design, KernelFunction
from npu_tensor.errors import ArgumentError


class HostSlice(NamedTuple):
    """Location of a host buffer of a design: the index of the program's argument, and the offset in it, in bytes."""

    argument: int
    offset: int


class DesignRun(NamedTuple):
    """One run of a design. slices: one per host buffer of the design, in order."""

    design: Design
    slices: tuple[HostSlice, ...]


@dataclass(frozen=True)
class ArrayProgram:
    """Work of one launch.

    Attributes:
        name: Names of the ops as one word.
        runs: Runs in order.
        arguments: Bytes of each argument.

    Raises:
        ArgumentError: There are no runs, they are for different arrays, a host buffer exceeds its argument, or a run
            writes bytes that it uses as another host buffer. Such runs gave different results on NPUs each time
            (Xilinx/mlir-aie#3656).
    """

    name: str
    runs: tuple[DesignRun, ...]
    arguments: tuple[int, ...]

    @classmethod
    def of(cls, design: Design, name: str | None = None, arguments: tuple[int, ...] | None = None) -> ArrayProgram:
        """Create a program with one run of a design, whose host buffers are the arguments.

        Args:
            design: Design to run.
            name: Name of the program; by default that of the design.
            arguments: Bytes of each argument; by default those of the host buffers.
        """
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
            self._require_separate_results(number, run)

    def _require_separate_results(self, number: int, run: DesignRun) -> None:
        buffers = list(zip(run.design.host_buffers, run.slices, strict=True))
        for result, (argument, start) in buffers:
            for other, (others, offset) in buffers:
                overlap = max(start, offset) < min(start + result.type.nbytes, offset + other.type.nbytes)
                if other is not result and others == argument and overlap and result.name in run.design.written:
                    raise ArgumentError(
                        f"program {self.name}: run {number} ({run.design.name}) writes buffer {result.name} over "
                        f"buffer {other.name} in argument {argument}; give it bytes of its own"
                    )

    @property
    def array(self) -> Array:
        """Array that the program is for."""
        return self.runs[0].design.array

    @property
    def columns(self) -> int:
        """Number of columns used by the widest design."""
        return max(run.design.columns for run in self.runs)

    @cached_property
    def functions(self) -> tuple[KernelFunction, ...]:
        """Functions that the cores call, of all configurations."""
        return tuple(dict.fromkeys(f for configuration in self.configurations for f in configuration.functions))

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Configurations that the program needs, in the order in which they are first loaded."""
        by_identity = {id(run.design.configuration): run.design.configuration for run in self.runs}
        return tuple(by_identity.values())

    @property
    def changes(self) -> int:
        """Number of reconfigurations per run if the program is repeated: the first run follows the last one."""
        used = [run.design.configuration for run in self.runs]
        return sum(a is not b for a, b in pairwise((used[-1], *used)))
