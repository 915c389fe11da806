"""C++ of one's own as a binary in the cache, compiled when it is first needed.

    cache = CacheManager("sim:npu2")
    binary = cache.get_or_compile("scale", '#include <aie_api/aie.hpp> ... extern "C" void nt_scale(...)')
    binary.path                     # <cache directory>/aie2p-host-gcc12.2.0/scale_0123456789abcdef.so
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from npu_tensor.dataflow.array import Arch, arch_of
from npu_tensor.dataflow.design import KernelFunction, Source
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.sim import host_compiler

__all__ = ["CacheManager", "CompiledBinary"]


class CompiledBinary(NamedTuple):
    """A shared library in the cache, verified when it was handed out. sha256: of its contents, in hexadecimal."""

    name: str
    path: Path
    key: str
    sha256: str

    def read(self) -> bytes:
        """Its contents."""
        return self.path.read_bytes()


class CacheManager:
    """Compiles C++ for one generation of the array, as the simulated NPU runs it. Safe to use from several threads.

    device: a URI such as "sim:npu1", or a generation, "aie2" or "aie2p". The names of real devices are known too, but
    what is compiled runs on this machine. Raises DeviceError for others.
    """

    def __init__(self, device: str = "sim:npu2") -> None:
        name = device.removeprefix("sim:").partition("?")[0]
        self.arch: Arch = arch_of(name)

    def get_or_compile(
        self, name: str, source: str, functions: Sequence[KernelFunction] = (), flags: tuple[str, ...] = ()
    ) -> CompiledBinary:
        """The binary of C++ with extern "C" functions: from the cache, or compiled and kept there.

        name: what the file is called, with the digest of everything that it depends on: text, headers, flags, compiler.
        functions: those that a Module shall be able to call, declared with their arguments. One process compiles, the
        others wait for it. Raises BuildError with what the compiler says.
        """
        if not name or not name.replace("_", "").replace("-", "").isalnum():
            raise ArgumentError(f"a binary is named by letters, digits, - and _, not by {name!r}")
        made = host_compiler.library(Source(name, source, flags), self.arch, functions)
        record = made.description["files"][host_compiler.SUFFIX]
        return CompiledBinary(name, made.files[host_compiler.SUFFIX], made.key, record["sha256"])
