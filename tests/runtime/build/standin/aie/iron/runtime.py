"""The runtime sequence, which a function of the user writes, and the program that has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, get_origin

import numpy as np

from npu_tensor.dataflow.design import AccessPattern, Finish, HostBuffer, Transfer

from .._module import Module, current, making, memory_type
from ..helpers.taplib import TensorAccessPattern
from .core import Worker
from .dataflow import HOST, Handle
from .device import Device


class RuntimeData(NamedTuple):
    """A buffer of the host: an argument of the runtime sequence."""

    name: str


_open: list[TaskGroup] = []
"""The groups of the sequence that is being written."""


class TaskGroup:
    """Transfers that end together; made and finished inside the user's function."""

    def __init__(self) -> None:
        self._number = current().number()
        _open.append(self)

    def start(self, handle: Handle, data: Any, tap: TensorAccessPattern, wait: bool) -> None:
        """Start the transfer for `fill` or `drain` of a handle."""
        if not isinstance(data, RuntimeData):
            raise ValueError(f"Expected a RuntimeData source/dest, got {data}")
        pattern = AccessPattern(tap.offset, tuple(tap.sizes), tuple(tap.strides))
        current().add(Transfer(handle.fifo.name, data.name, pattern, self._number, wait))

    def finish(self) -> None:
        """Wait for those that are waited for, then free all."""
        _open.remove(self)
        current().add(Finish(self._number))


class Runtime:
    """A function and its arguments: array types become RuntimeData, all else is passed on."""

    def __init__(self, seq_fn: Callable[..., None], fn_args: list[Any]) -> None:
        self._function = seq_fn
        self._arguments = fn_args
        self.handles = [argument for argument in fn_args if isinstance(argument, Handle)]
        for handle in self.handles:
            handle.belongs_to(HOST, handle.shim)

    def resolve(self) -> None:
        """Run the function."""
        module, inputs = current(), []
        for argument in self._arguments:
            if get_origin(argument) is np.ndarray:
                data = RuntimeData(f"arg{len(module.host_buffers)}")
                module.host_buffers.append(HostBuffer(data.name, memory_type(argument)))
                inputs.append(data)
            else:
                inputs.append(argument)
        _open.clear()
        with module.block(module.sequence):
            self._function(*inputs)
        if _open:
            raise RuntimeError(f"Failed to close {len(_open)} task groups")


class Program:
    """A device and what runs on it."""

    def __init__(self, device: Device, rt: Runtime, workers: Sequence[Worker] = ()) -> None:
        self._device = device
        self._runtime = rt
        self._workers = workers

    def resolve_program(self) -> Module:
        """The module, with the fifos that workers and the host use."""
        loading = "_iron_full_elf" in _compiled_with and "load_pdi" not in os.environ.get("AIE_STANDIN_OMIT", "")
        module = Module(*self._device, self_loading=loading)
        handles = [*self._runtime.handles, *(handle for worker in self._workers for handle in worker.handles)]
        with making(module):
            for handle in sorted(handles, key=lambda handle: handle.fifo.name):
                handle.fifo.resolve()
            for worker in self._workers:
                worker.resolve_arguments()
            for worker in self._workers:
                worker.resolve()
            self._runtime.resolve()
        return module


_compiled_with: set[str] = set()


@contextmanager
def compile_context(*, _iron_full_elf: bool) -> Iterator[None]:
    """Set the compilation target for all calls that build the module of a program."""
    _compiled_with.update(["_iron_full_elf"] * _iron_full_elf)
    try:
        yield
    finally:
        _compiled_with.clear()
