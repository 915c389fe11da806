"""The C++ of an element-wise design: one function for a tile, and one for each operand that stays in the core."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.kernels import emitter
from npu_tensor.kernels.elementwise_plan import Operand, Plan
from npu_tensor.ops.expression import Program

__all__ = ["Formula", "keep_text", "map_text"]

INCLUDES: Final = '#include <aie_api/aie.hpp>\n\n#include "nt/vector_math.hpp"\n'


class Formula(NamedTuple):
    """What is computed: the ops' names for a comment, the program and the vectors it works in.

    slots: for each slot of the program, the position among the design's inputs, or ~word for a word of the run-time
    parameter. precision: what the outputs need.
    """

    name: str
    program: Program
    slots: tuple[int, ...]
    lanes: int
    precision: emitter.Precision

    @property
    def words(self) -> int:
        """How many words of run-time parameters it reads."""
        return sum(slot < 0 for slot in self.slots)


def _pointer(operand: Operand, name: str) -> str:
    return f"const {emitter.MEMORY[operand.dtype]} *__restrict {name}"


def parameters(plan: Plan, formula: Formula) -> list[str]:
    """Parameters of the function for a tile, in C++: input channels, kept inputs, outputs, position, words."""
    inputs = plan.inputs
    declared = [
        _pointer(inputs[channel[0]], f"in{channel[0]}" if len(channel) == 1 else f"channel{number}")
        for number, channel in enumerate(plan.channels)
    ]
    declared += [_pointer(inputs[kept], f"in{kept}") for kept in plan.kept]
    declared += [
        f"{emitter.MEMORY[output.dtype]} *__restrict out{number}" for number, output in enumerate(plan.outputs)
    ]
    if plan.columns:
        declared.append("int32 *__restrict position")
    if formula.words:
        declared.append("const int32 *__restrict words")
    return declared


def map_text(plan: Plan, formula: Formula) -> str:
    """The function nt_map: one tile."""
    program, lanes = formula.program, formula.lanes
    given: dict[int, str] = {}
    invariant: set[int] = set()
    for number, instruction in enumerate(program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        slot, dtype = formula.slots[instruction.value], instruction.dtype
        if slot < 0:
            given[number] = emitter.broadcast(_word(~slot, dtype), dtype, lanes)
        elif slot in plan.columns:
            number_type = emitter.REGISTERS[dtype]
            value = f"static_cast<{number_type}>(in{slot}[first + row])"
            given[number] = emitter.broadcast(value, dtype, lanes)
        else:
            given[number] = f"nt::load<{emitter.REGISTERS[dtype]}, {lanes}>(in{slot} + i)"
        if slot < 0:
            invariant.add(number)
    short = {
        number
        for number in given
        if (slot := formula.slots[program.instructions[number].value]) >= 0 and plan.inputs[slot].dtype == "bfloat16"
    }
    code = emitter.statements(program, given, lanes, formula.precision, invariant=invariant, short=short)
    by_row = {
        code.values[number] for number in given if formula.slots[program.instructions[number].value] in plan.columns
    }
    in_row = [line for line in code.body if line.split()[2] in by_row]
    stores = [f"nt::store(out{number} + i, {code.values[root]});" for number, root in enumerate(program.outputs)]
    vector = [*(line for line in code.body if line not in in_row), *stores]
    return _function(plan, formula, [*_views(plan), *code.hoisted], in_row, vector)


def _views(plan: Plan) -> list[str]:
    """Pointers to the operands that share an object."""
    lines = []
    for number, channel in enumerate(plan.channels):
        if len(channel) == 1:
            continue
        for part, position in enumerate(channel):
            operand = plan.inputs[position]
            tile = f"channel{number} + {part * plan.tile}"
            if operand.dtype != plan.inputs[channel[0]].dtype:
                tile = f"reinterpret_cast<const {emitter.MEMORY[operand.dtype]} *>({tile})"
            lines.append(f"{_pointer(operand, f'in{position}')} = {tile};")
    return lines


def _word(word: int, dtype: str) -> str:
    if dtype == "float32":
        return f"__builtin_bit_cast(float, words[{word}])"
    return f"static_cast<{'bool' if dtype == 'bool' else emitter.REGISTERS[dtype]}>(words[{word}])"


def _function(plan: Plan, formula: Formula, before: list[str], in_row: list[str], vector: list[str]) -> str:
    lines = [
        f"// {formula.name}",
        f'extern "C" void nt_map({", ".join(parameters(plan, formula))}) {{',
        "  aie::set_rounding(aie::rounding_mode::conv_even);",
        *(f"  {line}" for line in before),
    ]
    if plan.columns:
        rows = plan.tile // plan.width
        lines += [
            "  const int32 first = position[0];",
            f"  for (unsigned row = 0; row < {rows}; ++row) {{",
            *(f"    {line}" for line in in_row),
            f"    for (unsigned i = row * {plan.width}; i < (row + 1) * {plan.width}; i += {formula.lanes}) {{",
            *(f"      {line}" for line in vector),
            "    }",
            "  }",
            f"  position[0] = first + {rows * plan.cores};",
        ]
    else:
        lines += [
            f"  for (unsigned i = 0; i < {plan.tile}; i += {formula.lanes}) {{",
            *(f"    {line}" for line in vector),
            "  }",
        ]
    return "\n".join([INCLUDES, *lines, "}", ""])


def keep_text(plan: Plan, position: int, vectors: int) -> str:
    """The function that copies a kept input, `vectors` vectors of it, out of the object that brings it.

    With column operands it also sets the position among their values at which a core begins.
    """
    carrier, kept = plan.inputs[plan.channels[plan.carrier][0]], plan.inputs[position]
    lanes = emitter.VECTOR_BYTES // kept.itemsize
    state = ", int32 *__restrict position, int32 first_row" if position in plan.columns else ""
    source = (
        "object" if kept.dtype == carrier.dtype else f"reinterpret_cast<const {emitter.MEMORY[kept.dtype]} *>(object)"
    )
    return "\n".join(
        [
            f'extern "C" void nt_keep{position}({_pointer(carrier, "object")}, '
            f"{emitter.MEMORY[kept.dtype]} *__restrict kept{state}) {{",
            f"  {_pointer(kept, 'source')} = {source};",
            f"  for (unsigned i = 0; i < {vectors * lanes}; i += {lanes})",
            f"    aie::store_v(kept + i, aie::load_v<{lanes}>(source + i));",
            *(["  position[0] = first_row;"] if state else []),
            "}",
            "",
        ]
    )
