"""Result of resolving a program: the parts of a design, in npu_tensor's records for them.

`str(module)` has a line for each, close enough to MLIR for its readers, `iron_launch` and the stand-in's compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np

from npu_tensor.dataflow.design import (
    CoreBuffer,
    Design,
    Finish,
    HostBuffer,
    KernelFunction,
    Link,
    ObjectFifo,
    ObjectType,
    RuntimeParameter,
    Transfer,
    Worker,
)


class MLIRError(Exception):
    """Invalid MLIR text."""


class WrittenWord(NamedTuple):
    """A word that the runtime sequence writes into a core."""

    parameter: str
    number: int
    value: int


@dataclass
class Module:
    """Resolved program. Its parts are in the order of resolution; a function's source has the name of its object file.

    Attributes:
        self_loading: True if the sequence loads the configuration of the array first.
        dynamic: True for each worker that selects the buffers of its fifos at run time.
    """

    device: str
    columns: int
    self_loading: bool
    host_buffers: list[HostBuffer] = field(default_factory=list)
    fifos: list[ObjectFifo] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    functions: list[KernelFunction] = field(default_factory=list)
    core_buffers: list[CoreBuffer] = field(default_factory=list)
    parameters: list[RuntimeParameter] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    dynamic: list[bool] = field(default_factory=list)
    sequence: list[WrittenWord | Transfer | Finish] = field(default_factory=list)
    _blocks: list[list[Any]] = field(default_factory=list)
    _numbers: int = 0

    @property
    def design(self) -> Design:
        """Without a name, and without the words that the sequence writes."""
        return Design(
            name="",
            arch={"npu1": "aie2", "npu2": "aie2p"}[self.device.partition("_")[0]],
            columns=self.columns,
            arguments=len(self.host_buffers),
            fifos=tuple(self.fifos),
            links=tuple(self.links),
            functions=tuple(self.functions),
            core_buffers=tuple(self.core_buffers),
            parameters=tuple(self.parameters),
            workers=tuple(self.workers),
            host_buffers=tuple(self.host_buffers),
            values=(),
            sequence=tuple(step for step in self.sequence if not isinstance(step, WrittenWord)),
        )

    def number(self) -> int:
        """A new one, for a value."""
        self._numbers += 1
        return self._numbers

    def add(self, operation: Any) -> None:
        """Record an operation where the program is: in a core, in a loop, in the runtime sequence."""
        self._blocks[-1].append(operation)

    @contextmanager
    def block(self, operations: list[Any]) -> Iterator[None]:
        """Record into `operations`."""
        self._blocks.append(operations)
        try:
            yield
        finally:
            self._blocks.pop()

    def __str__(self) -> str:
        arguments = ", ".join(f"%{buffer.name}: {_memref(buffer.type)}" for buffer in self.host_buffers)
        lines = ["module {", f"  aie.device({self.device}) {{"]
        lines += [f"    aie.objectfifo @{fifo.name} {fifo}" for fifo in self.fifos]
        lines += [f"    aie.objectfifo.link {link}" for link in self.links]
        lines += [
            f'    func.func private @{function.symbol} {{link_with = "{function.source.name}.o"}} {function.arguments}'
            for function in self.functions
        ]
        lines += [f"    aie.buffer @{buffer.name} {buffer}" for buffer in (*self.core_buffers, *self.parameters)]
        lines += [f"    aie.core({worker.tile}) {worker}" for worker in self.workers]
        lines += [f"    aie.runtime_sequence({arguments}) {{"]
        lines += ["      aiex.npu.load_pdi {device_ref = @main}"] * self.self_loading
        lines += [f"      {_OPERATIONS[type(step)]} {step}" for step in self.sequence]
        return "\n".join([*lines, "    }", "  }", "}", ""])


_OPERATIONS = {
    WrittenWord: "aiex.npu.rtp_write",
    Transfer: "aiex.dma_configure_task_for",
    Finish: "aiex.dma_await_task",
}


def _memref(type: ObjectType) -> str:
    return f"memref<{type.elements}x{type.dtype.replace('int', 'i')}>"


_DTYPES = frozenset(
    ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "bfloat16", "float32", "float64"]
)


def memory_type(annotation: Any) -> ObjectType | str:
    """Convert NumPy's ndarray types and scalar types. Raise TypeError for other types, also of other modules."""
    if get_origin(annotation) is np.ndarray:
        shape, element = get_args(annotation)
        return ObjectType(str(memory_type(*get_args(element))), shape)
    name = np.dtype(annotation).name
    if name not in _DTYPES:
        raise TypeError(f"there is no MLIR type for {annotation}")
    return name


_making: list[Module] = []


def current() -> Module:
    """The module that is being made."""
    if not _making:
        raise RuntimeError("An MLIR function requires a Context but none was provided")
    return _making[-1]


@contextmanager
def making(module: Module) -> Iterator[None]:
    """Make it the current one."""
    _making.append(module)
    try:
        yield
    finally:
        _making.pop()
