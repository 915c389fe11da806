"""Kernel functions compiled for this machine: the very C++ that the array's compiler gets, as a shared library.

    missing = reason()      # None, or why nothing can be compiled
    compiled = compile_source(source, "aie2p", functions)
    message = compiled.entry(functions[0])(address, address, 7)

Libraries are kept in the cache directory under a digest of everything they depend on. Each ends in the SHA-256 of what
stands before, which loaders of ELF files ignore.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.design import KernelFunction, ObjectType, Source
from npu_tensor.errors import BuildError

__all__ = ["CompiledSource", "Entry", "compile_source", "reason"]

Entry = Callable[..., bytes | None]
"""Takes addresses and numbers; returns what went wrong, if anything."""

_KERNELS: Final = Path(__file__).parents[2] / "kernels"
_INCLUDES: Final = (_KERNELS / "host", _KERNELS / "include")
_NATIVE: Final = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
# Contraction would make results depend on whether this machine has a fused multiply-add.
_FLAGS: Final = ("-std=c++20", "-O2", _NATIVE, "-ffp-contract=off", *(f"-I{path}" for path in _INCLUDES))
_ARCH_NUMBER: Final[dict[str, int]] = {"aie2": 20, "aie2p": 21}


class _Number(NamedTuple):
    """What a number in the argument list of a kernel function is in C++ and for ctypes."""

    cxx: str
    ctype: type[ctypes._SimpleCData[Any]]


_NUMBERS: Final = {
    "int32": _Number("std::int32_t", ctypes.c_int32),
    "float32": _Number("float", ctypes.c_float),
}

_CHECKSUM_BYTES: Final = 32
_LONGEST_MESSAGE: Final = 6000


class _Compiler(NamedTuple):
    """command: how to start it. identity: all macros that it predefines for this machine, with those of its headers:
    its version, the instruction set that native means, and the C library.
    """

    command: tuple[str, ...]
    identity: str


class _Failed(NamedTuple):
    reason: str


def _run(command: Sequence[str], directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@cache
def _find(cxx: str | None, path: str | None) -> _Compiler | _Failed:
    """The first usable compiler. The arguments are the environment that decides which one that is."""
    tried = []
    for candidate in (cxx, "c++", "g++", "clang++"):
        command = shlex.split(candidate or "")
        if not command or shutil.which(command[0], path=path) is None:
            continue
        probe = _run([*command, *_FLAGS, "-dM", "-E", "-include", "nt_host.hpp", "-x", "c++", os.devnull])
        if probe.returncode == 0:
            return _Compiler(tuple(command), hashlib.sha256(probe.stdout.encode()).hexdigest())
        tried.append(command[0])
    if tried:
        return _Failed(f"no C++ compiler of this machine ({', '.join(tried)}) takes C++20 for {platform.machine()}")
    return _Failed("this machine has no C++ compiler: neither the variable CXX nor c++, g++ or clang++ names one")


def _compiler() -> _Compiler | _Failed:
    return _find(os.environ.get("CXX"), os.environ.get("PATH"))


def reason() -> str | None:
    """Why kernels cannot be compiled for this machine, in one sentence; None if they can."""
    compiler = _compiler()
    return compiler.reason if isinstance(compiler, _Failed) else None


class CompiledSource:
    """The functions of one source, callable."""

    def __init__(self, path: Path, source: Source, functions: Sequence[KernelFunction]) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BuildError(f"the object of {source.name} cannot be loaded: {error}") from None
        for function in functions:
            if not hasattr(self._library, function.symbol):
                raise BuildError(f'the object of {source.name} has no extern "C" function {function.symbol}')

    def entry(self, function: KernelFunction) -> Entry:
        """How to call one of the functions that were given to `compile_source`.

        It flushes denormals, and returns the message of an assertion that failed in it. Other threads run meanwhile.
        """
        types = [ctypes.c_void_p if isinstance(a, ObjectType) else _NUMBERS[a].ctype for a in function.arguments]
        address = ctypes.c_void_p.in_dll(self._library, f"nt_host_entry_{function.symbol}").value
        assert address is not None
        entry: Entry = ctypes.CFUNCTYPE(ctypes.c_char_p, *types)(address)
        return entry


_loaded: dict[str, CompiledSource] = {}
_building: dict[str, threading.Lock] = {}


def compile_source(source: Source, arch: Arch, functions: Sequence[KernelFunction]) -> CompiledSource:
    """The declared functions of a source, compiled for this machine, or loaded if that was done before.

    Raises BuildError with what the compiler says if there is no compiler, if the source is wrong, or if a function is
    missing or takes other arguments than it is declared with.
    """
    compiler = _compiler()
    if isinstance(compiler, _Failed):
        raise BuildError(compiler.reason)
    entries = "".join(map(_entry, functions))
    flags = (*_FLAGS, f"-D__AIE_ARCH__={_ARCH_NUMBER[arch]}", *source.flags)
    key = _digest([*compiler, *flags, source.name, source.text, entries, _headers()])
    with _building.setdefault(key, threading.Lock()):
        known = _loaded.get(key)
        if known is None:
            known = _loaded[key] = _load_or_build(key, compiler, flags, source, entries, functions)
        return known


def _entry(function: KernelFunction) -> str:
    declared = [""]
    for argument in function.arguments:
        if isinstance(argument, ObjectType):
            declared.append(f"nt_host::Pointer<{argument.itemsize}>")
        elif argument in _NUMBERS:
            declared.append(f"nt_host::Number<{_NUMBERS[argument].cxx}>")
        else:
            raise BuildError(f"{function.symbol}: a number must be {' or '.join(_NUMBERS)}, not {argument}")
    return f"NT_HOST_ENTRY({function.symbol}{', '.join(declared)})\n"


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()


def _headers() -> str:
    """A digest of all headers that a source can include from this package."""
    headers = [(path.relative_to(_KERNELS).as_posix(), path) for root in _INCLUDES for path in root.rglob("*.hpp")]
    return _digest([(name, path.read_bytes()) for name, path in sorted(headers)])


def _load_or_build(
    key: str,
    compiler: _Compiler,
    flags: Sequence[str],
    source: Source,
    entries: str,
    functions: Sequence[KernelFunction],
) -> CompiledSource:
    path = config.cache_dir / "sim" / f"{key}.so"
    if _is_whole(path):
        return CompiledSource(path, source, functions)
    with tempfile.TemporaryDirectory(prefix="npu_tensor_") as directory:
        built = _build(Path(directory), compiler, flags, source, entries, functions)
        kept = _keep(built, path)
        return CompiledSource(path if kept else built, source, functions)  # stays mapped when the file is removed


def _is_whole(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-_CHECKSUM_BYTES]).digest() == content[-_CHECKSUM_BYTES:]


def _build(
    directory: Path,
    compiler: _Compiler,
    flags: Sequence[str],
    source: Source,
    entries: str,
    functions: Sequence[KernelFunction],
) -> Path:
    for function in functions:
        if re.search(rf"\b{re.escape(function.symbol)}\b", source.text) is None:
            raise BuildError(f"the source {source.name} has no function {function.symbol}")
    # Relative names and a file of its own for the source: the compiler's messages then name it and show its lines.
    name = re.sub(r"\W", "_", source.name) + ".cc"
    (directory / name).write_text(source.text, "utf-8")
    (directory / "host_entries.cpp").write_text(f'#include "{name}"\n#include <nt_host.hpp>\n{entries}', "utf-8")
    command = [*compiler.command, *flags, "-fPIC", "-shared", "-o", "library.so", "host_entries.cpp"]
    done = _run(command, directory)
    if done.returncode != 0:
        message = (done.stderr or done.stdout)[:_LONGEST_MESSAGE]
        raise BuildError(f"the source {source.name} does not compile for this machine:\n{message}")
    return directory / "library.so"


def _keep(built: Path, path: Path) -> bool:
    """Put a library into the cache so that other processes see all of it or nothing."""
    content = built.read_bytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem[:16]}.", suffix=".temporary")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content + hashlib.sha256(content).digest())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        warnings.warn(
            f"compiled kernels are not kept: cannot write to {path.parent} ({error})", RuntimeWarning, stacklevel=2
        )
        return False
    return True
