"""From LLVM IR text to machine code: a just-in-time compiler with a cache of object files.

    target = host_target()
    engine = Engine(target.create_target_machine(), f"{target.cpu} {target.feature_string}", cache_dir)
    address = engine.compile(text, "kernel")["kernel"]  # to be kept as this object, not as another int

Generated IR is already in SSA form with explicit vectors, so no LLVM pass pipeline runs; the code generator's
own optimisation (level 2) is all that is needed and half the compile time.

LLVM's MCJIT ends the process when it meets a symbol that it cannot resolve. The code generator itself can
introduce one: converting float to bfloat on a CPU without that instruction becomes a call of `__truncsfbf2`.
Every object is therefore read before it reaches the JIT, and one with an unexpected undefined symbol raises
BuildError instead. See `object_file` for where that is not possible.

Kernels need no linker on Linux on x86-64: `code_memory` holds them, for as long as somebody holds their addresses.
What LLVM links, the thread pool and kernels elsewhere, stays for ever.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from npu_tensor import events
from npu_tensor._util.forks import held_at_fork
from npu_tensor._util.interrupts import uninterrupted
from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu.code_memory import Address, Code, CodeMemory
from npu_tensor.runtime.cpu.object_cache import ObjectCache
from npu_tensor.runtime.cpu.object_file import read_image, read_symbols

__all__ = ["Engine", "EngineStatistics"]

# All of llvmlite works in one LLVM context, so one lock serves every engine. Holding it across fork() gives
# the child an LLVM that is not in the middle of a compilation.
_lock = threading.RLock()
held_at_fork(_lock)

# The pool's threads are still running while the interpreter shuts down, so LLVM engines and what they have linked are
# never disposed of.
_immortal: list[Any] = []

# Modules that LLVM may link in a process: each takes three mappings of the 65,530 that Linux allows by default.
MOST_LINKED: Final = 8192


@dataclass
class EngineStatistics:
    """What an engine has done so far. `compile_seconds` covers parsing and code generation, not loading."""

    compiled: int = 0
    compile_seconds: float = 0.0
    memory_hits: int = 0
    disk_hits: int = 0
    damaged_entries: int = 0


class Engine:
    """Compiles IR text for one target machine. Safe to use from several threads.

    target_machine  made for JIT code. The engine keeps it alive.
    key             describes the target machine: CPU name and feature string. Part of every cache key.
    cache_dir       directory of the object files; made when first needed. None: no cache on disk.
    """

    def __init__(self, target_machine: Any, key: str, cache_dir: Path | None) -> None:
        self.statistics = EngineStatistics()
        self._target_machine = target_machine
        version = ".".join(map(str, llvm.llvm_version_info))
        with _lock:
            self.triple, self._jit = _new_jit(target_machine)
            _immortal.append((self._jit, target_machine))
        self._key_prefix = f"{llvmlite.__version__}\0{version}\0{self.triple}\0{key}\0".encode()
        self._objects = ObjectCache(cache_dir)
        # By what was asked for. Whoever has an address keeps the code; here it is only found again.
        self._code: weakref.WeakValueDictionary[bytes, Code] = weakref.WeakValueDictionary()
        self._memory = CodeMemory()
        self._linked = 0

    def compile(
        self, ir_text: str, *function_names: str, symbols: Mapping[str, int] | None = None
    ) -> dict[str, Address]:
        """Compile one module, or find it in a cache, and return the address of each function named.

        The code is there for as long as one of these objects is, and may be gone when all are.

        Names need not be unique across modules: each module is a world of its own. `symbols` gives the
        addresses of the external functions and variables that the module may use. The same external name must
        mean the same address in every module of the process.

        Raises BuildError when LLVM rejects the text, a named function is not defined in it, it needs a
        symbol that is not in `symbols`, or there is no memory for more code. One mistake cannot be caught: an
        intrinsic of an instruction set that the target lacks makes LLVM end the process.
        """
        names = "\0".join(function_names)
        key = hashlib.sha256(self._key_prefix + names.encode() + b"\0\0" + ir_text.encode()).digest()
        if events.listeners and key not in self._code:
            events.emit(events.CodeGenerated("LLVM IR", ", ".join(function_names), ir_text))
        with _lock:
            code = self._code.get(key)
            if code is not None:
                self.statistics.memory_hits += 1
                return code.addresses()
            suffix = "." + key.hex()
            exported = {name: name + suffix for name in function_names}
            data = self._objects.load(key.hex())
            if data is None:
                data = self._generate(ir_text, exported, symbols or {})
                self._check(data, exported, symbols or {})
                self._objects.store(key.hex(), data)
            else:
                self.statistics.disk_hits += 1
                self._check(data, exported, symbols or {})
            self.statistics.damaged_entries = self._objects.damaged
            image = read_image(data) if CodeMemory.available else None
            code = self._link(data, exported, symbols or {}) if image is None else self._memory.load(image, exported)
            self._code[key] = code
            _trim_heap()
            return code.addresses()

    @uninterrupted
    def _generate(self, ir_text: str, exported: Mapping[str, str], symbols: Mapping[str, int]) -> bytes:
        """Machine code of the module, as an object file that defines the values of `exported`."""
        start = time.perf_counter()
        try:
            module = llvm.parse_assembly(ir_text)
            module.triple = self.triple
            module.data_layout = str(self._target_machine.target_data)
            _keep_only(module, exported)
            module.verify()
        except RuntimeError as error:
            raise BuildError(f"LLVM rejects the generated code: {error}") from error
        _refuse_undefined(
            (
                function.name
                for function in module.functions
                if function.is_declaration and not function.name.startswith("llvm.")
            ),
            symbols,
        )
        data: bytes = self._target_machine.emit_object(module)
        self.statistics.compiled += 1
        self.statistics.compile_seconds += time.perf_counter() - start
        return data

    @staticmethod
    def _check(data: bytes, exported: Mapping[str, str], symbols: Mapping[str, int]) -> None:
        found = read_symbols(data)
        if found is None:
            return
        _refuse_undefined(found.undefined, symbols)
        missing = set(exported.values()) - found.defined
        if missing:
            raise BuildError(f"the object file lacks {', '.join(sorted(missing))}")

    @uninterrupted
    def _link(self, data: bytes, exported: Mapping[str, str], symbols: Mapping[str, int]) -> Code:
        if self._linked >= MOST_LINKED:
            raise BuildError(f"{MOST_LINKED} modules have been linked, and LLVM cannot free them")
        self._linked += 1
        for name, address in symbols.items():
            llvm.add_symbol(name, address)
        self._jit.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._jit.finalize_object()
        code = Code({name: self._jit.get_function_address(unique) for name, unique in exported.items()}, self._jit)
        _immortal.append(code)
        return code


@uninterrupted
def _new_jit(target_machine: Any) -> tuple[str, Any]:
    """The triple of the machine, and what loads code for it."""
    return target_machine.triple, llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def _trim_heap() -> None:
    """Give back the megabytes that LLVM has freed; malloc would keep them beside the tensors. Takes 0.1 ms."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _keep_only(module: Any, exported: Mapping[str, str]) -> None:
    """Give the exported functions their unique names and hide everything else that the module defines."""
    missing = set(exported)
    for value in (*module.functions, *module.global_variables):
        if value.is_declaration:
            continue
        if value.name in exported and value.is_function:
            missing.discard(value.name)
            value.name = exported[value.name]
            value.linkage = llvm.Linkage.external
        else:
            value.linkage = llvm.Linkage.internal
    if missing:
        raise BuildError(f"the module does not define {', '.join(sorted(missing))}")


def _refuse_undefined(names: Iterable[str], symbols: Mapping[str, int]) -> None:
    unknown = sorted(set(names) - symbols.keys())
    if unknown:
        raise BuildError(f"the compiled code needs symbols that nothing provides: {', '.join(unknown)}")
