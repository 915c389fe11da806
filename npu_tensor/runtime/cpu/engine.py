"""From LLVM IR text to machine code: a just-in-time compiler with a cache of object files.

    target = host_target()
    engine = Engine(target.create_target_machine(), f"{target.cpu} {target.feature_string}", cache_dir)
    address = engine.compile(text, "kernel")["kernel"]

Generated IR is already in SSA form with explicit vectors, so no LLVM pass pipeline runs; the code generator's
own optimisation (level 2) is all that is needed and half the compile time.

LLVM's MCJIT ends the process when it meets a symbol that it cannot resolve. The code generator itself can
introduce one: converting float to bfloat on a CPU without that instruction becomes a call of `__truncsfbf2`.
Every object is therefore read before it reaches the JIT, and one with an unexpected undefined symbol raises
BuildError instead.

This check reads ELF, the format on Linux and, because llvmlite asks for it, on Windows. On macOS (Mach-O)
only the functions *declared* in the IR are checked: calls that the code generator introduces are not seen
there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

from npu_tensor import debugging
from npu_tensor.errors import BuildError
from npu_tensor.forks import held_at_fork
from npu_tensor.runtime.store_directories import not_kept, readable, writable
from npu_tensor.runtime.store_files import DAMAGED, OBJECT_CHECKSUM_BYTES, write_atomically
from npu_tensor.runtime.store_upkeep import clear_once, wrote

__all__ = ["Engine", "EngineStatistics", "Symbols", "read_symbols"]

# All of llvmlite works in one LLVM context, so one lock serves every engine. Holding it across fork() gives
# the child an LLVM that is not in the middle of a compilation.
_lock = threading.RLock()
held_at_fork(_lock)

# Machine code must outlive every Python object that might call it, and the pool's threads, which are still
# running while the interpreter shuts down. LLVM engines are therefore never disposed of.
_immortal: list[Any] = []


class Symbols(NamedTuple):
    """The global symbols of one object file."""

    defined: frozenset[str]
    undefined: frozenset[str]


# Sizes and codes of the ELF64 format.
_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_SECTION_HEADER_TABLE_OFFSET = 0x28
_SECTION_COUNT_OFFSET = 0x3C
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE_SECTION = 2
_UNDEFINED_SECTION = 0
_LOCAL_BINDING = 0


def read_symbols(data: bytes) -> Symbols | None:
    """The global symbols of a 64-bit little-endian ELF object, or None when `data` is in another format.

    Raises BuildError when the object is cut short or its tables point outside it.
    """
    if data[:6] != _ELF64_LITTLE_ENDIAN:
        return None
    defined, undefined = set(), set()
    try:
        for name, information, section in _elf_symbols(data):
            if section == _UNDEFINED_SECTION:
                undefined.add(name)
            elif information >> 4 != _LOCAL_BINDING:
                defined.add(name)
    except (struct.error, ValueError, IndexError) as error:
        raise BuildError(f"damaged ELF object: {error}") from error
    return Symbols(frozenset(defined), frozenset(undefined))


def _elf_symbols(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, st_info, section index) of every named symbol."""
    (table,) = struct.unpack_from("<Q", data, _SECTION_HEADER_TABLE_OFFSET)
    (count,) = struct.unpack_from("<H", data, _SECTION_COUNT_OFFSET)
    headers = [_SECTION_HEADER.unpack_from(data, table + i * _SECTION_HEADER.size) for i in range(count)]
    for header in headers:
        _, kind, _, _, offset, size, names_section, *_ = header
        if kind != _SYMBOL_TABLE_SECTION:
            continue
        names_offset = headers[names_section][4]
        for position in range(offset, offset + size, _SYMBOL.size):
            name, information, _, section, _, _ = _SYMBOL.unpack_from(data, position)
            start = names_offset + name
            text = data[start : data.index(b"\0", start)].decode("utf-8", "replace")
            if text:
                yield text, information, section


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
        self.triple: str = target_machine.triple
        self.statistics = EngineStatistics()
        self._target_machine = target_machine
        version = ".".join(map(str, llvm.llvm_version_info))
        self._key_prefix = f"{llvmlite.__version__}\0{version}\0{self.triple}\0{key}\0".encode()
        self._objects = _ObjectCache(cache_dir)
        self._functions: dict[bytes, dict[str, int]] = {}
        with _lock:
            self._jit = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine)
            _immortal.append((self._jit, target_machine))

    def compile(
        self, ir_text: str, *function_names: str, symbols: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Compile one module, or find it in a cache, and return the address of each function named.

        Names need not be unique across modules: each module is a world of its own. `symbols` gives the
        addresses of the external functions and variables that the module may use. The same external name must
        mean the same address in every module of the process.

        Raises BuildError when LLVM rejects the text, a named function is not defined in it, or it needs a
        symbol that is not in `symbols`. One mistake cannot be caught: an intrinsic of an instruction set that
        the target lacks makes LLVM end the process.
        """
        names = "\0".join(function_names)
        key = hashlib.sha256(self._key_prefix + names.encode() + b"\0\0" + ir_text.encode()).digest()
        if key not in self._functions:
            debugging.show_code("LLVM IR", ", ".join(function_names), ir_text)
        with _lock:
            functions = self._functions.get(key)
            if functions is not None:
                self.statistics.memory_hits += 1
                return dict(functions)
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
            functions = self._link(data, exported, symbols or {})
            self._functions[key] = functions
            _trim_heap()
            return dict(functions)

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

    def _link(self, data: bytes, exported: Mapping[str, str], symbols: Mapping[str, int]) -> dict[str, int]:
        for name, address in symbols.items():
            llvm.add_symbol(name, address)
        self._jit.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._jit.finalize_object()
        return {name: self._jit.get_function_address(unique) for name, unique in exported.items()}


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


class _ObjectCache:
    """Object files by key, in a directory below that of the cache. Each file is the SHA-256 of the object, then the
    object.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = None if directory is None else directory.absolute()
        self.damaged = 0

    def load(self, key: str) -> bytes | None:
        """The object, or None when there is none or it is damaged; a damaged file is moved aside."""
        if self._directory is None:
            return None
        clear_once(self._directory.parent)
        for root in readable(self._directory.parent):
            path = root / self._directory.name / f"{key}.object"
            try:
                content = path.read_bytes()
            except OSError:
                continue
            checksum, data = content[:OBJECT_CHECKSUM_BYTES], content[OBJECT_CHECKSUM_BYTES:]
            if hashlib.sha256(data).digest() == checksum:
                with suppress(OSError):  # For the order of eviction. Read-only, or just removed.
                    os.utime(path)
                return data
            self.damaged += 1
            with suppress(OSError):  # Another process was faster, or the directory is read-only.
                os.replace(path, path.with_suffix(DAMAGED))
        return None

    def store(self, key: str, data: bytes) -> None:
        """Write the object so that other processes see all of it or nothing; give up the cache on failure."""
        if self._directory is None:
            return
        root = self._directory.parent
        try:
            root = writable(root)
            directory = root / self._directory.name
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(directory / f"{key}.object", hashlib.sha256(data).digest() + data)
        except OSError as error:
            self._directory = None
            not_kept(root, error)
        else:
            wrote(root, len(data))
