"""Compilation of kernel functions for this machine: the array compiler's C++ as a shared library.

    missing = reason()      # None, or why nothing can be compiled
    compiled = compile_source(source, "aie2p", functions)
    message = compiled.entry(functions[0])(address, address, 7)

Libraries are kept in the cache under a digest of everything they depend on.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Configuration, KernelFunction, ObjectType, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build import headers
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store.requests import kernel_key
from npu_tensor.runtime.store.store import Artifact, store

Entry = Callable[..., bytes | None]
"""Callable that takes addresses and numbers and returns an error message, or None."""

_KERNELS: Final = Path(__file__).parents[2] / "kernels"
_INCLUDES: Final = (_KERNELS / "host", _KERNELS / "include")
_NATIVE: Final = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
# Contraction would make results depend on whether this machine has a fused multiply-add.
_VISIBLE_FLAGS: Final = ("-std=c++20", "-O2", _NATIVE, "-ffp-contract=off")
_FLAGS: Final = (*_VISIBLE_FLAGS, *(f"-I{path}" for path in _INCLUDES))
_ENTRIES_INCLUDE: Final = "\n#include <nt_host.hpp>\n"

SUFFIX: Final = ".so"
_ARCH_NUMBER: Final[dict[str, int]] = {"aie2": 20, "aie2p": 21}


class _Number(NamedTuple):
    """Type of a number in the argument list of a kernel function, in C++ and for ctypes."""

    cxx: str
    ctype: type[ctypes._SimpleCData[Any]]


_NUMBERS: Final = {
    "int32": _Number("std::int32_t", ctypes.c_int32),
    "float32": _Number("float", ctypes.c_float),
}


class _Compiler(NamedTuple):
    """C++ compiler of this machine, or the reason why there is none.

    Attributes:
        command: Command line that starts it.
        version: Name and version as one word.
        identity: Digest of all macros predefined for this machine and by its headers, which identify the native
            instruction set and the C library.
        missing: Reason why there is none, in one sentence, or None.
    """

    command: tuple[str, ...] = ()
    version: str = "none"
    identity: str = ""
    missing: str | None = None


_PROBE: Final = (*_FLAGS, "-dM", "-E", "-include", "nt_host.hpp", "-x", "c++", os.devnull, "-o", "macros.h")
_PROBE_SECONDS: Final = 30
"""Time limit in seconds for a compiler that only lists its macros, which takes a tenth of a second."""


def _version(macros: str) -> str:
    """Return "clang17.0.6" or "gcc12.2.0", derived from the predefined macros."""
    numbers = dict(re.findall(r"^#define (__\w+__) (\d+)$", macros, re.MULTILINE))
    for name, parts in _VERSION_MACROS.items():
        if all(part in numbers for part in parts):
            return name + ".".join(numbers[part] for part in parts)
    return "c++"


# clang defines GCC's macros as well.
_VERSION_MACROS: Final = {
    "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
    "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
}


@cache
def _find(cxx: str | None, path: str | None) -> _Compiler:
    """Return the compiler set by CXX, or else the first usable one. The arguments are the relevant environment."""
    try:
        chosen = shlex.split(cxx or "")
    except ValueError:  # an unbalanced quote
        return _Compiler(missing=f"CXX={cxx} has an open quote; unset CXX or name a C++ compiler")
    tried = []
    for command in [chosen] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0], path=path) is None:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                log = Path(directory, "probe.log")
                run([*command, *_PROBE], log.parent, log, min(_PROBE_SECONDS, config.build_seconds))
                macros = Path(directory, "macros.h").read_text("utf-8", "replace")
            except (BuildError, OSError) as error:
                hangs = isinstance(error, BuildError) and error.transient
                tried.append(f"{command[0]} gave no answer" if hangs else command[0])
                continue
        version = _version(macros)
        if version.startswith("gcc"):  # Else libraries of one process share the constants of equally named classes.
            command.append("-fno-gnu-unique")
        return _Compiler(tuple(command), version, hashlib.sha256(macros.encode()).hexdigest())
    if chosen:
        found = f" ({tried[0]}) takes no C++20 for {platform.machine()}" if tried else " names no program"
        return _Compiler(missing=f"CXX={cxx}{found}; unset CXX or name a C++ compiler")
    if tried:
        names = ", ".join(tried)
        return _Compiler(missing=f"no C++ compiler of this machine ({names}) takes C++20 for {platform.machine()}")
    return _Compiler(missing="this machine has no C++ compiler: CXX is not set, and there is no c++, g++ or clang++")


def _compiler() -> _Compiler:
    return _find(os.environ.get("CXX"), os.environ.get("PATH"))


def reason() -> str | None:
    """Return in one sentence why kernels cannot be compiled for this machine, or None if they can."""
    return _compiler().missing


def toolchain() -> str:
    """Return the compiler and its version as one word, "host-gcc12.2.0"; "host-none" without one."""
    return f"host-{_compiler().version}"


def ingredients(source: Source, arch: Arch) -> dict[str, Any]:
    """Return the dependencies of a library except for its source's text: compiler, flags, and included headers."""
    compiler = _compiler()
    return {
        "compiler": compiler.identity,
        "flags": [*compiler.command[1:], *_VISIBLE_FLAGS, *_arch_flags(arch), *source.flags],
        "headers": headers.digests(source.text + _ENTRIES_INCLUDE, _INCLUDES),
    }


def _arch_flags(arch: Arch) -> tuple[str, ...]:
    return (f"-D__AIE_ARCH__={_ARCH_NUMBER[arch]}",)


_spelling: Final = itertools.count()


