"""C++ for the cores that is not made for one design: ready functions of ops, or C++ of one's own.

    binary = CacheManager("sim:npu2").get_or_compile("scale", '... extern "C" void nt_scale(...)')
    binary.path                     # <cache directory>/aie2p-host-gcc12.2.0/scale_0123456789abcdef.so

    module = KernelManager("sim:npu2").get_or_compile_module(Family.BINARY)
    add = module.function(symbol("add", nt.bfloat16))
    add(x, y, out, 1024)

Both are compiled when they are first needed, kept in the cache, and loaded once per process.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Arch, arch_of
from npu_tensor.dataflow.design import KernelFunction, ObjectType, Source
from npu_tensor.dtypes import DType, bfloat16, float32, int32
from npu_tensor.errors import ArgumentError, BuildError, LaunchError
from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops import OPS
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.spec import Spec

__all__ = ["CacheManager", "CompiledBinary", "Family", "KernelManager", "Module", "symbol"]

DTYPES: Final = (bfloat16, float32, int32)
"""An op has a function for each of them that it can be computed in."""

_HEADER: Final = '#include <aie_api/aie.hpp>\n\n#include "nt/vector_math.hpp"\n'


class Family(enum.Enum):
    """A family of functions: the ops in it. `text` is their C++.

    Functions take a pointer for each operand, one for the result, and the number of elements, a multiple of 64. Their
    formulas are those of the op registry.
    """

    BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
    UNARY = (
        *("abs", "sgn", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu_tanh", "gelu_quick", "silu"),
        *("hardswish", "hardsigmoid", "exp", "gelu_erf"),
    )

    @property
    def label(self) -> str:
        """What compiled binaries are called: "binary", "unary"."""
        return self.name.lower()

    def text(self) -> str:
        """The C++ of the family."""
        return "\n".join([_HEADER, *_texts(self).values()])

    def functions(self) -> list[KernelFunction]:
        """How the functions are declared. The length of what a pointer points to is given with every call."""
        text = Source(self.label, self.text())
        return [KernelFunction(symbol(op, dtype), (*_pointers(op, dtype), "int32"), text) for op, dtype in _texts(self)]


def symbol(op: str, dtype: DType) -> str:
    """The name of the function for an op and the dtype of its operands and result."""
    return f"nt_{op}_{dtype.name}"


def _pointers(op: str, dtype: DType) -> tuple[ObjectType, ...]:
    return (ObjectType(dtype.name, (64,)),) * (len(OPS[op].operands) + 1)


@cache
def _texts(family: Family) -> dict[tuple[str, DType], str]:
    """The C++ of every function."""
    texts = {(op, dtype): _function(op, dtype) for op in family.value for dtype in DTYPES}
    return {key: text for key, text in texts.items() if text is not None}


def _function(op: str, dtype: DType) -> str | None:
    """None if the op is not computed in the dtype: functions of integers whose results are floats."""
    operands = OPS[op].operands
    specs = (Spec.of((64,), dtype),) * len(operands)
    call = OPS[op].call(specs, tuple(attribute.default for attribute in OPS[op].attributes))
    if call.spec.dtype is not dtype:
        return None
    builder = ProgramBuilder()
    loads = [
        builder.load(slot, dtype.register).astype(register or dtype.register)
        for slot, register in enumerate(call.registers)
    ]
    result = OPS[op].body(*loads, **call.attributes).astype(dtype.register)
    program = builder.program([result])
    if emitter.refusal(program) is not None:
        return None
    lanes = emitter.lanes(program)
    operand_code = {
        number: f"nt::load<{emitter.REGISTERS[step.dtype]}, {lanes}>(in{step.value} + i)"
        for number, step in enumerate(program.instructions)
        if step.primitive == "load"
    }
    code = emitter.statements(program, operand_code, lanes, "half" if dtype is bfloat16 else "full")
    memory = emitter.MEMORY[dtype.name]
    pointers = [f"const {memory} *__restrict in{slot}" for slot in range(len(operands))]
    parameters = ", ".join([*pointers, f"{memory} *__restrict out", "int32 elements"])
    lines = [
        f'extern "C" void {symbol(op, dtype)}({parameters}) {{',
        "  aie::set_rounding(aie::rounding_mode::conv_even);",
        *(f"  {line}" for line in code.hoisted),
        f"  for (int32 i = 0; i < elements; i += {lanes}) {{",
        *(f"    {line}" for line in code.body),
        f"    nt::store(out + i, {code.values[program.outputs[0]]});",
        "  }",
        "}",
        "",
    ]
    return "\n".join(lines)


class CompiledBinary(NamedTuple):
    """A shared library in the cache, verified when it was handed out. sha256: of its contents, in hexadecimal."""

    name: str
    path: Path
    key: str
    sha256: str


class CacheManager:
    """Compiles C++ for one generation of the array, as the simulated NPU runs it. Safe to use from several threads.

    device: a URI such as "sim:npu1", or a generation, "aie2" or "aie2p". The names of real devices are known too, but
    what is compiled runs on this machine. Raises DeviceError for others.
    """

    def __init__(self, device: str = "sim:npu2") -> None:
        name = device.removeprefix("sim:").partition("?")[0]
        self.arch: Arch = arch_of(name)

    def get_or_compile(self, name: str, source: str, functions: Sequence[KernelFunction] = ()) -> CompiledBinary:
        """The binary of C++ with extern "C" functions: from the cache, or compiled and kept there.

        name: what the file is called, with the digest of everything that it depends on: text, headers, flags, compiler.
        functions: those that a Module shall be able to call, declared with their arguments. One process compiles, the
        others wait for it. Raises BuildError with what the compiler says.
        """
        if not name or not name.replace("_", "").replace("-", "").isalnum():
            raise ArgumentError(f"a binary is named by letters, digits, - and _, not by {name!r}")
        library = host_compiler.library(Source(name, source), self.arch, functions)
        record = library.description["files"][host_compiler.SUFFIX]
        return CompiledBinary(name, library.files[host_compiler.SUFFIX], library.key, record["sha256"])


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
            return cls(host_compiler.load_library(data))
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
            converted = [_argument(argument) for argument in arguments]
            failed = ctypes.CFUNCTYPE(ctypes.c_char_p, *map(type, converted))(address)(*converted)
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

    def get_or_compile_module(self, family: Family) -> Module:
        """The functions of a family: the same object for every caller and every manager. Raises BuildError."""
        binary = self.cache.get_or_compile(family.label, family.text(), family.functions())
        return _modules.get(binary.sha256) or _modules.setdefault(binary.sha256, Module.load(binary.path))
