"""From a program to its module."""

from __future__ import annotations

import os
from typing import Any

from .._standin import OMIT, since
from .._standin.record import Module, making
from .._standin.signatures import checked
from .._standin.verify import verify
from ..utils.compile.jit.context import get_compile_arg
from .buffer import Buffer
from .dataflow import ObjectFifoHandle
from .kernel import Kernel
from .worker import Worker, flat

__all__ = ["Program"]


class Program:
    """A device and what runs on it."""

    @checked("Program")
    def __init__(self, device: Any, rt: Any, workers: Any = None) -> None:
        if device is None and since("1.4.1"):
            raise ValueError("Program requires a device, but none was selected.")
        self._device = device
        self._rt = rt
        self._given = workers

    @checked("Program.resolve_program")
    def resolve_program(self, device_name: str) -> Module:
        """The module, verified."""
        if not isinstance(device_name, str):  # the name of the aie.device
            raise TypeError(f"StringAttr.get(): incompatible function arguments: {device_name!r}")
        module = Module()
        with making(module):
            device = self._device = type(self._device)()
            module.name, module.device, module.columns = device_name, device.name, device.cols
            workers = list(self._given or []) if since("1.4.0") else self._rt.workers
            handles = {*self._rt.fifos, *(handle for worker in workers for handle in worker.fifos)}
            fifos = sorted(handles, key=lambda handle: handle.name)
            self._resolve(device, workers, fifos)
            self._rt.resolve(**_loading(device_name))
        verify(module)
        return module

    def _resolve(self, device: Any, workers: list[Worker], fifos: list[ObjectFifoHandle]) -> None:
        for worker in workers:
            device.resolve_tile(worker.tile)
        arguments = [argument for worker in workers for argument in flat(worker.fn_args)]
        for tile in [tile for a in arguments if isinstance(a, Buffer) for tile in a.tiles()]:
            device.resolve_tile(tile)
        for endpoint in [endpoint for handle in fifos for endpoint in handle.all_of_endpoints()]:
            device.resolve_tile(endpoint.tile)
        for handle in fifos:
            handle.resolve()
        for argument in arguments:
            if isinstance(argument, (Kernel, Buffer, ObjectFifoHandle)):
                argument.resolve()
        for worker in workers:
            worker.resolve()


def _loading(device_name: str) -> dict[str, str]:
    """What a sequence is told if it is for a full ELF: the device that it has to load first."""
    if not since("1.4.0") or not get_compile_arg("_iron_full_elf") or "load_pdi" in os.environ.get(OMIT, ""):
        return {}
    return {"load_pdi_device_ref": device_name}
