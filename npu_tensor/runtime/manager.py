"""Compiled functions for the cores as modules, loaded once per process.

    module = KernelManager("sim:npu2").get_or_compile_module(Source.BINARY)
    add = module.function(symbol("add", nt.bfloat16))
    add(x, y, out, 1024)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from npu_tensor.errors import ArgumentError, BuildError, LaunchError
from npu_tensor.runtime.cache import CacheManager
from npu_tensor.runtime.sim.host_compiler import load_library
from npu_tensor.runtime.source import Source

__all__ = ["KernelManager", "Module"]


class Module:
    """A shared library of functions for the cores, in this process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def load(cls, path: Path) -> Module:
        """The library at `path`. Raises BuildError if it cannot be loaded."""
        try:
            return cls.load_data(path.read_bytes())
        except OSError as error:
            raise BuildError(f"{path} cannot be read: {error}") from None

    @classmethod
    def load_data(cls, data: bytes) -> Module:
        """A library from its bytes. Raises BuildError."""
        try:
            return cls(load_library(data))
        except OSError as error:
            raise BuildError(f"the library cannot be loaded: {error}") from None

    def function(self, symbol: str) -> Callable[..., None]:
        """A function that the library was compiled with, which takes arrays, int32 and float32.

        Raises ArgumentError if there is none; calls raise LaunchError if an assertion of the C++ fails. Arrays must be
        as long as the function expects, contiguous, and aligned to 64 bytes; their length is not checked.
        """
        try:
            address = ctypes.c_void_p.in_dll(self._library, f"nt_host_entry_{symbol}").value
        except ValueError:
            raise ArgumentError(f"the module was compiled without a function {symbol}") from None
        assert address is not None

        def call(*arguments: np.ndarray[Any, Any] | int | float) -> None:
            given = [_argument(argument) for argument in arguments]
            failed = ctypes.CFUNCTYPE(ctypes.c_char_p, *map(type, given))(address)(*given)
            if failed:
                raise LaunchError(f"{symbol}: {failed.decode(errors='replace')}")

        return call


def _argument(value: np.ndarray[Any, Any] | int | float) -> Any:
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous or value.ctypes.data % 64:
            raise ArgumentError("an array for a function of a core must be contiguous and aligned to 64 bytes")
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_float(value)


_modules: dict[str, Module] = {}
"""By the digest of their library: there is one object for each in a process."""


class KernelManager:
    """Modules of one generation of the array. Safe to use from several threads. device: as for `CacheManager`."""

    def __init__(self, device: str = "sim:npu2") -> None:
        self.cache = CacheManager(device)
        self._known: dict[Source, Module] = {}

    def get_or_compile_module(self, source: Source) -> Module:
        """The functions of a family: the same object for every caller and every manager. Raises BuildError."""
        known = self._known.get(source)
        if known is None:
            binary = self.cache.get_or_compile(source.label, source.text(), source.functions())
            known = _modules.get(binary.sha256) or _modules.setdefault(binary.sha256, Module.load(binary.path))
            self._known[source] = known
        return known
