"""C++ for cores, compiled for this machine as the simulator does, and called with NumPy arrays."""

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

import npu_tensor.kernels

ARCHS = {"aie2": 20, "aie2p": 21}
FOLDER = Path(npu_tensor.kernels.__file__).parent

# Runs `body`, and returns the complaint of the array's API, or null.
GUARD = """
#include <nt_host.hpp>
template <typename Body>
const char *guarded(Body body) {
    static char message[256];
    const nt_host::FlushDenormals mode;
    nt_host::core_state = {};
    try {
        body();
    } catch (const std::exception &error) {
        std::snprintf(message, sizeof message, "%s", error.what());
        return message;
    }
    return nullptr;
}
"""


def _command(arch: str) -> list[str]:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        pytest.skip("no C++ compiler (g++ or clang++) on this machine")
    includes = [f"-I{FOLDER / 'host'}", f"-I{FOLDER / 'include'}"]
    warnings = ["-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-variable"]
    return [compiler, "-std=c++20", "-O1", "-march=native", f"-D__AIE_ARCH__={ARCHS[arch]}", *includes, *warnings]


def compile_error(source: str, arch: str) -> str:
    """Return the compiler's errors for a source; empty if it compiles."""
    command = [*_command(arch), "-fsyntax-only", "-x", "c++", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=False).stderr


def compile_library(source: str, arch: str, directory: Path, *options: str) -> ctypes.CDLL:
    """A library whose functions return a complaint or nothing, as those that use `guarded` do.

    The processes that share the directory compile it once.
    """
    command = [*_command(arch), "-Werror", "-shared", "-fPIC", *options, "-x", "c++", "-"]
    digest = hashlib.sha256("\0".join([*command, source]).encode()).hexdigest()
    path = directory / f"{digest}.so"
    with FileLock(directory / f"{digest}.lock"):
        if not path.exists():
            made = path.with_suffix(".part")
            result = subprocess.run(
                [*command, "-o", str(made)], input=source, text=True, capture_output=True, check=False
            )
            assert result.returncode == 0, result.stderr
            made.rename(path)
    return ctypes.CDLL(str(path))


def aligned(array: np.ndarray[Any, Any], offset: int = 0) -> np.ndarray[Any, Any]:
    """Return a copy whose address is `offset` bytes after a multiple of 64."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def call(library: ctypes.CDLL, name: str, *arguments: np.ndarray[Any, Any] | int) -> None:
    """Call a function with the addresses of arrays, which it may change, and numbers. Raises RuntimeError."""
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    complaint = function(
        *(
            ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_void_p(argument.ctypes.data)
            for argument in arguments
        )
    )
    if complaint:
        raise RuntimeError(complaint.decode())
