"""NPUs and hardware contexts: the classes of pyxrt for them."""

from __future__ import annotations

import json
from typing import Any

import npu_images
from machine import Machine, Npu, current, driver_error
from npu_contexts import Core
from pybind_signatures import Signatures, bound
from states import xrt_info_device
from surface_files import uuid

__all__ = ["device", "hw_context"]


@bound("device")
class device:
    """An NPU that was opened."""

    __slots__ = ("__weakref__", "_generation", "_machine", "_npu", "_registered")
    _INIT = Signatures("device.__init__", "-> None", "index: uint32 -> None")
    _REGISTER = Signatures("device.register_xclbin", "xclbin: pyxrt.xclbin -> pyxrt.uuid")
    _INFO = Signatures("device.get_info", "arg0: pyxrt.xrt_info_device -> str")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._machine = current()
        self._npu: Npu | None = None
        self._registered: dict[str, npu_images.Image] = {}
        if overload:
            self._npu = _find(self._machine, values[0])
            self._generation = self._npu.generation

    def _check(self, what: str) -> Npu:
        """The NPU. Raises if there is none behind this object, or if it is gone."""
        npu = self._npu
        if npu is None:
            raise self._machine.crash(f"{what} of an empty device")
        if not npu.present or npu.generation != self._generation:
            raise driver_error(19, f"{what} failed")
        return npu

    def register_xclbin(self, *arguments: Any, **keywords: Any) -> uuid:
        """Makes no context yet."""
        _, (file,) = self._REGISTER.match(arguments, keywords)
        self._check("register_xclbin")
        if file._image is None:
            raise self._machine.crash("register_xclbin of an empty xclbin")
        self._registered[file._image.uuid] = file._image
        return uuid(file._image.uuid)

    def get_info(self, *arguments: Any) -> str:
        """A property as text."""
        _, (key,) = self._INFO.match(arguments, {})
        npu = self._check("DRM_IOCTL_AMDXDNA_GET_INFO IOCTL")
        wanted = next(name for name, member in xrt_info_device.__members__.items() if member == key)
        known = {"name": npu.name, "bdf": npu.bdf, "pcie_info": json.dumps({"bdf": npu.bdf}), "offline": "0"}
        return known.get(wanted, "0")


def _find(machine: Machine, number: int) -> Npu:
    present = [npu for npu in machine.devices if npu.present]
    if number >= len(present):
        raise RuntimeError(f" No such device with index '{number}'")
    return present[number]


@bound("hw_context")
class hw_context:
    """Columns of an NPU with a program in them."""

    __slots__ = ("__weakref__", "_core")
    _INIT = Signatures(
        "hw_context.__init__",
        "-> None",
        "device: pyxrt.device, uuid: pyxrt.uuid -> None",
        "device: pyxrt.device, elf: pyxrt.elf -> None",
    )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._core: Core | None = None
        if overload == 0:
            return
        opened = values[0]
        npu = opened._check("DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL")
        if isinstance(values[1], uuid):
            image = opened._registered.get(values[1].to_string())
            if image is None:
                raise RuntimeError("No such xclbin")
        else:
            image = values[1]._image
        self._core = Core(opened._machine, npu, image)

    def _check(self, what: str) -> Core:
        if self._core is None:
            raise current().crash(f"{what} of an empty context")
        return self._core
