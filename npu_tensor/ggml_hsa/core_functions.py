"""C++ functions for the cores that do not belong to a design: functions of ops, or C++ of the user.

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

DTYPES: Final = (bfloat16, float32, int32)
"""Dtypes of the functions; an op has one for each that it supports."""

_HEADER: Final = '#include <aie_api/aie.hpp>\n\n#include "nt/vector_math.hpp"\n'


class Family(enum.Enum):
    """A family of functions, one for each op and dtype, with the formulas of the op registry.

    Functions take a pointer for each operand, one for the result, and the number of elements, a multiple of 64.
    """

    BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
    UNARY = (
        *("abs", "sgn", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu_tanh", "gelu_quick", "silu"),
        *("hardswish", "hardsigmoid", "exp", "gelu_erf"),
    )

    @property
    def label(self) -> str:
        """Name of the compiled binary: "binary" or "unary"."""
        return self.name.lower()

    def text(self) -> str:
        """Return the C++ of the family."""
        return "\n".join([_HEADER, *_texts(self).values()])

    def functions(self) -> list[KernelFunction]:
        """Return the declarations of the functions. The length of arrays is an argument of every call."""
        text = Source(self.label, self.text())
        return [KernelFunction(symbol(op, dtype), (*_pointers(op, dtype), "int32"), text) for op, dtype in _texts(self)]


def symbol(op: str, dtype: DType) -> str:
    """Return the name of the function for an op and the dtype of its operands and result."""
    return f"nt_{op}_{dtype.name}"


def _pointers(op: str, dtype: DType) -> tuple[ObjectType, ...]:
    return (ObjectType(dtype.name, (64,)),) * (len(OPS[op].operands) + 1)


@cache
def _texts(family: Family) -> dict[tuple[str, DType], str]:
    """Return the C++ of every function."""
    texts = {(op, dtype): _function(op, dtype) for op in family.value for dtype in DTYPES}
    return {key: text for key, text in texts.items() if text is not None}


def _function(op: str, dtype: DType) -> str | None:
    """Return the C++ of a function, or None if the op does not support the dtype."""
    operands = OPS[op].operands
    specs = (Spec.of((64,), dtype),) * len(operands)
    call = OPS[op].call(specs, OPS[op].defaults)
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
    choice = emitter.choose(program, operand_code, "half" if dtype is bfloat16 else "full")
    code = emitter.statements(choice, operand_code, lanes)
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
    """A verified shared library in the cache."""

    name: str
    path: Path
    key: str
    sha256: str


class CacheManager:
    """Compiles C++ for one generation of the array, to run on this machine. Safe to use from several threads.

    Args:
        device: URI such as "sim:npu1", generation such as "aie2", or name of a real device.

    Raises:
        DeviceError: The device is unknown.
    """

    def __init__(self, device: str = "sim:npu2") -> None:
        name = device.removeprefix("sim:").partition("?")[0]
        self.arch: Arch = arch_of(name)

    def get_or_compile(self, name: str, source: str, functions: Sequence[KernelFunction] = ()) -> CompiledBinary:
        """Return the binary of C++ with extern "C" functions, from the cache if it is there.

        Args:
            name: Start of the file name, which also has a digest of text, headers, flags and compiler.
            source: The C++.
            functions: Declarations of the functions that a `Module` can call.

        Raises:
            BuildError: The message of the compiler.
        """
        if not name or not name.replace("_", "").replace("-", "").isalnum():
            raise ArgumentError(f"a binary is named by letters, digits, - and _, not by {name!r}")
        library = host_compiler.library(Source(name, source), self.arch, functions)
        record = library.description["files"][host_compiler.SUFFIX]
        return CompiledBinary(name, library.files[host_compiler.SUFFIX], library.key, record["sha256"])


class Module:
    """A loaded library of functions for the cores."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def load(cls, path: Path) -> Module:
        """Load the library in a file. Raises BuildError."""
        return cls.load_data(path.read_bytes())

    @classmethod
    def load_data(cls, data: bytes) -> Module:
        """Load a library from its bytes. Raises BuildError."""
        try:
            return cls(host_compiler.load_library(data))
        except OSError as error:
            raise BuildError(f"the library cannot be loaded: {error}") from None

    def function(self, symbol: str) -> Callable[..., None]:
        """Return a function of the library, which takes arrays, int32 and float32.

        Arrays must be contiguous and aligned to 64 bytes; their length is not checked. Calls raise LaunchError if an
        assertion of the C++ fails. Raises ArgumentError if there is no such function.
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
"""Loaded modules of this process, by the digest of their library."""


class KernelManager:
    """Modules of one generation of the array. Safe to use from several threads."""

    def __init__(self, device: str = "sim:npu2") -> None:
        self.cache = CacheManager(device)

    def get_or_compile_module(self, family: Family) -> Module:
        """Return the module of a family, the same object for all managers of a process. Raises BuildError."""
        binary = self.cache.get_or_compile(family.label, family.text(), family.functions())
        return _modules.get(binary.sha256) or _modules.setdefault(binary.sha256, Module.load(binary.path))
