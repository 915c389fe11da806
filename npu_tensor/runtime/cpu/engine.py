"""Just-in-time compiler from LLVM IR text to machine code, with a cache of object files.

    target = host_target()
    engine = Engine(target.create_target_machine(), f"{target.cpu} {target.feature_string}", cache_dir)
    address = engine.generated(module, spec, target)  # an `Address`: it keeps the code in memory

A generated module is looked up by its generator, its specification and the sources of all generators, so that a warm
cache needs no text. `compile` takes the text itself.

Generated IR is in SSA form with explicit vectors, so no LLVM pass pipeline runs: the code generator's own optimization
(level 2) is enough, in half the compile time.

Each module is linked alone: its names need not be unique, and a symbol that nothing provides is a BuildError.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from mmap import PAGESIZE, mmap
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from npu_tensor import events
from npu_tensor._util.forks import held_at_fork
from npu_tensor._util.interrupts import uninterrupted
from npu_tensor._util.version import VERSION
from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.store.store import Store

Module = Callable[[Any, CpuTarget], str]
"""Generator of IR text that defines `kernel`: a function of a module, of a specification whose `repr` is complete."""

_PACKAGE: Final = Path(__file__).parents[2]
_IMPORTED: Final = time.time()
_SOURCES: Final = ("runtime/cpu/*.py", "ops/*.py", "dtypes.py", "spec.py")
"""Sources that the text of a generated module depends on."""

SPARE_MAPPINGS: Final = 8
"""Free memory mappings that linking needs. A module keeps 2 and needs some more for a moment."""

# All of llvmlite works in one LLVM context, so one lock serves every engine. Holding it across fork() gives
# the child an LLVM that is not in the middle of a compilation.
_lock = threading.RLock()
held_at_fork(_lock)

_FORMAT: Final = "5"
"""Version of the cached object files, part of every key: functions are named as in the IR."""
_FOLDER: Final = f"cpu-llvmlite{llvmlite.__version__}"
_NAME: Final = "object"
_SUFFIX: Final = ".o"


class Address(int):
    """Address of a function. The address keeps the module in memory."""

    _code: _Code


class _Code:
    """The functions of one module, by name. Its memory is freed at some compilation after this object is gone."""

    def __init__(self, engine: Engine, functions: Mapping[str, int]) -> None:
        self.engine = engine
        self.functions = functions

    def addresses(self) -> dict[str, Address]:
        """Return the functions by name. Each address keeps the code in memory."""
        result = {name: Address(address) for name, address in self.functions.items()}
        for address in result.values():
            address._code = self
        return result


@dataclass
class EngineStatistics:
    """Counters of an engine."""

    compiled: int = 0
    compile_seconds: float = 0.0  # for parsing and code generation
    memory_hits: int = 0
    disk_hits: int = 0


class Engine:
    """Compiles IR text for one target machine. Safe to use from several threads.

    target_machine  made for JIT code. The engine keeps it alive.
    key             describes the target machine: CPU name and feature string. Part of every cache key.
    cache_dir       directory of the cache; made when first needed. None: no cache on disk.
    """

    def __init__(self, target_machine: Any, key: str, cache_dir: Path | None) -> None:
        self.statistics = EngineStatistics()
        self._target_machine = target_machine
        version = ".".join(map(str, llvm.llvm_version_info))
        with _lock:
            self.triple, self._linker = _new_linker(target_machine)
        prefix = "\0".join((_FORMAT, llvmlite.__version__, version, self.triple, key, ""))
        self._key_prefix = prefix.encode()
        self._store = None if cache_dir is None else Store(cache_dir.absolute())
        # Modules by key, each with the owner of its memory.
        self._modules: dict[bytes, tuple[weakref.ref[_Code], llvm.ResourceTracker]] = {}
        self._numbers = itertools.count()

    def compile(
        self, ir_text: str, *function_names: str, symbols: Mapping[str, int] | None = None
    ) -> dict[str, Address]:
        """Return the address of each function named, of a module that is compiled or found in a cache.

        `symbols` gives the addresses of the external functions and variables that the module may use.

        Raises BuildError when LLVM rejects the text, a named function is not defined in it, it needs a symbol that is
        not in `symbols`, or there is no memory for more code. One mistake cannot be caught: an intrinsic of an
        instruction set that the target lacks makes LLVM end the process.
        """
        return self._compiled(ir_text, lambda: ir_text, function_names, symbols or {})

    def generated(self, module: Module, spec: Any, target: CpuTarget) -> Address:
        """Return the function `kernel` of a generated module. The text is generated if no cache has the code."""
        description = repr(spec)
        if " at 0x" in description:
            raise TypeError(f"{module.__qualname__}: the specification has no stable text: {description}")
        version = source_version(_PACKAGE, _IMPORTED)
        words = version, module.__module__, module.__qualname__, target.cpu, target.feature_string, description
        return self._compiled("\0".join(words), lambda: module(spec, target), ("kernel",), {})["kernel"]

    def _compiled(
        self, source: str, text: Callable[[], str], names: Sequence[str], symbols: Mapping[str, int]
    ) -> dict[str, Address]:
        """Return the functions of a module from a cache, or compile its text. The text is a function of the source."""
        key = hashlib.sha256(self._key_prefix + "\0".join((*names, "", source)).encode()).digest()
        if events.listeners and key not in self._modules:
            text = cache(text)
            events.emit(events.CodeGenerated("LLVM IR", ", ".join(names), text()))
        with _lock:
            module = self._modules.get(key)
            code = module and module[0]()
            if code:
                self.statistics.memory_hits += 1
                return code.addresses()
            stored = self._load_object(key.hex())
            self.statistics.disk_hits += stored is not None
            code, data = self._build(key, stored, text, names, symbols)
            if stored is None:
                self._store_object(key.hex(), data)
                _trim_heap()
            return code.addresses()

    def _load_object(self, key: str) -> bytes | None:
        entry = None if self._store is None else self._store.get(_FOLDER, _NAME, key)
        if entry is not None:
            with suppress(OSError):  # Evicted by another process.
                return entry.files[_SUFFIX].read_bytes()
        return None

    def _store_object(self, key: str, data: bytes) -> None:
        if self._store is not None:
            with suppress(OSError):  # The code is in memory, so no file is needed.
                self._store.put(_FOLDER, _NAME, key, {_SUFFIX: data}, {"triple": self.triple})

    @uninterrupted
    def _build(
        self,
        key: bytes,
        data: bytes | None,
        text: Callable[[], str],
        exported: Iterable[str],
        symbols: Mapping[str, int],
    ) -> tuple[_Code, bytes]:
        data = data or self._generate(text(), exported, symbols)
        return self._link(key, data, exported, symbols), data

    def _generate(self, ir_text: str, exported: Iterable[str], symbols: Mapping[str, int]) -> bytes:
        """Return the machine code of the module, as an object file that defines the functions `exported`."""
        start = time.perf_counter()
        try:
            module = llvm.parse_assembly(ir_text)
            module.triple = self.triple
            module.data_layout = str(self._target_machine.target_data)
            _hide_others(module, exported, symbols)
            module.verify()
        except RuntimeError as error:
            raise BuildError(f"LLVM rejects the generated code: {error}") from error
        data: bytes = self._target_machine.emit_object(module)
        self.statistics.compiled += 1
        self.statistics.compile_seconds += time.perf_counter() - start
        return data

    def _link(self, key: bytes, data: bytes, exported: Iterable[str], symbols: Mapping[str, int]) -> _Code:
        # Code may be dropped in any thread at any moment; its memory is freed here, under the lock.
        self._modules = {old: module for old, module in self._modules.items() if module[0]() is not None}
        _require_mappings()
        library = llvm.JITLibraryBuilder().add_object_img(data)
        for name in exported:
            library.export_symbol(name)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        try:
            tracker = library.link(self._linker, f"module{next(self._numbers)}")
        except RuntimeError as error:  # a symbol that is missing, or no memory
            raise BuildError(f"LLVM cannot link the machine code: {error}") from error
        code = _Code(self, {name: tracker[name] for name in exported})
        self._modules[key] = weakref.ref(code), tracker
        return code


@cache
def source_version(package: Path, imported: float) -> str:
    """Return a hash of the sources of the generators below `package`.

    Sources that were edited after the time `imported` may differ from the code that runs. The version is random then.
    """
    version = hashlib.sha256(VERSION.encode())
    for path in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        version.update(f"\0{path.relative_to(package)}\0".encode())
        version.update(path.read_bytes())
        if path.stat().st_mtime > imported:
            version.update(os.urandom(16))
    return version.hexdigest()


@uninterrupted
def _new_linker(target_machine: Any) -> tuple[str, llvm.LLJIT]:
    return target_machine.triple, llvm.create_lljit_compiler(target_machine, suppress_errors=True)


def _require_mappings() -> None:
    """Raise BuildError near the limit of mappings of a process (65,530 on Linux), where LLVM ends the process."""
    try:
        for mapping in [mmap(-1, PAGESIZE) for _ in range(SPARE_MAPPINGS)]:
            mapping.close()
    except OSError as error:
        raise BuildError(f"the process has no room for more machine code: {error}") from error


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's malloc_trim; None for other C libraries."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def _trim_heap() -> None:
    """Give back the megabytes that LLVM has freed; malloc would keep them beside the tensors. Takes 0.1 ms."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _hide_others(module: Any, exported: Iterable[str], symbols: Mapping[str, int]) -> None:
    """Make everything that the module defines but the exported functions internal, and check the names it uses."""
    defined, unknown = set(), set()
    for value in (*module.functions, *module.global_variables):
        if value.is_declaration:
            if not value.name.startswith("llvm.") and value.name not in symbols:
                unknown.add(value.name)
        elif value.name in exported and value.is_function:
            defined.add(value.name)
        else:
            value.linkage = llvm.Linkage.internal
    if missing := set(exported) - defined:
        raise BuildError(f"the module does not define {', '.join(sorted(missing))}")
    if unknown:
        raise BuildError(f"the compiled code needs symbols that nothing provides: {', '.join(sorted(unknown))}")
