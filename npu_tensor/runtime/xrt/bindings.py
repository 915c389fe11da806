"""XRT's Python module and the devices that are opened through it: the only importer of pyxrt.

Example:
    device = open_device(0)             # opened once per process, kept
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

__all__ = ["forget_device", "installed_builds", "open_device", "python_of", "pyxrt", "xrt_version"]

USUAL_PLACES: Final = (
    "opt/xilinx/xrt/python",  # AMD's own packages and a build from source; XRT src/CMake/xrtVariables.cmake
    "usr/lib/python3/dist-packages",  # packages of Debian and Ubuntu
    "usr/lib/python3.*/site-packages",
    "usr/lib64/python3.*/site-packages",
    "usr/local/lib/python3.*/*-packages",
)
"""Where XRT puts pyxrt, below /: the last four if its prefix is /usr or /usr/local (src/python/pybind11)."""

_RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
"""Pauses before the device is opened again: while the driver resets it, opening fails with ENODEV."""

_lock = new_lock()
_failed: tuple[object, str] | None = None
_opened: Final[dict[int, Any]] = {}
_opener: int | None = None
"""The process that opened the devices."""


def pyxrt(library: RuntimeLibrary = XRT) -> Any:
    """The module, imported when first asked.

    It is the installed one, else that of XRT's directories: <directory>/python and <directory> of the places that
    `library` is looked for in (NPU_TENSOR_XRT_PATH or XILINX_XRT), then the places where XRT is usually installed.
    Raises DeviceError (NOT_FOUND) with a line for each place: it has none, or why that one does not work here. A
    failed look is not repeated before a setting that decides has changed.
    """
    global _failed
    places = tuple(library.places())
    decides = (tuple(sys.path), places, os.environ.get("PATH"), sys.modules.get("pyxrt", "absent"))
    if _failed is not None and _failed[0] == decides:
        raise DeviceError(_failed[1], "NOT_FOUND")
    with _lock:
        attempts: list[Attempt] = []
        for named_by, directory in _directories(places):
            try:
                return _load(directory, library)
            except Exception as error:  # A binary module may raise anything.
                attempts += _reasons(named_by, directory, error)
        failure = not_found("XRT's Python module pyxrt", attempts)
        _failed = (decides, str(failure))
        raise failure


def _directories(places: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path | None]]:
    """What names a directory, and the directory; None: all of sys.path."""
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
        # The loader finds libxrt_coreutil by name once it is loaded from where XRT is.
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
    # Not by way of sys.path: the directory holds other modules too.
    module = importlib.util.module_from_spec(spec)
    sys.modules["pyxrt"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("pyxrt", None)
        raise
    return module


def _reasons(named_by: str, directory: Path | None, error: Exception) -> Iterator[Attempt]:
    """Why there is no module in a directory, or in any of sys.path."""
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
    """The files of pyxrt, for any Python, that lie in directories."""
    return [build for directory in directories for build in sorted(directory.glob("pyxrt*.so")) if python_of(build)]


def python_of(build: Path) -> str:
    """The Python that a file is built for by its name: pyxrt.cpython-312-x86_64-linux-gnu.so -> "3.12", else ""."""
    tag = re.search(r"\.cpython-(\d)(\d+)", build.name)
    return f"{tag[1]}.{tag[2]}" if tag else ""


def open_device(index: int) -> Any:
    """pyxrt's device of this number, opened when first asked for and kept, by any thread.

    Raises DeviceError: NOT_FOUND without pyxrt, OUT_OF_RANGE if XRT lists fewer devices, else UNAVAILABLE with what
    XRT says, or because this process was forked from one that uses the NPU: the memory that both would share with the
    driver, and the threads that XRT has only in the first, make every call there undefined.
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
            before, _opener = _opener, os.getpid()
            try:
                _opened[index] = _open(module, index)
            finally:
                if index not in _opened:
                    _opener = before  # Still this process if it had opened one that was lost since.
        return _opened[index]


def _open(module: Any, index: int) -> Any:
    pauses = iter(_RETRY_SECONDS)
    while True:
        try:
            return module.device(index)
        except Exception as error:
            pause = next(pauses, None) if "err=-19" in str(error) else None  # ENODEV
            if pause is None:
                code = "OUT_OF_RANGE" if "No such device with index" in str(error) else "UNAVAILABLE"
                raise DeviceError(f"XRT cannot open NPU {index}: {str(error).strip()}", code) from None
            time.sleep(pause)


def forget_device(index: int) -> None:
    """Let go of a device that was lost; it is opened anew when next asked for."""
    with _lock:
        _opened.pop(index, None)


def xrt_version() -> str:
    """The version of XRT's library, as in "2.21.75"; "" if unknown."""
    try:
        # What pyxrt has loaded is what runs kernels, whatever the search would find.
        library = XRT.by_name() or XRT.find()
    except DeviceError:
        return ""
    return version_of(library)


def version_of(library: LoadedLibrary) -> str:
    """The version of a library of XRT; "" if unknown."""
    parts = ("xrtVersionMajor", "xrtVersionMinor", "xrtVersionPatch")  # xrt_version.h, since 2023
    if all(hasattr(library.handle, part) for part in parts):
        return ".".join(str(library.handle[part]()) for part in parts)
    number = re.search(r"\.so\.(\d+\.\d[\d.]*)$", library.path.resolve().name)
    return number[1] if number else ""