def load_library(content: bytes) -> ctypes.CDLL:
    """Load a shared library from its bytes. Raises OSError.

    A loaded file stays mapped: writing to it changes the running code. A private copy is therefore loaded, from memory
    if the system has such files, because temporary directories may forbid execution.
    """
    try:
        memory = os.memfd_create("npu_tensor") if os.path.isdir("/proc/self/fd") else None
    except (AttributeError, OSError):  # Not on this system, or forbidden: vm.memfd_noexec=2.
        memory = None
    if memory is None:
        with tempfile.NamedTemporaryFile(suffix=SUFFIX) as copy:
            copy.write(content)
            copy.flush()
            return ctypes.CDLL(copy.name)
    with open(memory, "wb") as file:
        file.write(content)
        file.flush()
        # File numbers are reused, and the loader treats equal names as one library: spell each name differently.
        spelling = f"{next(_spelling):b}".replace("0", "./").replace("1", ".//")
        return ctypes.CDLL(f"/proc/self/fd/{spelling}{file.fileno()}")


class CompiledSource:
    """Callable functions of one source. content: bytes of the shared library."""

    def __init__(self, content: bytes, source: Source, functions: Sequence[KernelFunction]) -> None:
        try:
            self._library = load_library(content)
        except OSError as error:
            raise BuildError(f"the object of {source.name} cannot be loaded: {error}") from None
        for function in functions:
            if not hasattr(self._library, function.symbol):
                raise BuildError(f'the object of {source.name} has no extern "C" function {function.symbol}')
            if not hasattr(self._library, f"nt_host_entry_{function.symbol}"):
                raise BuildError(f"the object of {source.name} was compiled without an entry for {function.symbol}")

    def entry(self, function: KernelFunction) -> Entry:
        """Return the entry of one of the functions that were passed to `compile_source`.

        It flushes denormals, and returns the message of a failed assertion. Other threads run meanwhile.
        """
        types = [ctypes.c_void_p if isinstance(a, ObjectType) else _NUMBERS[a].ctype for a in function.arguments]
        address = ctypes.c_void_p.in_dll(self._library, f"nt_host_entry_{function.symbol}").value
        assert address is not None
        entry: Entry = ctypes.CFUNCTYPE(ctypes.c_char_p, *types)(address)
        return entry


def functions_by_source(configuration: Configuration | ArrayProgram) -> dict[Source, list[KernelFunction]]:
    """Return the sources of a configuration or a program with their functions."""
    functions: dict[Source, list[KernelFunction]] = {}
    for function in configuration.functions:
        functions.setdefault(function.source, []).append(function)
    return functions


_loaded: dict[str, CompiledSource] = {}


def load(path: Path, sha256: str, source: Source, functions: Sequence[KernelFunction]) -> CompiledSource:
    """Load the library at `path`, whose contents have this digest, with the functions that it was made for.

    Equal libraries are loaded once.

    Raises:
        BuildError: The library cannot be loaded, has changed, or lacks a function.
    """
    compiled = _loaded.get(sha256)
    if compiled is None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BuildError(f"the object of {source.name} cannot be read: {error}") from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise BuildError(f"{path} was changed after it had been verified")
        compiled = _loaded.setdefault(sha256, CompiledSource(content, source, functions))
    return compiled


def compile_source(source: Source, arch: Arch, functions: Sequence[KernelFunction]) -> CompiledSource:
    """Compile the declared functions of a source for this machine, or load them from the cache.

    Raises:
        BuildError: There is no compiler, the source is wrong (with the compiler's messages), or a function is missing
            or declared with other arguments.
    """
    stored = library(source, arch, functions)
    return load(stored.files[SUFFIX], stored.description["files"][SUFFIX]["sha256"], source, functions)


def library(source: Source, arch: Arch, functions: Sequence[KernelFunction] = (), force: bool = False) -> Artifact:
    """Return the shared library of a source from the cache, as one file under SUFFIX, and compile it if necessary.

    With functions, the simulator can call the library; their arguments are checked at compile time.

    Args:
        source: Source to compile.
        arch: Generation of the array.
        functions: Functions that get entries.
        force: True to compile even if the library is cached.

    Raises:
        BuildError: Compilation failed.
    """
    compiler = _compiler()
    if compiler.missing is not None:
        raise BuildError(compiler.missing)
    entries = "".join(map(_entry, functions))
    made_from = {
        "arch": arch,
        "entries": entries,
        "source": source.text,
        "toolchain": toolchain(),
        **ingredients(source, arch),
    }
    key = kernel_key(made_from)
    build = partial(_build, compiler, arch, source, entries, functions)
    stored, _ = store.get_or_build(f"{arch}-{toolchain()}", source.name, key, build, made_from, force)
    return stored


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


def _build(
    compiler: _Compiler,
    arch: Arch,
    source: Source,
    entries: str,
    functions: Sequence[KernelFunction],
    directory: Path,
) -> dict[str, Path]:
    for function in functions:
        if re.search(rf"\b{re.escape(function.symbol)}\b", source.text) is None:
            raise BuildError(f"the source {source.name} has no function {function.symbol}")
    # Relative names and a separate file for the source let the compiler's messages name it and show its lines.
    name = re.sub(r"\W", "_", source.name) + ".cc"
    (directory / name).write_text(source.text, "utf-8")
    (directory / "host_entries.cpp").write_text(f'#include "{name}"\n{_ENTRIES_INCLUDE}{entries}', "utf-8")
    flags = (*_FLAGS, *_arch_flags(arch), *source.flags)
    command = [*compiler.command, *flags, "-fPIC", "-shared", "-o", "library.so", "host_entries.cpp"]
    try:
        run(command, directory, directory / "build.log", config.build_seconds)
    except BuildError as error:
        message = f"the source {source.name} does not compile for this machine:\n{error}"
        raise BuildError(message, transient=error.transient) from None
    return {SUFFIX: directory / "library.so"}
