"""Search for the shared libraries of XRT and HSA. XRT runs the kernels; HSA is only reported.

Example:
    library = XRT.find()                # LoadedLibrary, or DeviceError with a line for every place
    library.path, library.named_by      # /opt/xilinx/xrt/lib/libxrt_coreutil.so.2, "XILINX_XRT"
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from npu_tensor.config import config
from npu_tensor.errors import DeviceError


class Attempt(NamedTuple):
    """A place without a usable file, and the reason."""

    place: str
    reason: str


def not_found(what: str, attempts: Iterable[Attempt]) -> DeviceError:
    """Create the error for a failed search, with one line per place."""
    return DeviceError("\n  ".join([f"{what} was not found. Tried", *map(": ".join, attempts)]), "NOT_FOUND")


class _DlInfo(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class LoadedLibrary(NamedTuple):
    """A usable loaded library. `named_by` is the source of its path: a variable, "PATH" or another one."""

    named_by: str
    path: Path
    handle: ctypes.CDLL

    def build_id(self) -> str:
        """Return the build ID as `readelf -n` prints it; empty if there is none."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return ""
        # The header of a note, little-endian (elf.h): length of its name, of its contents, NT_GNU_BUILD_ID, the name.
        header = re.search(rb"\x04\0\0\0([\x01-\x40])\0\0\0\x03\0\0\0GNU\0", content)
        return content[header.end() :][: header[1][0]].hex() if header else ""


class RuntimeLibrary(NamedTuple):
    """A library and its search. A place is the file, its directory, or a directory that has it in lib or lib64.

    Attributes:
        names: File names, the preferred one first.
        symbols: Symbols that it must have; otherwise it is another library, or too old.
        variables: Environment variables of related programs that hold further places.
        search_paths: Places of the program, before those of `config.xrt_path`.
    """

    purpose: str
    names: tuple[str, ...]
    symbols: tuple[str, ...]
    variables: tuple[str, ...] = ()
    search_paths: tuple[Path, ...] = ()

    def places(self) -> Iterator[tuple[str, Path]]:
        """Return the places that the program and the settings name, with their sources."""
        yield from (("search path", path) for path in self.search_paths)
        yield from ((config.origin("xrt_path"), path) for path in config.xrt_path)
        for variable in self.variables:
            named = os.environ.get(variable, "").split(os.pathsep)
            yield from ((variable, Path(path)) for path in named if path)

    def find(self) -> LoadedLibrary:
        """Load the first usable file of: `places`, the directories on PATH, the system's loader.

        Raises:
            DeviceError: There is none (NOT_FOUND). The message has a line for each place.
        """
        entries = dict.fromkeys(filter(None, os.environ.get("PATH", "").split(os.pathsep)))
        on_path = (("PATH", Path(entry)) for entry in entries)
        attempts: list[Attempt] = []
        for named_by, place in (*self.places(), *on_path):
            files = self._files(place)
            if not files:
                reason = "has none of these files" if os.path.exists(place) else "does not exist"
                attempts.append(Attempt(f"{named_by}: {place}", reason))
            for file in files:
                library = self._load(named_by, str(file))
                if isinstance(library, LoadedLibrary):
                    return library
                attempts.append(library)
        if default := self.by_name(attempts):
            return default
        raise not_found(f"{self.purpose} ({' or '.join(self.names)})", attempts)

    def by_name(self, attempts: list[Attempt] | None = None) -> LoadedLibrary | None:
        """Load the library that the system's loader finds. Failures are appended to `attempts`."""
        for name in self.names:
            library = self._load("the system's loader", name)
            if isinstance(library, LoadedLibrary):
                return library
            if attempts is not None:
                attempts.append(library)
        return None

    def _files(self, place: Path) -> list[Path]:
        # Absolute because the loader takes a path without a slash for a name; os.path because it never raises.
        if os.path.isfile(place):
            return [place.absolute()]
        files = (place.absolute() / folder / name for folder in _FOLDERS for name in self.names)
        return [file for file in files if os.path.isfile(file)]

    def _load(self, named_by: str, name: str) -> LoadedLibrary | Attempt:
        """Load a library by path or by name."""
        place = f"{named_by}: {name}"
        try:
            handle = ctypes.CDLL(name, os.RTLD_LAZY)
        except OSError as error:
            # The loader's message begins with the name.
            return Attempt(place, str(error).removeprefix(f"{name}: "))
        missing = [symbol for symbol in self.symbols if not hasattr(handle, symbol)]
        if missing:
            # Otherwise the loader would return this one again for a file with the same internal name.
            _ctypes.dlclose(handle._handle)
            return Attempt(place, f"has no {', '.join(missing)}: another library, or another version")
        return LoadedLibrary(named_by, _path_of(handle, self.symbols[0]) or Path(name), handle)


_FOLDERS: Final = ("", "lib", "lib64")


def _path_of(handle: ctypes.CDLL, symbol: str) -> Path | None:
    """Return the file that contains a function."""
    info = _DlInfo()
    known = ctypes.CDLL(None).dladdr(ctypes.cast(handle[symbol], ctypes.c_void_p), ctypes.byref(info))
    return Path(os.fsdecode(info.file)) if known and info.file else None


XRT: Final = RuntimeLibrary(
    "XRT's library",
    ("libxrt_coreutil.so.2", "libxrt_coreutil.so"),
    ("xrtDeviceOpen", "xrtBOAlloc", "xrtRunStart"),  # xrt_device.h, xrt_bo.h and xrt_kernel.h of XRT
)

HSA: Final = RuntimeLibrary(
    "the HSA runtime",
    ("libhsa-runtime64.so.1", "libhsa-runtime64.so"),
    # hsa.h and hsa_ext_amd.h: functions for programs on an NPU. Symbols do not reveal if this version supports NPUs.
    ("hsa_init", "hsa_iterate_agents", "hsa_queue_create", "hsa_amd_agent_iterate_memory_pools"),
    ("IREE_HAL_AMDGPU_LIBHSA_PATH", "ROCM_PATH"),
)
