"""Program of a core: its buffers, the functions of object files that it calls, and its body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_tensor.dataflow import design
from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import CoreBuffer, Element, FunctionCall, KernelFunction, RuntimeParameter, Source, Word

from .._module import MLIRError, WrittenWord, current, memory_type
from .dataflow import Handle, ObjectFifo


class Buffer:
    """Memory of a core that a program names. With `use_write_rtp`, the runtime sequence writes into it by index."""

    def __init__(
        self,
        type: Any,
        *,
        name: str,
        initial_value: Any = None,
        use_write_rtp: bool = False,
        address: int | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._type = type
        self._initial_value = initial_value
        self._written_by_host = use_write_rtp
        self._resolved = False

    def resolve(self, tile: Tile) -> None:
        """On the tile of the worker that has it."""
        memory, initial = memory_type(self._type), None
        if self._initial_value is not None:
            # Through the buffer protocol, which knows no bfloat16 (ValueError).
            initial = memoryview(np.ascontiguousarray(self._initial_value)).tobytes()
            if len(initial) != memory.nbytes:
                raise MLIRError(f"{len(initial)} initial bytes for {self.name}: {memory}")
        self._resolved = True
        if self._written_by_host:
            current().parameters.append(RuntimeParameter(self.name, tile, *memory.shape))
        else:
            current().core_buffers.append(CoreBuffer(self.name, tile, memory, initial, self.address))

    def __getitem__(self, index: int) -> Word:
        return Word(self.name, index)

    def __setitem__(self, index: int, value: int) -> None:
        if not self._resolved:
            raise AttributeError("Cannot index into Buffer before it has been resolved.")
        if type(value) is not int or not -(2**31) <= value < 2**31:
            raise TypeError(f"rtp_write: {value!r} is no int of 32 bits")
        current().add(WrittenWord(self.name, index, value))


class Kernel:
    """Function of an object file that is compiled elsewhere."""

    def __init__(self, name: str, object_file_name: str, arg_types: list[Any]) -> None:
        self.name = name
        self._object_file_name = object_file_name
        self._types = arg_types
        self._resolved = False

    def resolve(self) -> None:
        """Once. The list of argument types that was given is changed: its types become those of this module."""
        if self._resolved:
            return
        self._resolved = True
        self._types[:] = map(memory_type, self._types)
        source = Source(self._object_file_name.removesuffix(".o"), "")
        current().functions.append(KernelFunction(self.name, tuple(self._types), source))

    def __call__(self, *arguments: Any) -> None:
        if not self._resolved:
            raise ValueError("Kernel must be resolved before it can be called.")
        if len(arguments) != len(self._types):
            raise ValueError(f"Kernel '{self.name}' expects {len(self._types)} argument(s), but got {len(arguments)}.")
        values = tuple(a.name if isinstance(a, Buffer) else a for a in arguments)
        for value in values:
            if type(value) not in (Element, Word, str, int, float):
                raise ValueError(f"{values} must all be Value, Operation, or OpView")
        current().add(FunctionCall(self.name, values))


class Worker:
    """Function with the arguments of a call."""

    def __init__(
        self,
        core_fn: Callable[..., None],
        fn_args: list[Any],
        *,
        tile: Tile,
        stack_size: int,
        dynamic_objfifo_lowering: bool,
        allocation_scheme: str | None = None,
    ) -> None:
        addressed = any(isinstance(each, Buffer) and each.address is not None for each in fn_args)
        if addressed != (allocation_scheme == "basic-sequential"):
            raise MLIRError("'aie.buffer' op overlaps with a buffer that the bank-aware allocation has placed")
        self._function = core_fn
        self._arguments = fn_args
        self._tile = tile
        self._stack_size = stack_size
        self._dynamic = dynamic_objfifo_lowering
        self.handles = [argument for argument in fn_args if isinstance(argument, Handle)]
        for handle in self.handles:
            handle.belongs_to(self, tile)
        if any(isinstance(argument, ObjectFifo) for argument in fn_args):
            raise ValueError("Cannot give an ObjectFifo directly to a worker; must give an ObjectFifoHandle")

    def resolve_arguments(self) -> None:
        """Buffers and functions."""
        for argument in self._arguments:
            if isinstance(argument, Buffer):
                argument.resolve(self._tile)
            elif isinstance(argument, Kernel):
                argument.resolve()

    def resolve(self) -> None:
        """Run the function, which records the actions of the core, repeatedly."""
        body: list[Any] = []
        with current().block(body):
            self._function(*self._arguments)
        names = tuple(handle.fifo.name for handle in self.handles)
        current().workers.append(design.Worker(self._tile, names, tuple(body), self._stack_size))
        current().dynamic.append(self._dynamic)
