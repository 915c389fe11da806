"""What is loaded into an NPU: the classes of pyxrt for files."""

from __future__ import annotations

import os
import uuid as uuids
from pathlib import Path
from typing import Any

import npu_images
from pybind_signatures import Signatures, bound

__all__ = ["elf", "uuid", "xclbin"]


@bound("uuid")
class uuid:
    """Names an xclbin. Equal ones are not equal in Python."""

    __slots__ = ("__weakref__", "_text")
    _INIT = Signatures("uuid.__init__", "arg0: str -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (self._text,) = self._INIT.match(arguments, keywords)

    def to_string(self) -> str:
        """36 characters, whatever it was made of."""
        digits = "".join(character for character in self._text.lower() if character in "0123456789abcdef")
        return str(uuids.UUID(digits[:32].ljust(32, "0")))


Signatures("uuid.to_string", "-> str")


@bound("xclbin")
class xclbin:
    """A file for the NPU, not yet on a device."""

    __slots__ = ("__weakref__", "_image")
    _INIT = Signatures("xclbin.__init__", "-> None", "arg0: str -> None")

    @bound("xclbin.xclbinkernel")
    class xclbinkernel:
        """One kernel of an xclbin."""

        __slots__ = ("__weakref__", "_arguments", "_kernel")

        def __init__(self) -> None:
            self._kernel, self._arguments = "", 0

        def get_name(self) -> str:
            """What pyxrt.kernel wants."""
            return self._kernel

        def get_num_args(self) -> int:
            """Opcode, instructions, their number, and the buffers."""
            return self._arguments

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._image: npu_images.Image | None = None
        if overload:
            self._image = _read_xclbin(values[0])

    def get_kernels(self) -> list[xclbinkernel]:
        """One."""
        if self._image is None:
            return []
        found = self.xclbinkernel()
        found._kernel, found._arguments = self._image.kernel, self._image.arguments
        return [found]

    def get_uuid(self) -> uuid:
        """Of the contents."""
        return uuid(self._image.uuid if self._image else "")


Signatures("xclbin.get_kernels", "-> list[pyxrt.xclbin.xclbinkernel]")
Signatures("xclbin.get_uuid", "-> pyxrt.uuid")
Signatures("xclbin.xclbinkernel.__init__", "-> None")
Signatures("xclbin.xclbinkernel.get_name", "-> str")
Signatures("xclbin.xclbinkernel.get_num_args", "-> int")


def _read_xclbin(path: str) -> npu_images.Image:
    if not path:
        raise RuntimeError("No xclbin specified")
    if os.path.isdir(path):
        raise MemoryError("std::bad_alloc")
    try:
        image = npu_images.read(Path(path))
    except OSError:
        raise RuntimeError(f"No such file '{path}'") from None
    except ValueError:
        empty = os.path.getsize(path) == 0
        raise RuntimeError("xclbin: buffer too small to contain header" if empty else "Invalid xclbin") from None
    if image.format != "xclbin":
        raise RuntimeError("Invalid xclbin")
    return image


@bound("elf")
class elf:
    """A full ELF."""

    __slots__ = ("__weakref__", "_image")
    _INIT = Signatures("elf.__init__", "arg0: str -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (path,) = self._INIT.match(arguments, keywords)
        try:
            self._image = npu_images.read(Path(path))
        except (OSError, ValueError):
            raise RuntimeError(f"{path} is not found or is not a valid ELF file") from None
        if self._image.format != "elf":
            raise RuntimeError(f"{path} is not found or is not a valid ELF file")
