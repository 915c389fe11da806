"""C++ for the cores that is not made for one design: a function for each op and dtype, by family.

    Source.BINARY.text()    # extern "C" void nt_add_bfloat16(const bfloat16 *, const bfloat16 *, bfloat16 *, int32) ...

Functions take a pointer for each operand, one for the result, and the number of elements, a multiple of 64. Their
formulas are those of the op registry.
"""

from __future__ import annotations

import enum
from typing import Final

from npu_tensor.dataflow import design
from npu_tensor.dataflow.design import KernelFunction, ObjectType
from npu_tensor.dtypes import DType, bfloat16, float32, int32
from npu_tensor.kernels import emitter
from npu_tensor.ops import OPS
from npu_tensor.ops.expression import Builder
from npu_tensor.spec import Spec

__all__ = ["Source", "symbol"]

DTYPES: Final = (bfloat16, float32, int32)
"""An op has a function for each of them that it can be computed in."""

_HEADER: Final = '#include <aie_api/aie.hpp>\n\n#include "nt/vector_math.hpp"\n'


class Source(enum.Enum):
    """A family of functions: the ops in it."""

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
        text = design.Source(self.label, self.text())
        return [
            KernelFunction(
                symbol(op, dtype), (*(ObjectType(dtype.name, (64,)),) * (len(OPS[op].operands) + 1), "int32"), text
            )
            for op, dtype in _texts(self)
        ]


def symbol(op: str, dtype: DType) -> str:
    """The name of the function for an op and the dtype of its operands and result."""
    return f"nt_{op}_{dtype.name}"


def _texts(source: Source) -> dict[tuple[str, DType], str]:
    """The C++ of every function."""
    made = {(op, dtype): _function(op, dtype) for op in source.value for dtype in DTYPES}
    return {key: text for key, text in made.items() if text is not None}


def _function(op: str, dtype: DType) -> str | None:
    """None if the op is not computed in the dtype: functions of integers whose results are floats."""
    operands = OPS[op].operands
    specs = (Spec.of((64,), dtype),) * len(operands)
    call = OPS[op].call(specs, tuple(attribute.default for attribute in OPS[op].attributes))
    if call.spec.dtype is not dtype:
        return None
    builder = Builder()
    loads = [
        builder.load(slot, dtype.register).astype(register or dtype.register)
        for slot, register in enumerate(call.registers)
    ]
    result = OPS[op].body(*loads, **call.attributes).astype(dtype.register)
    program = builder.program([result])
    if emitter.refusal(program) is not None:
        return None
    lanes = emitter.lanes(program)
    given = {
        number: f"nt::load<{emitter.REGISTERS[step.dtype]}, {lanes}>(in{step.value} + i)"
        for number, step in enumerate(program.instructions)
        if step.primitive == "load"
    }
    code = emitter.statements(program, given, lanes, "half" if dtype is bfloat16 else "full")
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
