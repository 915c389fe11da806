"""XRT's Python module and its open devices. The only module that imports pyxrt.

Example:
    device = open_device(0)             # opened once per process and kept
    device.get_info(pyxrt().xrt_info_device.name)
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from npu_tensor._util.forks import new_lock
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.shared_libraries import XRT, Attempt, LoadedLibrary, RuntimeLibrary, not_found

USUAL_PLACES: Final = (
    "opt/xilinx/xrt/python",  # AMD's own packages and a build from source; XRT src/CMake/xrtVariables.cmake
    "usr/lib/python3/dist-packages",  # packages of Debian and Ubuntu
    "usr/lib/python3.*/site-packages",
    "usr/lib64/python3.*/site-packages",
    "usr/local/lib/python3.*/*-packages",
)
"""Directories of pyxrt below /. The last four belong to the prefixes /usr and /usr/local (src/python/pybind11)."""

_ATTEMPTS: Final = 8
_RETRY_SECONDS: Final = 0.1
"""Opening fails with ENODEV while the driver resets the device, which takes some tens of milliseconds."""

_lock = new_lock()
_opened: Final[dict[int, Any]] = {}
_opener: int | None = None
"""Process that opened the devices."""


def pyxrt(library: RuntimeLibrary = XRT) -> Any:
    """Return the module pyxrt, imported on first use.

    Places in order: the module path, <place>/python and <place> for each place of `library` (NPU_TENSOR_XRT_PATH or
    XILINX_XRT), the usual places.

    Raises:
        DeviceError: There is no usable module (NOT_FOUND). The message has a line for each place.
    """
    with _lock:
        attempts: list[Attempt] = []
        for named_by, directory in _directories(library.places()):
            try:
                return _load(directory, library)
            except Exception as error:  # A binary module may raise anything.
                attempts += _reasons(named_by, directory, error)
        raise not_found("XRT's Python module pyxrt", attempts)


def _directories(places: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path | None]]:
    """Yield the source and the path of each directory; None means all of sys.path."""
    yield "import pyxrt", None
    for named_by, path in places:
        yield from ((named_by, directory) for directory in (path / "python", path))
    for pattern in USUAL_PLACES:
        for directory in sorted(Path("/").glob(pattern)) or [Path("/", pattern)]:
            if str(directory) not in sys.path:
                yield "usual place", directory


def _load(directory: Path | None, library: RuntimeLibrary) -> ModuleType:
    try:
        module = _import(directory)
    except ImportError as error:
        # The loader finds libxrt_coreutil by name once it is loaded from its place.
        if not any(name in str(error) for name in library.names):
            raise
        try:
            library.find()
        except DeviceError:
            raise error from None
        module = _import(directory)
    if not hasattr(module, "device"):
        sys.modules.pop("pyxrt", None)
        raise ImportError(f"{getattr(module, '__file__', None) or module!r} is not XRT's module: it has no `device`")
    return module


def _import(directory: Path | None) -> ModuleType:
    if directory is None or "pyxrt" in sys.modules:
        return importlib.import_module("pyxrt")
    spec = importlib.machinery.PathFinder.find_spec("pyxrt", [str(directory)])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("not found", name="pyxrt")
    # Not through sys.path because the directory contains other modules, too.
    module = importlib.util.module_from_spec(spec)
    sys.modules["pyxrt"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("pyxrt", None)
        raise
    return module


def _reasons(named_by: str, directory: Path | None, error: Exception) -> Iterator[Attempt]:
    """Explain why a directory, or all of sys.path, has no usable module."""
    place = named_by if directory is None else f"{named_by}: {directory}"
    if not isinstance(error, ModuleNotFoundError) or error.name != "pyxrt" or "halted" in str(error):
        yield Attempt(place, str(error) or type(error).__name__)
        return
    builds = installed_builds([directory] if directory else [Path(entry) for entry in sys.path if entry])
    if not builds:
        yield Attempt(place, "not found" if directory is None or os.path.isdir(directory) else "no such directory")
    for build in builds:
        takes = importlib.machinery.EXTENSION_SUFFIXES[0]
        yield Attempt(f"{named_by}: {build}", f"built for Python {python_of(build)}; this Python takes pyxrt{takes}")


def installed_builds(directories: list[Path]) -> list[Path]:
    """Return the files of pyxrt for any Python in directories."""
    return [build for directory in directories for build in sorted(directory.glob("pyxrt*.so")) if python_of(build)]


def python_of(build: Path) -> str:
    """Return the Python version in a file name: pyxrt.cpython-312-x86_64-linux-gnu.so -> "3.12", otherwise empty."""
    tag = re.search(r"\.cpython-(\d)(\d+)", build.name)
    return f"{tag[1]}.{tag[2]}" if tag else ""


def open_device(index: int) -> Any:
    """Open a device of pyxrt by number, or return it if it is open.

    A process that was forked after a device was opened cannot use XRT: it lacks XRT's threads, and shares the
    driver's memory with its parent.

    Raises:
        DeviceError: There is no pyxrt (NOT_FOUND), XRT lists fewer devices (OUT_OF_RANGE), XRT cannot open the device
            or the process was forked (UNAVAILABLE).
    """
    global _opener
    if _opener not in (None, os.getpid()):
        raise DeviceError(
            f"process {os.getpid()} cannot use the NPU: process {_opener} opened it and then forked this one. Start"
            ' processes with multiprocessing.get_context("spawn"), or use the NPU only after forking'
        )
    module = pyxrt()
    with _lock:
        if index not in _opened:
            _opened[index] = _open(module, index)
            _opener = os.getpid()
        return _opened[index]


def _open(module: Any, index: int) -> Any:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return module.device(index)
        except Exception as error:
            if "err=-19" not in str(error) or attempt == _ATTEMPTS:  # ENODEV
                code = "OUT_OF_RANGE" if "No such device with index" in str(error) else "UNAVAILABLE"
                raise DeviceError(f"XRT cannot open NPU {index}: {str(error).strip()}", code) from None
            time.sleep(_RETRY_SECONDS)
    raise AssertionError


def forget_device(index: int) -> None:
    """Drop a lost device. The next use opens it again."""
    with _lock:
        _opened.pop(index, None)


def xrt_version() -> str:
    """Return the version of XRT's library, such as "2.21.75"; empty if unknown."""
    try:
        # The library that pyxrt has loaded runs the kernels, even if the search would find another one.
        library = XRT.by_name() or XRT.find()
    except DeviceError:
        return ""
    return version_of(library)


def version_of(library: LoadedLibrary) -> str:
    """Return the version of an XRT library; empty if unknown."""
    parts = ("xrtVersionMajor", "xrtVersionMinor", "xrtVersionPatch")  # xrt_version.h, since 2023
    if all(hasattr(library.handle, part) for part in parts):
        return ".".join(str(library.handle[part]()) for part in parts)
    number = re.search(r"\.so\.(\d+\.\d[\d.]*)$", library.path.resolve().name)
    return number[1] if number else ""
