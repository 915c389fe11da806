"""The C++ of an element-wise design: one function for a tile, and one for each operand that stays in the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.codegen.words import keep_function, runtime_word
from npu_tensor.kernels.elementwise.tiling import ElementwisePlan, StridedOperand
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import Program

__all__ = ["Formula", "keep_text", "map_text", "short_loads"]

INCLUDES: Final = ("#include <aie_api/aie.hpp>", "", '#include "nt/vector_math.hpp"', "")


class Formula(NamedTuple):
    """What is computed: the ops' names for a comment, the program and the vectors it works in.

    slots: for each slot of the program, the position among the design's inputs, or ~word for a word of the run-time
    parameter. precision: what the outputs need.
    """

    name: str
    program: Program
    slots: tuple[int, ...]
    lanes: int
    precision: Precision

    @property
    def words(self) -> int:
        """How many words of run-time parameters it reads."""
        return sum(slot < 0 for slot in self.slots)


def _pointer(operand: StridedOperand, name: str) -> str:
    return f"const {emitter.MEMORY[operand.dtype]} *__restrict {name}"


def _parameters(plan: ElementwisePlan, formula: Formula) -> list[str]:
    """Parameters of the function for a tile, in C++: input channels, resident inputs, outputs, position, words."""
    inputs = plan.inputs
    declared = [
        _pointer(inputs[channel[0]], f"in{channel[0]}" if len(channel) == 1 else f"channel{number}")
        for number, channel in enumerate(plan.channels)
    ]
    declared += [_pointer(inputs[slot], f"in{slot}") for slot in plan.resident]
    declared += [
        f"{emitter.MEMORY[output.dtype]} *__restrict out{number}" for number, output in enumerate(plan.outputs)
    ]
    if plan.columns:
        declared.append("int32 *__restrict position")
    if formula.words:
        declared.append("const int32 *__restrict words")
    return declared


def short_loads(plan: ElementwisePlan, formula: Formula) -> set[int]:
    """The loads of numbers that are bfloat16 in memory."""
    return {
        number
        for number, (primitive, _, _, slot) in enumerate(formula.program.instructions)
        if primitive == "load" and plan.inputs[formula.slots[slot]].dtype == "bfloat16"
    }


def map_text(plan: ElementwisePlan, formula: Formula) -> str:
    """The function nt_map: one tile. Column operands put a loop over rows around the loop over vectors."""
    program, lanes = formula.program, formula.lanes
    expressions: dict[int, str] = {}
    same: set[int] = set()  # in every vector of a row
    for number, instruction in enumerate(program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        slot, dtype = formula.slots[instruction.value], instruction.dtype
        if slot < 0:
            expressions[number] = emitter.broadcast(runtime_word("words", ~slot, dtype), dtype, lanes)
            same.add(number)
        elif slot in plan.columns:
            value = f"static_cast<{emitter.REGISTERS[dtype]}>(in{slot}[first + row])"
            expressions[number] = emitter.broadcast(value, dtype, lanes)
            same.add(number)
        else:
            expressions[number] = f"nt::load<{emitter.REGISTERS[dtype]}, {lanes}>(in{slot} + i)"
    code = emitter.statements(
        program, expressions, lanes, formula.precision, invariant=same, short=short_loads(plan, formula)
    )
    stores = [f"nt::store(out{number} + i, {code.values[root]});" for number, root in enumerate(program.outputs)]
    lines = [
        *INCLUDES,
        f"// {formula.name}",
        f'extern "C" void nt_map({", ".join(_parameters(plan, formula))}) {{',
        "  aie::set_rounding(aie::rounding_mode::conv_even);",
        *_indented(1, _views(plan)),
    ]
    vector = _indented(1, [*code.body, *stores])
    if plan.columns:
        rows = plan.tile // plan.width
        begin, end = f"row * {plan.width}", f"(row + 1) * {plan.width}"
        row = [*code.hoisted, f"for (unsigned i = {begin}; i < {end}; i += {lanes}) {{", *vector, "}"]
        lines += [
            "  const int32 first = position[0];",
            f"  for (unsigned row = 0; row < {rows}; ++row) {{",
            *_indented(2, row),
            "  }",
            f"  position[0] = first + {rows * plan.cores};",
        ]
    else:
        tile = [*code.hoisted, f"for (unsigned i = 0; i < {plan.tile}; i += {lanes}) {{", *vector, "}"]
        lines += _indented(1, tile)
    return "\n".join([*lines, "}", ""])


def _indented(levels: int, lines: Sequence[str]) -> list[str]:
    return ["  " * levels + line for line in lines]


def _views(plan: ElementwisePlan) -> list[str]:
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


def keep_text(plan: ElementwisePlan, slot: int) -> str:
    """The function that copies a resident input out of the object that brings it.

    With column operands it also sets the position among their values at which a core begins.
    """
    carrier, resident = plan.inputs[plan.channels[plan.carrier][0]], plan.inputs[slot]
    begin = (
        (", int32 *__restrict position, int32 first_row", "position[0] = first_row;") if slot in plan.columns else ()
    )
    return keep_function(slot, emitter.MEMORY[carrier.dtype], emitter.MEMORY[resident.dtype], *begin)
